# SPDX-License-Identifier: Apache-2.0
"""An energy estimate from counts and published costs of single accesses."""

from __future__ import annotations

from dataclasses import dataclass, field

from vmcu_tools.boards.counts import Counts

PJ_PER_UJ = 1e6


@dataclass(frozen=True)
class Assumption:
    """Energy of one event in picojoule, and its source."""

    event: str
    picojoule: float
    source: str


RAM_ACCESS = Assumption(
    "RAM load or store",
    5.0,
    "32 bits of an 8 KB SRAM at 45 nm: pmc.ncbi.nlm.nih.gov/articles/PMC8934428, table 3, after "
    "M. Horowitz, ISSCC 2014, doi.org/10.1109/ISSCC.2014.6757323",
)
FLASH = (
    "three times SRAM: elektroniknet.de, article 102834, "
    '"Energiesparen vom Chip bis zur Software", page 3'
)
FLASH_LOAD = Assumption("flash load", 3 * RAM_ACCESS.picojoule, FLASH)
INSTRUCTION = Assumption("instruction", FLASH_LOAD.picojoule, "the fetch, a flash load")
SCOPE = "memories only"
# Of the lowest energy measured on a plain Cortex-M.
MORE = "at least 3.4 to 4.9 times as much"
CAVEAT = (
    f"The share of the memories only, to compare builds. A plain Cortex-M needs {MORE}: core, "
    "clocks, wait states, caches, regulators and leakage are not modelled."
)


@dataclass(frozen=True)
class Energy:
    """Microjoule for one inference, their `scope`, and the assumptions."""

    microjoule: float
    assumptions: tuple[Assumption, ...] = field(default=(INSTRUCTION, RAM_ACCESS, FLASH_LOAD))
    scope: str = SCOPE
    caveat: str = CAVEAT


def estimate(counts: Counts) -> Energy:
    picojoule = (
        counts.instructions * INSTRUCTION.picojoule
        + (counts.loads_ram + counts.stores) * RAM_ACCESS.picojoule
        + counts.loads_flash * FLASH_LOAD.picojoule
    )
    return Energy(round(picojoule / PJ_PER_UJ, 3))
