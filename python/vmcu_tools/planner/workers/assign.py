# SPDX-License-Identifier: Apache-2.0
"""List scheduling: the piece with the longest path behind it goes to the next worker that is
free (Graham, Bounds on multiprocessing timing anomalies, 1969)."""

from __future__ import annotations

import heapq
from collections.abc import Iterator, Sequence

from ...plan.workers import WORKERS, Entry, Team, Wait
from .pieces import CallPiece


def assigned(all_pieces: Sequence[CallPiece], behind: Sequence[int], scratch_bytes: int) -> Team:
    """Assigns pieces to workers. behind: as dependencies() returns them; scratch_bytes: of the
    second worker, which computes nothing that needs more."""
    return _Assignment(all_pieces, behind, scratch_bytes).team()


class _Assignment:
    def __init__(self, all_pieces: Sequence[CallPiece], behind: Sequence[int], scratch_bytes: int):
        self.pieces, self.scratch_bytes = all_pieces, scratch_bytes
        self.first = [piece.scratch_bytes > scratch_bytes for piece in all_pieces]
        self.behind = [list(_bits(one)) for one in behind]
        self.ahead: list[list[int]] = [[] for _ in all_pieces]
        for number, needed in enumerate(self.behind):
            for one in needed:
                self.ahead[one].append(number)
        self.path = [0.0] * len(all_pieces)
        for number in reversed(range(len(all_pieces))):
            longest = max((self.path[one] for one in self.ahead[number]), default=0.0)
            self.path[number] = all_pieces[number].cycles + longest
        self.worker = [0] * len(all_pieces)
        self.place = [0] * len(all_pieces)
        self.lists: tuple[list[int], ...] = tuple([] for _ in range(WORKERS))
        self.spans: tuple[list[tuple[float, float]], ...] = tuple([] for _ in range(WORKERS))
        self.cycles = 0.0

    def team(self) -> Team:
        self._simulate()
        entries = tuple(self._entries(worker) for worker in range(WORKERS))
        spans = tuple(tuple(its) for its in self.spans)
        return Team(entries, self.scratch_bytes, spans, self.cycles)

    def _simulate(self) -> None:
        """Goes through an inference from one end of a piece to the next."""
        missing = [len(needed) for needed in self.behind]
        # By first worker only, and any.
        ready: dict[bool, list[tuple[float, int]]] = {True: [], False: []}
        for number, count in enumerate(missing):
            if not count:
                heapq.heappush(ready[self.first[number]], (-self.path[number], number))
        running: list[tuple[float, int]] = []
        idle = set(range(WORKERS))
        while running or any(ready.values()):
            while (chosen := self._next(ready, idle)) is not None:
                number, worker = chosen
                idle.remove(worker)
                self.worker[number], self.place[number] = worker, len(self.lists[worker])
                self.lists[worker].append(number)
                end = self.cycles + self.pieces[number].cycles
                self.spans[worker].append((self.cycles, end))
                heapq.heappush(running, (end, number))
            self.cycles, number = heapq.heappop(running)
            idle.add(self.worker[number])
            for one in self.ahead[number]:
                missing[one] -= 1
                if not missing[one]:
                    heapq.heappush(ready[self.first[one]], (-self.path[one], one))

    def _next(
        self, ready: dict[bool, list[tuple[float, int]]], idle: set[int]
    ) -> tuple[int, int] | None:
        """The next piece and its worker: the idle one that did the last piece that this one needs,
        which saves a wait."""
        if not idle:
            return None
        kinds = [kind for kind in ready if ready[kind] and (not kind or 0 in idle)]
        if not kinds:
            return None
        _, number = heapq.heappop(ready[min(kinds, key=lambda kind: ready[kind][0])])
        needed = self.behind[number]
        last = self.worker[needed[-1]] if needed else 0
        worker = last if last in idle else min(idle)
        return number, 0 if self.first[number] else worker

    def _entries(self, worker: int) -> tuple[Entry, ...]:
        """A worker's tasks, with each wait that no earlier one implies. Worker 0 ends when all is
        done."""
        entries: list[Entry] = []
        known = 0
        for number in self.lists[worker]:
            others = [self.place[n] + 1 for n in self.behind[number] if self.worker[n] != worker]
            if max(others, default=0) > known:
                known = max(others)
                entries.append(Wait(known))
            piece = self.pieces[number]
            entries.append(piece.task._replace(own_scratch=worker > 0 < piece.scratch_bytes))
        every = len(self.lists[1 - worker])
        if worker == 0 and every > known:
            entries.append(Wait(every))
        return tuple(entries)


def _bits(mask: int) -> Iterator[int]:
    """The numbers in a set of bits, ascending."""
    number = -1
    while mask:
        # The rest of a large set is small.
        low = (mask & -mask).bit_length()
        mask >>= low
        number += low
        yield number
