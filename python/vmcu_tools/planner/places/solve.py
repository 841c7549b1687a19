# SPDX-License-Identifier: Apache-2.0
"""Placement as one constraint problem: every pair of live tensors above, below or overlapped.

MODeL (section 4.4) gives each pair that is alive together two binary variables, above and below.
Here a pair that a layer connects has a third relation: its output may overlap its dying input at
any distance that the order of access allows, in the direction the layer is given. OR-tools' CP-SAT
minimises the pool over bases and directions; with one worker and a limit in deterministic time,
the same graph gives the same plan on every machine.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from ... import progress
from ...plan.plan import SCRATCH_ALIGN
from .constraints import cp_model
from .cpsat import new_solver, solved
from .overlap import Clearance
from .pieces import Piece
from .walk import Walk


@dataclass(frozen=True)
class Solution:
    """Bases, directions and scratch offsets by output; `bound` is proven from below."""

    pool: int
    bound: int
    bases: dict[str, int]
    descending: dict[str, bool]
    scratch: dict[str, int]


class Best(cp_model.CpSolverSolutionCallback):
    """Tells whoever watches of better pools and bounds."""

    def __init__(self, watch: progress.Watch):
        super().__init__()
        self.watch, self.bound, self.pool = watch, 0, 0

    def on_bound(self, bound: float) -> None:
        """The solver has proven a bound, in bytes."""
        self.bound = round(bound)
        if self.pool:
            self.watch(self.bound, self.pool)

    def on_solution_callback(self) -> None:
        """The solver has found a smaller pool."""
        self.pool = round(self.objective_value)
        self.watch(round(self.best_objective_bound), self.pool)


class ConstraintModel:
    """The constraint model of a list of pieces; `most` is a pool size known to suffice."""

    def __init__(self, pieces: Sequence[Piece], least: int, most: int):
        self.pieces = pieces
        self.model = cp_model.CpModel()
        self.pool = self.model.new_int_var(least, most, "pool")
        self.most = most
        self.bases = {
            piece.name: self.block(piece.name, piece.size, piece.align) for piece in pieces
        }
        self.turned: dict[str, cp_model.IntVar] = {}
        self.scratch: dict[str, cp_model.IntVar] = {}
        for piece in pieces:
            self.add(piece)
        self.model.minimize(self.pool)

    def block(self, name: str, size: int, align: int = 1) -> cp_model.IntVar:
        """The base of something of `size` bytes, at a multiple of `align`, in the pool."""
        base = self.model.new_int_var(0, self.most - size, name)
        self.model.add(base + size <= self.pool)
        if align > 1:
            units = self.model.new_int_var(0, (self.most - size) // align, "")
            self.model.add(base == units * align)
        return base

    def add(self, piece: Piece) -> None:
        """Constrains a piece in the directions in which its step may run, and its scratch."""
        name = piece.name
        turned = self.turned[name] = self.model.new_bool_var(f"{name} descends")
        directions = {way.descending: way for way in piece.ways}
        for descending, literal in ((False, turned.negated()), (True, turned)):
            way = directions.get(descending)
            if way is None:
                self.model.add(turned == int(not descending))
                continue
            for live in way.live:
                self.clear(self.bases[live.name], self.bases[name], live.clearance, literal)
        if piece.scratch:
            self.add_scratch(piece)

    def clear(
        self,
        live: cp_model.IntVar,
        out: cp_model.IntVar,
        clearance: Clearance,
        when: cp_model.LiteralT | None,
    ) -> None:
        """live - out is at least `below` or at most `above`."""
        under = self.model.new_bool_var("")
        conditions = [when] if when is not None else []
        self.model.add(live - out >= clearance.below).only_enforce_if(under, *conditions)
        self.model.add(live - out <= clearance.above).only_enforce_if(under.negated(), *conditions)

    def add_scratch(self, piece: Piece) -> None:
        """A place for the scratch of a piece's step, apart from all that is alive meanwhile."""
        name = piece.name
        offset = self.block(f"scratch of {name}", piece.scratch, SCRATCH_ALIGN)
        self.scratch[name] = offset
        others = [(live.name, live.size) for live in piece.ways[0].live]
        for other, size in [*others, (name, piece.size)]:
            apart = Clearance.apart(size, piece.scratch)
            self.clear(self.bases[other], offset, apart, None)

    def begin_with(self, known: Walk) -> None:
        """Has the solver begin its search with a placement."""
        for name, base in known.bases.items():
            self.model.add_hint(self.bases[name], base)
            self.model.add_hint(self.turned[name], known.descending[name])
        for name, offset in known.scratch.items():
            self.model.add_hint(self.scratch[name], offset)

    def solve(self, effort: float) -> Solution | None:
        """The best placement found with so much effort, None if none was."""
        solver = new_solver(effort)
        with progress.clock("solving", effort) as watch:
            best = Best(watch)
            solver.best_bound_callback = best.on_bound
            if not solved(solver, self.model, best):
                return None
        return Solution(
            solver.value(self.pool),
            round(solver.best_objective_bound),
            {name: solver.value(base) for name, base in self.bases.items()},
            {name: bool(solver.value(turned)) for name, turned in self.turned.items()},
            {name: solver.value(offset) for name, offset in self.scratch.items()},
        )
