# SPDX-License-Identifier: Apache-2.0
"""What flash behind small caches adds to cycles, as a model.

STM32's accelerators (reference manual RM0432, section 3.3.4) keep recently used code and constants,
and read the code behind the last branch ahead. Here both caches are fully associative and what is
read ahead is there as soon as the granule before has been executed, which takes as many cycles as
it has instructions: a model that flatters where instructions wait for each other.
"""

from __future__ import annotations

from dataclasses import dataclass

from ..runners.counting import Caches, Counts


@dataclass(frozen=True)
class Flash:
    """Bytes of a line of its caches, which one wait fills, and of the caches."""

    granule: int
    code_bytes: int
    data_bytes: int

    @property
    def caches(self) -> Caches:
        return Caches(
            self.granule, self.code_bytes // self.granule, self.data_bytes // self.granule
        )

    def stalls(self, counts: Counts, waits: int) -> int:
        """Cycles that code and constants are waited for; waits: states of one read."""
        # Thumb instructions of a granule, most of which are four bytes long and take a cycle.
        ahead = self.granule // 4
        behind = max(waits - ahead, 0)
        missed = counts.jumps_missed + counts.data_missed
        return waits * missed + behind * counts.lines_missed


# Lines of 256 bits; 1 KB for code and 256 bytes for constants.
ART = Flash(32, 1024, 256)
