# SPDX-License-Identifier: Apache-2.0
"""An energy estimate from counts and published costs of single operations."""

from __future__ import annotations

from dataclasses import dataclass, field

from ..targets.counting import Counts

PJ_PER_UJ = 1e6


@dataclass(frozen=True)
class Assumption:
    """Energy of one event in picojoule, and who says so."""

    event: str
    picojoule: float
    source: str


HOROWITZ = 'M. Horowitz, "Computing\'s Energy Problem", ISSCC 2014, fig. 1.1.9, 45 nm, 0.9 V'
INSTRUCTION = Assumption("instruction", 70.0, f"{HOROWITZ}: a whole instruction, fetch included")
RAM_ACCESS = Assumption(
    "RAM load or store", 10.0, f"{HOROWITZ}: 20 pJ for 64 bits of a 32 KB SRAM, half for 32 bits"
)
FLASH_LOAD = Assumption(
    "flash load",
    30.0,
    'three times SRAM: elektroniknet.de 102834, "Energiesparen vom Chip bis zur Software", page 3',
)
CAVEAT = (
    "An estimate for comparing one build with another, no measurement of any board: clocks, "
    "wait states, caches, regulators and leakage are left out."
)


@dataclass(frozen=True)
class Energy:
    """Microjoule for one inference, with what was assumed."""

    microjoule: float
    assumptions: tuple[Assumption, ...] = field(default=(INSTRUCTION, RAM_ACCESS, FLASH_LOAD))
    caveat: str = CAVEAT


def estimate(counts: Counts) -> Energy:
    picojoule = (
        counts.instructions * INSTRUCTION.picojoule
        + (counts.loads_ram + counts.stores) * RAM_ACCESS.picojoule
        + counts.loads_flash * FLASH_LOAD.picojoule
    )
    return Energy(round(picojoule / PJ_PER_UJ, 3))
