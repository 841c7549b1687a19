# SPDX-License-Identifier: Apache-2.0
"""Placement in a circle of given size: does everything fit?

In a circular pool two pieces have two distances, one each way round. A pair whose base_live -
base_new must be at least `below` or at most `above` (see overlap.Clearance) is apart if one of the
distances d + k * pool lies between `below` and pool + `above`: one integer, no case distinction.
That makes the question for a given size much easier than the search for the smallest one.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

from ... import progress
from ...plan.plan import SCRATCH_ALIGN
from ..params import DEFAULT_PARAMS
from .cpsat import can_solve, new_solver, solved
from .overlap import Clearance
from .pieces import Piece
from .sequential import SequentialPlacement

if TYPE_CHECKING:
    # It takes longer to load than most plans take, which ask no solver.
    from .constraints import cp_model


class CircularPool:
    """The constraint model of a list of pieces in a pool of `size` bytes. fixed: bases of other
    pieces, by name."""

    def __init__(self, pieces: Sequence[Piece], size: int, fixed: Mapping[str, int] | None = None):
        from .constraints import cp_model

        self.pieces, self.size = pieces, size
        self.model = cp_model.CpModel()
        self.bases = {piece.name: self.base(piece) for piece in pieces}
        self.fixed = fixed or {}
        self.turned = {piece.name: self.model.new_bool_var("") for piece in pieces}
        self.scratch: dict[str, cp_model.IntVar] = {}
        for piece in pieces:
            self.add(piece)

    def base(self, piece: Piece) -> cp_model.IntVar:
        """Where a piece starts; one that reaches around has an edge of a row at the pool's end."""
        base = self.model.new_int_var(0, self.size - 1, piece.name)
        if piece.align > 1:
            units = self.model.new_int_var(0, self.size // piece.align, "")
            self.model.add(base == units * piece.align)
        inside = self.model.new_bool_var("")
        self.model.add(base <= self.size - piece.size).only_enforce_if(inside)
        if piece.whole:
            self.model.add(inside == 1)
        else:
            rows = self.model.new_int_var(0, piece.size // piece.stride, "")
            around = inside.negated()
            self.model.add(base == self.size - rows * piece.stride).only_enforce_if(around)
        return base

    def add(self, piece: Piece) -> None:
        """Constrains a piece in the directions in which its step may run, and its scratch."""
        turned = self.turned[piece.name]
        ways = {way.descending: way for way in piece.ways}
        for descending, literal in ((False, turned.negated()), (True, turned)):
            if descending not in ways:
                self.model.add(turned == int(not descending))
                continue
            for live in ways[descending].live:
                self.clear(live.name, self.bases[piece.name], live.clearance, [literal])
        if piece.scratch:
            offset = self.model.new_int_var(0, self.size - piece.scratch, "")
            units = self.model.new_int_var(0, self.size // SCRATCH_ALIGN, "")
            self.model.add(offset == units * SCRATCH_ALIGN)
            self.scratch[piece.name] = offset
            held = [(live.name, live.size) for live in piece.ways[0].live]
            for name, size in [*held, (piece.name, piece.size)]:
                self.clear(name, offset, Clearance.apart(size, piece.scratch), [])

    def clear(
        self,
        live: str,
        new: cp_model.IntVar,
        clearance: Clearance,
        when: list[Any],
    ) -> None:
        """Keeps something new as far from a live piece as `clearance` says, both ways round, where
        all of `when` hold."""
        round_ = self.model.new_int_var(-1, 1, "")
        held = self.fixed[live] if live in self.fixed else self.bases[live]
        distance = held - new + round_ * self.size
        below, above = clearance.below, self.size + clearance.above
        self.model.add_linear_constraint(distance, below, max(above, below)).only_enforce_if(*when)
        if above < below:
            self.model.add_bool_or([literal.negated() for literal in when])

    def solve(self, effort: float) -> SequentialPlacement | None:
        """A placement, None if there is none or none was found."""
        solver = new_solver(effort)
        if not solved(solver, self.model):
            return None
        search = SequentialPlacement(self.pieces, self.size, True)
        search.bases = {name: solver.value(base) for name, base in self.bases.items()}
        search.descending = {name: bool(solver.value(lit)) for name, lit in self.turned.items()}
        search.scratch = {name: solver.value(offset) for name, offset in self.scratch.items()}
        return search


def fits(
    pieces: Sequence[Piece], size: int, effort: float = DEFAULT_PARAMS.pool_effort
) -> SequentialPlacement | None:
    """A placement in a circle of `size` bytes, if one is found with so much effort."""
    if any(max(piece.size, piece.scratch) > size for piece in pieces) or not can_solve():
        return None
    return CircularPool(pieces, size).solve(effort)


def smallest(
    pieces: Sequence[Piece], least: int, most: int, effort: float
) -> SequentialPlacement | None:
    """A placement in the smallest circle found of less than `most` bytes, by bisection; None if
    there is none."""
    best = None
    with progress.clock("solving", effort * max(most - least, 1).bit_length()) as watch:
        bound = least
        while least < most:
            watch(bound, most)
            size = (least + most) // 2
            found = fits(pieces, size, effort)
            if found is None:
                least = size + 1
            else:
                best, most = found, size
    return best
