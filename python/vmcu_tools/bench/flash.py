# SPDX-License-Identifier: Apache-2.0
"""What flash behind small caches adds to cycles, and the boards whose flash is known, as a model.

STM32's accelerators (reference manual RM0432, section 3.3.4) keep recently used code and constants,
and read the code behind the last branch ahead. Here both caches are fully associative and what is
read ahead is there as soon as the granule before has been executed, which takes as many cycles as
it has instructions: a model that flatters where instructions wait for each other.
"""

from __future__ import annotations

from dataclasses import dataclass, replace

from ..runners.counting import Caches, Counts


@dataclass(frozen=True)
class Flash:
    """Bytes of a line of its caches, which one wait fills, and of the caches. waits: states of one
    read."""

    granule: int
    code_bytes: int
    data_bytes: int
    waits: int = 0

    @property
    def caches(self) -> Caches:
        return Caches(
            self.granule, self.code_bytes // self.granule, self.data_bytes // self.granule
        )

    @property
    def said(self) -> str:
        """The assumption."""
        sizes = f"{self.code_bytes:,} bytes of code and {self.data_bytes:,} of constants"
        return f"flash of {self.waits} wait states, {sizes} cached"

    def stalls(self, counts: Counts) -> int:
        """Cycles that code and constants are waited for."""
        # Thumb instructions of a granule, most of which are four bytes long and take a cycle.
        ahead = self.granule // 4
        behind = max(self.waits - ahead, 0)
        missed = counts.jumps_missed + counts.data_missed
        return self.waits * missed + behind * counts.lines_missed


@dataclass(frozen=True)
class Microcontroller:
    """A microcontroller whose flash is known. manual: ST's reference manual, whose chapter on flash
    has wait states by clock, and caches."""

    flash: Flash
    manual: str


# Lines of 256 bits; 1 KB for code and 256 bytes for constants.
ART = Flash(32, 1024, 256)
# Lines of 128 bits; 1 KB and 128 bytes.
ART_F4 = Flash(16, 1024, 128)
# One cache of 8 KB for both, taken as two halves.
ICACHE = Flash(16, 4096, 4096)
# The core's own, of 16 KB each.
L1 = Flash(32, 16384, 16384)

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
}
