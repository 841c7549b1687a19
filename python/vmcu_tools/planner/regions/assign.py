# SPDX-License-Identifier: Apache-2.0
"""Which memory each piece of a layout is in, so that what is accessed most is where it costs least.

A memory must hold what is alive in it at each step: outputs may take the place of dying inputs that
are in the same one, by what their layers' order of access allows. Stages of several layers are
looked at call by call; calls are added to the problem when a solution would need more there than
there is. Whether there are places for all of them shows afterwards, see place.py.

Algorithm: pieces are assigned one by one, those with the most accesses for each byte first, to the
cheapest memory that has room. Then, a counted number of times, some pieces of one step leave and
are assigned again in a random order; what costs less is kept (ruin and recreate: Schrimpf et al.,
"Record breaking optimization results using the ruin and recreate principle", Journal of
Computational Physics 159, 2000).
"""

from __future__ import annotations

import random
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace

import numpy as np

from ...plan.pools import Region
from ..places.layout import Layout
from ..places.pieces import (
    Piece,
    memory_profile,
    pieces_of,
    stage_memory,
    with_scratch_apart,
)
from .accesses import accesses

# How often some pieces are assigned again, and how many of a step at most.
ASSIGN_ROUNDS, MOST_REASSIGNED = 400, 8
SEED = 1
# The cost of each byte that has no memory yet, in cycles: more than any accesses cost.
UNASSIGNED = 2.0**40


@dataclass(frozen=True, eq=False)
class Problem:
    """Pieces with scratch apart, how often each is accessed, and by stage of several layers what is
    alive in it: by piece its bytes at each of some calls, int64 (calls,)."""

    pieces: tuple[Piece, ...]
    accesses: Mapping[str, int]
    levels: Mapping[int, Mapping[str, np.ndarray]]


@dataclass(frozen=True)
class Assignment:
    """The number of each piece's memory, and the cycles that all accesses wait."""

    memory: dict[str, int]
    waits: float


def problem_of(layout: Layout) -> Problem:
    """The pieces of a layout that need a memory, with their accesses."""
    pieces = with_scratch_apart(pieces_of(layout, both_ways=True))
    levels = {
        number: _levels(layout, number)
        for number, group in enumerate(layout.groups)
        if group.trace is not None
    }
    return Problem(tuple(pieces), accesses(layout), levels)


def _levels(layout: Layout, number: int) -> dict[str, np.ndarray]:
    """The bytes at each call of the pieces that are alive in a stage of several layers. Calls at
    which no piece grows are left out: at another call, as much is alive."""
    group = layout.groups[number]
    profiles = {name: layout.profile(name) for name in layout.births}
    profiles[stage_memory(number)] = memory_profile(group)
    start, stop = group.start, group.start + group.calls
    bytes_by_call = {}
    for name, profile in profiles.items():
        born = np.clip(profile.birth, start, stop) - start
        gone = np.clip(profile.death, start - 1, stop - 1) + 1 - start
        alive = gone > born
        change = np.zeros(group.calls + 1, np.int64)
        np.add.at(change, born[alive], profile.size)
        np.subtract.at(change, gone[alive], profile.size)
        if change.any():
            bytes_by_call[name] = np.cumsum(change)[:-1]
    return bytes_by_call


def restricted(pieces: Sequence[Piece], names: set[str], floors: Mapping[str, int]) -> list[Piece]:
    """The pieces of one memory, as if there were no others. floors: by piece the bytes of its
    stage there."""
    own_pieces = []
    for piece in pieces:
        if piece.name in names:
            ways = tuple(
                replace(way, live=tuple(live for live in way.live if live.name in names))
                for way in piece.ways
            )
            floor = floors.get(piece.name) if piece.floor is not None else None
            own_pieces.append(replace(piece, ways=ways, floor=floor))
    return own_pieces


@dataclass(frozen=True)
class Moment:
    """A moment at which a memory may be full: by piece its bytes then, and the piece that a step
    makes: its number (-1: none), size, and the bytes that it may share with each of the others."""

    held: Mapping[int, int]
    made: int = -1
    size: int = 0
    shared: Mapping[int, int] = field(default_factory=dict)

    @property
    def pieces(self) -> list[int]:
        """The numbers of all pieces."""
        return [*self.held, *([] if self.made < 0 else [self.made])]


class Filling:
    """The memory of each piece, -1 for none; by row and memory, the bytes in it, and the bytes of
    them that the step's output can share."""

    def __init__(self, count: int, rows: Sequence[Moment], sizes: Sequence[int]):
        self.rows, self.sizes = rows, sizes
        self.memory = [-1] * count
        self.held = [[0] * len(sizes) for _ in rows]
        self.shared = [[0] * len(sizes) for _ in rows]
        self.rows_of: list[list[int]] = [[] for _ in range(count)]
        for number, row in enumerate(rows):
            for piece in row.pieces:
                self.rows_of[piece].append(number)

    def fits(self, piece: int, memory: int) -> bool:
        """Whether a memory has room for a piece at each moment."""
        for number in self.rows_of[piece]:
            row = self.rows[number]
            bytes_ = self.held[number][memory] + row.held.get(piece, 0)
            if row.made == piece or (row.made >= 0 and self.memory[row.made] == memory):
                shared = self.shared[number][memory] + row.shared.get(piece, 0)
                bytes_ += max(0, row.size - shared)
            if bytes_ > self.sizes[memory]:
                return False
        return True

    def move(self, piece: int, memory: int) -> None:
        """Takes a piece out of its memory and puts it into another, -1 for none."""
        for there, sign in ((self.memory[piece], -1), (memory, 1)):
            for number in self.rows_of[piece] if there >= 0 else ():
                row = self.rows[number]
                self.held[number][there] += sign * row.held.get(piece, 0)
                self.shared[number][there] += sign * row.shared.get(piece, 0)
        self.memory[piece] = memory


class Assigner:
    """The search. `sizes`: what pieces may take of each memory, which is less than it has where
    places were not found."""

    def __init__(self, problem: Problem, regions: Sequence[Region]):
        self.problem, self.regions = problem, regions
        self.numbers = {piece.name: number for number, piece in enumerate(problem.pieces)}
        self.accesses = [problem.accesses[piece.name] for piece in problem.pieces]
        self.calls: set[tuple[int, int]] = set()
        for number, levels in problem.levels.items():
            total = sum(levels.values())
            self.calls.add((number, int(np.argmax(total))))

    def solve(self, sizes: Sequence[int]) -> Assignment | None:
        """The assignment with the fewest cycles of waiting; None if there is none."""
        while True:
            assignment = self._solve(sizes)
            if assignment is None:
                return None
            missed = set(self._missed(assignment, sizes)) - self.calls
            if not missed:
                return assignment
            self.calls |= missed

    def _missed(self, choice: Assignment, sizes: Sequence[int]) -> list[tuple[int, int]]:
        """Calls at which a memory would hold more than it has."""
        missed = []
        for number, levels in self.problem.levels.items():
            for memory, size in enumerate(sizes):
                here = [level for name, level in levels.items() if choice.memory[name] == memory]
                total = sum(here, start=np.zeros(1, np.int64))
                if total.max() > size:
                    missed.append((number, int(np.argmax(total))))
        return missed

    def _solve(self, sizes: Sequence[int]) -> Assignment | None:
        filling = Filling(len(self.problem.pieces), [*self._rows(sizes)], sizes)
        self._search(filling, random.Random(SEED))
        if -1 in filling.memory:
            return None
        names = (piece.name for piece in self.problem.pieces)
        memory = dict(zip(names, filling.memory, strict=True))
        return Assignment(memory, sum(map(self._cost, range(len(memory)), filling.memory)))

    def _search(self, filling: Filling, dice: random.Random) -> None:
        """Assigns all pieces, as cheaply as is found."""
        everything = range(len(self.problem.pieces))
        first = (self._able(number, filling.sizes)[:1] for number in everything)
        least = sum(self._cost(n, able[0]) for n, able in enumerate(first) if able)
        self._assign(filling, sorted(everything, key=lambda n: (-self._density(n), n)))
        cost = sum(map(self._cost, everything, filling.memory))
        for _ in range(ASSIGN_ROUNDS if filling.rows else 0):
            if cost <= least:
                return
            row = filling.rows[int(dice.random() * len(filling.rows))].pieces
            out = [n for n in row if dice.random() * len(row) < MOST_REASSIGNED]
            out += [n for n in everything if filling.memory[n] < 0 and n not in out]
            before = [filling.memory[n] for n in out]
            for number in out:
                filling.move(number, -1)
            self._assign(filling, sorted(out, key=lambda n: -self._density(n) * dice.random()))
            change = sum(self._cost(n, filling.memory[n]) for n in out)
            change -= sum(map(self._cost, out, before))
            if change <= 0:
                cost += change
                continue
            for number in out:
                filling.move(number, -1)
            for number, memory in zip(out, before, strict=True):
                filling.move(number, memory)

    def _able(self, number: int, sizes: Sequence[int]) -> list[int]:
        """The memories that are large enough for a piece."""
        piece = self.problem.pieces[number]
        return [memory for memory, size in enumerate(sizes) if piece.size <= size]

    def _assign(self, filling: Filling, order: Sequence[int]) -> None:
        """Puts each piece in turn into the cheapest memory that has room."""
        for number in order:
            able = self._able(number, filling.sizes)
            memory = next((one for one in able if filling.fits(number, one)), -1)
            filling.move(number, memory)

    def _density(self, number: int) -> float:
        return self.accesses[number] / max(self.problem.pieces[number].size, 1)

    def _cost(self, number: int, memory: int) -> float:
        """Cycles that a piece's accesses wait."""
        if memory < 0:
            return UNASSIGNED * max(self.problem.pieces[number].size, 1)
        return self.accesses[number] * self.regions[memory].wait

    def _rows(self, sizes: Sequence[int]) -> Iterator[Moment]:
        """The moments at which not all that is alive fits into each memory. In a stage of several
        layers, what is alive call by call tells more than its pieces."""
        for number, piece in enumerate(self.problem.pieces):
            held = {self.numbers[live.name]: live.size for live in piece.ways[0].live}
            if piece.floor is None and sum(held.values()) + piece.size > min(sizes):
                shared = {self.numbers[name]: size for name, size in _shared(piece).items()}
                yield Moment(held, number, piece.size, shared)
        for stage, call in sorted(self.calls):
            levels = self.problem.levels[stage].items()
            yield Moment({self.numbers[name]: int(level[call]) for name, level in levels})


def _shared(piece: Piece) -> dict[str, int]:
    """Bytes that a piece may share with each that is alive, in the direction in which it shares
    more."""
    most_shared: dict[str, int] = {}
    for way in piece.ways:
        for live in way.live:
            shared = live.size + piece.size - live.clearance.footprint(live.size, piece.size)
            most_shared[live.name] = max(shared, most_shared.get(live.name, 0))
    return {name: shared for name, shared in most_shared.items() if shared > 0}
