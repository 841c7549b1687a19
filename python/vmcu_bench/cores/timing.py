# SPDX-License-Identifier: Apache-2.0
"""The timing rules that all cores share."""

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
        """States the source of the cycles."""
        return f"{self.core}, {self.known} (`vmcu help cycles.md`)"

    @abstractmethod
    def block(self, run: Sequence[Instruction]) -> Spent:
        """Times instructions one behind the other."""

    def taken(self, count: float) -> Spent:
        """Times so many taken branches."""
        return Spent(branches=self.refill * count)
