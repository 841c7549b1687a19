# SPDX-License-Identifier: Apache-2.0
"""What the timing rules of all cores have."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Sequence
from dataclasses import dataclass

from .instructions import Instruction, Spent


@dataclass(frozen=True, kw_only=True)
class Timing(ABC):
    """The rules of a core; doc/cycles.md has their sources. refill: cycles that a taken branch
    adds. known: how good the cycles are."""

    core: str
    refill: float
    known: str = "modelled, not measured"

    @property
    def said(self) -> str:
        """How the cycles are known."""
        return f"{self.core}, {self.known} (`vmcu help cycles.md`)"

    @abstractmethod
    def block(self, run: Sequence[Instruction]) -> Spent:
        """Of instructions one behind the other."""

    def taken(self, count: float) -> Spent:
        """Of so many taken branches."""
        return Spent(branches=self.refill * count)
