# SPDX-License-Identifier: Apache-2.0
"""The cycles of flash behind small caches, and the boards whose flash is known, as a model.

STM32's accelerators (reference manual RM0432, section 3.3.4) keep recently used code and constants,
and read the code behind the last branch ahead. Here both caches are fully associative and
prefetched bytes are there as soon as the granule before has been executed, which takes as many
cycles as it has instructions: a model that flatters where instructions wait for each other.

A serial flash (QSPI) that code runs from is read a line of its cache at a time, and nothing ahead:
each read is a command, an address and dummy clocks, then the line.
"""

from __future__ import annotations

from dataclasses import dataclass, replace

from .counts import Caches, Counts


@dataclass(frozen=True)
class Flash:
    """Bytes of a line of its caches, which one wait fills, and of the caches. waits: states of one
    read. bus: of a serial flash, which reads nothing ahead."""

    granule: int
    code_bytes: int
    data_bytes: int
    waits: int = 0
    bus: str = ""

    @property
    def caches(self) -> Caches:
        return Caches(
            self.granule, self.code_bytes // self.granule, self.data_bytes // self.granule
        )

    @property
    def said(self) -> str:
        """The assumption."""
        sizes = f"{self.code_bytes:,} bytes of code and {self.data_bytes:,} of constants"
        if self.bus:
            line = f"{self.waits} cycles for a line of {self.granule} bytes"
            return f"{self.bus} flash, {line}, {sizes} cached"
        return f"flash of {self.waits} wait states, {sizes} cached"

    def stalls(self, counts: Counts) -> int:
        """Cycles that code and constants are waited for."""
        # Thumb instructions of a granule, most of which are four bytes long and take a cycle.
        ahead = 0 if self.bus else self.granule // 4
        behind = max(self.waits - ahead, 0)
        missed = counts.jumps_missed + counts.data_missed
        return self.waits * missed + behind * counts.lines_missed

    def fetched(self, counts: Counts) -> int:
        """Bytes of code and constants that are read past the caches."""
        missed = counts.jumps_missed + counts.lines_missed + counts.data_missed
        return missed * self.granule


# The time of a quad read (EBh) before its data: 8 clocks for the command, 6 and 2 for address and
# mode, 4 dummy clocks; half a byte each.
BEFORE_DATA_BYTES = 10


@dataclass(frozen=True)
class SerialFlash:
    """Flash on a serial bus, behind one cache for code and constants, taken as two halves. rate:
    bytes a second of the bus; line: bytes of a line of the cache."""

    bus: str
    rate: float
    cache_bytes: int
    line: int = 32

    def at(self, megahertz: float) -> Flash:
        """The flash in cycles of a core."""
        seconds = (BEFORE_DATA_BYTES + self.line) / self.rate
        half = self.cache_bytes // 2 // self.line * self.line
        return Flash(self.line, half, half, round(seconds * megahertz * 1e6), self.bus)


@dataclass(frozen=True)
class Microcontroller:
    """A microcontroller whose flash is known. manual: the maker's, whose chapter on flash has wait
    states by clock, and caches."""

    flash: Flash | SerialFlash
    manual: str

    def at(self, megahertz: float) -> Flash:
        """Its flash in cycles of its core."""
        return self.flash.at(megahertz) if isinstance(self.flash, SerialFlash) else self.flash


# Lines of 256 bits; 1 KB for code and 256 bytes for constants.
ART = Flash(32, 1024, 256)
# Lines of 128 bits; 1 KB and 128 bytes.
ART_F4 = Flash(16, 1024, 128)
# One cache of 8 KB for both, taken as two halves.
ICACHE = Flash(16, 4096, 4096)
# The core's own, of 16 KB each.
L1 = Flash(32, 16384, 16384)

# Quad reads at a quarter of the core's clock, the divider that the SDK assumes of an unknown flash;
# a cache of 16 KB in lines of 8 bytes.
XIP_RP2040 = SerialFlash("qspi", 125e6 / 4 / 2, 16384, 8)
XIP_RP2350 = SerialFlash("qspi", 150e6 / 4 / 2, 16384, 8)
# Quad reads at the frequency of its devicetree; the core's caches, of 32 KB each.
FLEXSPI_RT1064 = SerialFlash("qspi", 133e6 / 2, 65536, 32)

# By Zephyr's names. Wait states are those that the manual requires at the clock of boards.csv and
# 3.3 V.
BOARDS = {
    "nucleo_l4r5zi": Microcontroller(replace(ART, waits=3), "RM0432"),
    "nucleo_l476rg": Microcontroller(replace(ART, waits=4), "RM0351"),
    "nucleo_l496zg": Microcontroller(replace(ART, waits=4), "RM0351"),
    "nucleo_g474re": Microcontroller(replace(ART, waits=4), "RM0440"),
    "nucleo_f401re": Microcontroller(replace(ART_F4, waits=2), "RM0368"),
    "nucleo_f411re": Microcontroller(replace(ART_F4, waits=3), "RM0383"),
    "stm32f4_disco": Microcontroller(replace(ART_F4, waits=5), "RM0090"),
    "nucleo_f429zi": Microcontroller(replace(ART_F4, waits=5), "RM0090"),
    "nucleo_f446re": Microcontroller(replace(ART_F4, waits=3), "RM0390"),
    "nucleo_u575zi_q": Microcontroller(replace(ICACHE, waits=4), "RM0456"),
    "nucleo_h7a3zi_q": Microcontroller(replace(L1, waits=6), "RM0455"),
    "mimxrt1064_evk": Microcontroller(FLEXSPI_RT1064, "its devicetree"),
    "rpi_pico": Microcontroller(XIP_RP2040, "RP2040 datasheet"),
    "rpi_pico2/rp2350a/m33": Microcontroller(XIP_RP2350, "RP2350 datasheet"),
}
