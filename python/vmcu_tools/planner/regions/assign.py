# SPDX-License-Identifier: Apache-2.0
"""Which memory each piece of a layout is in, so that what is accessed most is where it costs least.

A program over one binary variable for each piece and memory. A memory must hold what is alive in it
at each step: outputs may take the place of dying inputs that are in the same one, by what their
layers' order of access allows. Stages of several layers are looked at call by call; calls are added
to the program when a solution would need more there than there is. Whether there are places for all
of them shows afterwards, see place.py.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace

import numpy as np

from ...plan.pools import Region
from ..places.constraints import cp_model
from ..places.cpsat import new_solver, solved
from ..places.layout import Layout
from ..places.overlap import Clearance
from ..places.pieces import Live, Piece, Way, memory_profile, pieces_of, stage_memory
from .accesses import accesses, scratch_of

# In the solver's deterministic measure of time, about seconds on a desktop computer, a round;
# and how near the best an assignment has to be proven, a part.
ASSIGN_EFFORT, ASSIGN_GAP = 1.0, 0.001
# Costs are added up as integers, in such parts of a cycle.
FINE = 16


@dataclass(frozen=True, eq=False)
class Problem:
    """Pieces with scratch apart, how often each is accessed, and by stage of several layers what is
    alive in it: by piece its bytes at each of some calls, int64 (calls,)."""

    pieces: tuple[Piece, ...]
    accesses: Mapping[str, int]
    levels: Mapping[int, Mapping[str, np.ndarray]]


@dataclass(frozen=True)
class Assignment:
    """By piece the number of its memory, and the cycles that accesses wait in all."""

    memory: dict[str, int]
    waits: float


def problem_of(layout: Layout) -> Problem:
    """What has to be assigned."""
    pieces: list[Piece] = []
    for piece in pieces_of(layout, both_ways=True):
        pieces.append(replace(piece, scratch=0))
        if piece.scratch:
            pieces.append(_scratch(piece))
    levels = {
        number: _levels(layout, number)
        for number, group in enumerate(layout.groups)
        if group.trace is not None
    }
    return Problem(tuple(pieces), accesses(layout), levels)


def _scratch(piece: Piece) -> Piece:
    """A layer's scratch, which keeps clear of all that is alive."""
    held = [*((live.name, live.size) for live in piece.ways[0].live), (piece.name, piece.size)]
    size = piece.scratch
    live = tuple(Live(name, own, Clearance.apart(own, size)) for name, own in held)
    return Piece(scratch_of(piece.name), size, size, (Way(False, live),), True, align=4)


def _levels(layout: Layout, number: int) -> dict[str, np.ndarray]:
    """By piece that is alive in a stage of several layers, its bytes at each call; calls at which
    no piece grows are left out, for there is another one at which as much is alive."""
    group = layout.groups[number]
    profiles = {name: layout.profile(name) for name in layout.births}
    profiles[stage_memory(number)] = memory_profile(group)
    start, stop = group.start, group.start + group.calls
    found = {}
    for name, profile in profiles.items():
        born = np.clip(profile.birth, start, stop) - start
        gone = np.clip(profile.death, start - 1, stop - 1) + 1 - start
        alive = gone > born
        change = np.zeros(group.calls + 1, np.int64)
        np.add.at(change, born[alive], profile.size)
        np.subtract.at(change, gone[alive], profile.size)
        if change.any():
            found[name] = np.cumsum(change)[:-1]
    return found


def restricted(pieces: Sequence[Piece], names: set[str], floors: Mapping[str, int]) -> list[Piece]:
    """The pieces of one memory, as if there were no others. floors: by piece the bytes of its
    stage there."""
    found = []
    for piece in pieces:
        if piece.name in names:
            ways = tuple(
                replace(way, live=tuple(live for live in way.live if live.name in names))
                for way in piece.ways
            )
            floor = floors.get(piece.name) if piece.floor is not None else None
            found.append(replace(piece, ways=ways, floor=floor))
    return found


class Assigner:
    """The program. `sizes`: what pieces may take of each memory, which is less than it has where
    places were not found."""

    def __init__(self, problem: Problem, regions: Sequence[Region]):
        self.problem, self.regions = problem, regions
        self.calls: set[tuple[int, int]] = set()
        for number, levels in problem.levels.items():
            total = sum(levels.values())
            self.calls.add((number, int(np.argmax(total))))

    def solve(self, sizes: Sequence[int]) -> Assignment | None:
        """The assignment with the fewest cycles of waiting; None if there is none."""
        while True:
            found = self._solve(sizes)
            if found is None:
                return None
            missed = set(self._missed(found, sizes)) - self.calls
            if not missed:
                return found
            self.calls |= missed

    def _missed(self, found: Assignment, sizes: Sequence[int]) -> list[tuple[int, int]]:
        """Calls at which a memory would hold more than it has."""
        missed = []
        for number, levels in self.problem.levels.items():
            for memory, size in enumerate(sizes):
                here = [level for name, level in levels.items() if found.memory[name] == memory]
                total = sum(here, start=np.zeros(1, np.int64))
                if total.max() > size:
                    missed.append((number, int(np.argmax(total))))
        return missed

    def _solve(self, sizes: Sequence[int]) -> Assignment | None:
        model = cp_model.CpModel()
        memories = range(len(sizes))
        chosen = {
            piece.name: [model.new_bool_var("") for _ in memories] for piece in self.problem.pieces
        }
        for piece in self.problem.pieces:
            model.add_exactly_one(chosen[piece.name])
            for memory, size in enumerate(sizes):
                if piece.size > size:
                    model.add(chosen[piece.name][memory] == 0)
        for memory, size in enumerate(sizes):
            here = {name: variables[memory] for name, variables in chosen.items()}
            for piece in self.problem.pieces:
                _fit(model, piece, here, size)
            for number, call in self.calls:
                levels = self.problem.levels[number].items()
                model.add(sum(int(level[call]) * here[name] for name, level in levels) <= size)
        costs = [round(region.wait * FINE) for region in self.regions]
        model.minimize(
            sum(
                self.problem.accesses[name] * cost * variable
                for name, variables in chosen.items()
                for cost, variable in zip(costs, variables, strict=True)
                if cost
            )
        )
        solver = new_solver(ASSIGN_EFFORT)
        solver.parameters.relative_gap_limit = ASSIGN_GAP
        if not solved(solver, model):
            return None
        chosen_memory = {
            name: next(number for number in memories if solver.value(variables[number]))
            for name, variables in chosen.items()
        }
        waits = sum(
            self.problem.accesses[name] * self.regions[number].wait
            for name, number in chosen_memory.items()
        )
        return Assignment(chosen_memory, waits)


def _fit(
    model: cp_model.CpModel, piece: Piece, here: Mapping[str, cp_model.IntVar], size: int
) -> None:
    """What is alive in a memory when a piece is made fits, as far as bytes can tell. In a stage of
    several layers, what is alive call by call tells more."""
    if piece.floor is not None:
        return
    held = {live.name: live.size for live in piece.ways[0].live}
    if sum(held.values()) + piece.size <= size:
        return
    alive = sum(bytes_ * here[name] for name, bytes_ in held.items())
    model.add(alive <= size)
    shared = []
    for name, bytes_ in _shared(piece).items():
        both = model.new_bool_var("")
        model.add_implication(both, here[name])
        model.add_implication(both, here[piece.name])
        shared.append(bytes_ * both)
    model.add(alive + piece.size * here[piece.name] - sum(shared) <= size)


def _shared(piece: Piece) -> dict[str, int]:
    """Bytes that a piece may share with each that is alive, in the direction in which it shares
    more."""
    found: dict[str, int] = {}
    for way in piece.ways:
        for live in way.live:
            shared = live.size + piece.size - live.clearance.footprint(live.size, piece.size)
            found[live.name] = max(shared, found.get(live.name, 0))
    return {name: shared for name, shared in found.items() if shared > 0}
