# SPDX-License-Identifier: Apache-2.0
"""Depth-first branch and bound: offsets within a height, or a proof that there are none.

Input: the geometry of buffers, a height, an order of the buffers, and which valley is decided
first. Output: offsets, None if there are none, or LimitError after too many nodes.

Algorithm: buffers are placed bottom up on a skyline, which has a level for each stretch of
sections. At a valley, a stretch lower than its neighbours, each buffer alive only within it is
tried on its floor; the branch without any of them raises the valley. Pruning: a section's slack
(height less live bytes less waste) cannot become negative; equal buffers are placed in one order;
states that failed are hashed; sections that no unplaced buffer connects are searched on their own.
Complexity: exponential, limited by nodes. Related: canonical solutions and section decomposition
of Moffitt, "MiniMalloc: a lightweight memory allocator for hardware-accelerated machine learning",
ASPLOS 2023.
"""

from __future__ import annotations

import time
from bisect import bisect_right
from collections.abc import Generator, Sequence
from typing import NamedTuple

from .geometry import INFINITE, Geometry
from .valleys import COVER, NO_CHOICE, OPEN, VALLEYS, Valley

Segment = tuple[int, int, int]  # sections [start, end) and the level of the skyline over them
# A search as a coroutine: it yields the searches it depends on and is sent the result of each. One
# that is decided without looking is just its outcome.
Pending = Generator["Pending", bool, bool] | bool


class Node(NamedTuple):
    """A node of the search tree: a component, its skyline and valleys, and the one to decide."""

    start: int
    end: int
    segments: list[Segment]
    valleys: dict[int, Valley]
    valley: Valley

    @property
    def at(self) -> int:
        """The segment of the valley."""
        return bisect_right(self.segments, (self.valley.start, INFINITE)) - 1


class LimitError(Exception):
    """The search may visit no further node."""


class Search:
    """One search. `height`: bytes that the buffers may use; `order`: the buffers, those to try
    first in front; `valley`: a key of VALLEYS."""

    def __init__(self, geometry: Geometry, height: int, order: Sequence[int], valley: str):
        self.g = geometry
        self.key = VALLEYS[valley]
        self.rank = [0] * geometry.count
        self.starting: list[list[int]] = [[] for _ in range(geometry.sections)]
        # Equal buffers are placed in one order only: the next one after its twin.
        self.twin = [-1] * geometry.count
        last: dict[tuple[int, int, int, int], int] = {}
        for rank, b in enumerate(order):
            self.rank[b] = rank
            self.starting[geometry.first[b]].append(b)
            shape = (geometry.first[b], geometry.end[b], geometry.size[b], geometry.alignment[b])
            self.twin[b] = last.get(shape, -1)
            last[shape] = b
        self.aligned = any(a > 1 for a in geometry.alignment)
        self.slack = [height - live for live in geometry.live]
        self.crossings = geometry.crossings[:]
        self.placed = [False] * geometry.count
        self.offset = [0] * geometry.count
        # The floor at which a buffer was tried in vain, -1 if none.
        self.barred = [-1] * geometry.count
        self.unplaced = (1 << geometry.count) - 1
        self.bars = 0  # a hash of `barred`
        self.undo: list[tuple[int, int, int]] = []
        self.within: dict[tuple[int, int], int] = {}
        self.failed: set[int] = set()  # hashes of states
        self.nodes = 0

    def run(self, limit: int, deadline: float = INFINITE) -> list[int] | None:
        """Offsets, or None if there are none. Raises LimitError after `limit` nodes, or at the
        deadline."""
        self.limit, self.deadline = limit, deadline
        if min(self.slack, default=0) < 0:
            return None
        is_placed = outcome(self.split(0, self.g.sections, [(0, self.g.sections, 0)]))
        return self.offset if is_placed else None

    # The rest: a component is a range of sections, its part of the skyline, its valleys by start.
    # Segments and valleys are copied on the way down; everything else is undone.

    def split(self, start: int, end: int, segments: list[Segment]) -> Pending:
        """Searches the components between two sections, each on its own, small ones first."""
        cuts = [s for s in range(start + 1, end) if not self.crossings[s]]
        sizes = []
        for a, b in zip([start, *cuts], [*cuts, end], strict=True):
            left = (self.members(a, b) & self.unplaced).bit_count()
            if left:
                sizes.append((left, a, b))
        components = []
        for _, a, b in sorted(sizes):
            self.check_clock()
            part = [(max(s, a), min(e, b), f) for s, e, f in segments if s < b and e > a]
            valleys: dict[int, Valley] = {}
            if not self.survey(part, 0, len(part), valleys):
                return False
            components.append((a, b, part, valleys))
        mark = len(self.undo)
        for component in components:
            if not (yield self.search(*component)):
                self.rewind(mark)
                return False
        return True

    def check_clock(self) -> None:
        """Raises LimitError at the deadline."""
        if time.monotonic() > self.deadline:
            raise LimitError

    def members(self, start: int, end: int) -> int:
        """A bit for each buffer alive between two sections only."""
        if (start, end) not in self.within:
            self.check_clock()
            first, last = self.g.first, self.g.end
            self.within[start, end] = sum(
                1 << b for b in range(self.g.count) if first[b] >= start and last[b] <= end
            )
        return self.within[start, end]

    def search(
        self, start: int, end: int, segments: list[Segment], valleys: dict[int, Valley]
    ) -> Pending:
        """Searches a component; True if all of its buffers are placed, else everything is undone.
        Raises LimitError as run()."""
        self.nodes += 1
        self.check_clock()
        if self.nodes > self.limit:
            raise LimitError
        left = self.members(start, end) & self.unplaced
        if not left:
            return True
        state = hash((left, self.bars, tuple(segments)))
        if state in self.failed:
            return False
        valley = min(valleys.values(), key=self.key)
        node = Node(start, end, segments, valleys, valley)
        mark = len(self.undo)
        if valley.kind == NO_CHOICE:
            self.waste(valley.start, valley.end, valley.wall)
            raised = (valley.start, valley.end, valley.floor + valley.wall)
            is_placed = yield self.descend(node, [raised], False)
        else:
            is_placed = yield from self.place_one(node)
        if not is_placed:
            self.rewind(mark)
            self.failed.add(state)
        return is_placed

    def place_one(self, node: Node) -> Generator[Pending, bool, bool]:
        """Tries one buffer after the other; one that was tried in vain is barred from the floor."""
        v = node.valley
        for b in v.buffers:
            mark = len(self.undo)
            if (yield self.place(node, b)):
                return True
            self.rewind(mark)
            if v.kind == COVER:
                continue
            self.bar(b, v.floor)
            rest = self.valley(node.segments, node.at)
            if rest is None:
                return False
            if rest.kind != OPEN:
                valleys = {**node.valleys, v.start: rest}
                return (yield self.search(node.start, node.end, node.segments, valleys))
        return False

    def place(self, node: Node, b: int) -> Pending:
        """Places a buffer on the floor, and searches on."""
        v = node.valley
        first, end, top = self.g.first[b], self.g.end[b], self.top(b, v.floor)
        wasted = top - self.g.size[b] - v.floor
        if wasted:
            self.waste(first, end, wasted)
        pieces = [(v.start, first, v.floor), (first, end, top), (end, v.end, v.floor)]
        cut = self.put(b, top)
        return self.descend(node, [piece for piece in pieces if piece[0] < piece[1]], cut)

    def descend(self, node: Node, pieces: list[Segment], cut: bool) -> Pending:
        """Searches on with the valley's segment replaced by pieces."""
        at = node.at
        before, after = node.segments[:at], node.segments[at + 1 :]
        joined = before[-1:]
        for piece in pieces + after[:1]:
            if joined and joined[-1][2] == piece[2]:
                joined[-1] = (joined[-1][0], piece[1], piece[2])
            else:
                joined.append(piece)
        segments = before[:-1] + joined + after[1:]
        if cut:
            return self.split(node.start, node.end, segments)
        valleys = node.valleys.copy()
        del valleys[node.valley.start]
        at = max(at - 1, 0)
        return self.survey(segments, at, at + len(joined), valleys) and self.search(
            node.start, node.end, segments, valleys
        )

    def survey(
        self, segments: list[Segment], begin: int, end: int, valleys: dict[int, Valley]
    ) -> bool:
        """Adds the valleys among some segments; False if one of them has no way on."""
        last = len(segments) - 1
        for at in range(begin, end):
            level = segments[at][2]
            if at > 0 and segments[at - 1][2] < level:
                continue
            if at < last and segments[at + 1][2] < level:
                continue
            valley = self.valley(segments, at)
            if valley is None:
                return False
            valleys[valley.start] = valley
        return True

    def valley(self, segments: list[Segment], at: int) -> Valley | None:
        """Chooses the next step in a valley; None if there is none."""
        start, end, floor = segments[at]
        wall = min(
            segments[at - 1][2] if at else INFINITE,
            segments[at + 1][2] if at + 1 < len(segments) else INFINITE,
        )
        open_ended = wall == INFINITE
        wall -= floor
        buffers, lowest, fits = self.candidates(start, end, floor)
        least = min(self.slack[start:end])
        if not buffers:
            if open_ended:  # the whole component; nothing may be left of it
                done = not self.members(start, end) & self.unplaced
                return Valley(0, floor, start, end, 0, NO_CHOICE, []) if done else None
            # A buffer that would fit below the raised floor was tried on this one.
            if least < wall or fits <= wall:
                return None
            return Valley(1, floor, start, end, wall, NO_CHOICE, [])
        lowest = min(lowest, wall)
        if least < lowest:
            covering = self.covering(start, end, lowest, buffers)
            if not covering:
                return None
            return Valley(len(covering), floor, start, end, wall, COVER, covering)
        buffers.sort(key=self.rank.__getitem__)
        return Valley(len(buffers) + 1, floor, start, end, wall, OPEN, buffers)

    def candidates(self, start: int, end: int, floor: int) -> tuple[list[int], int, int]:
        """The buffers that may lie on a floor, the lowest of their tops, and the lowest of all that
        fit, barred ones too. Tops are above the floor."""
        placed, last, size, twin, barred = (
            self.placed, self.g.end, self.g.size, self.twin, self.barred
        )  # fmt: skip
        fitting: list[int] = []
        lowest = fits = INFINITE
        for s in range(start, end):
            for b in self.starting[s]:
                if placed[b] or last[b] > end:
                    continue
                height = size[b]
                if self.aligned:
                    height = self.top(b, floor) - floor
                    if min(self.slack[s : last[b]]) < height - size[b]:
                        continue
                if height < fits:
                    fits = height
                if barred[b] == floor:
                    continue
                if height < lowest:
                    lowest = height
                if twin[b] < 0 or placed[twin[b]]:
                    fitting.append(b)
        return fitting, lowest, fits

    def covering(self, start: int, end: int, raised: int, buffers: list[int]) -> list[int]:
        """Returns the buffers of the section with the fewest, where some sections have too
        little slack to be raised."""
        change = [0] * (end - start + 1)
        first, last = self.g.first, self.g.end
        for b in buffers:
            change[first[b] - start] += 1
            change[last[b] - start] -= 1
        fewest, at, count = INFINITE, -1, 0
        for s in range(start, end):
            count += change[s - start]
            if count < fewest and self.slack[s] < raised:
                fewest, at = count, s
        chosen = [b for b in buffers if first[b] <= at < last[b]]
        chosen.sort(key=self.rank.__getitem__)
        return chosen

    def top(self, b: int, floor: int) -> int:
        """Returns the end of a buffer on this floor."""
        return floor + -floor % self.g.alignment[b] + self.g.size[b]

    def put(self, b: int, top: int) -> bool:
        """Places a buffer that ends at `top`; True if that cuts a component in two."""
        if self.barred[b] >= 0:
            self.bars ^= hash((b, self.barred[b]))
        self.undo.append((-1, b, 0))
        self.placed[b] = True
        self.offset[b] = top - self.g.size[b]
        self.unplaced ^= 1 << b
        cut = False
        crossings = self.crossings
        for s in range(self.g.first[b] + 1, self.g.end[b]):
            crossings[s] -= 1
            if not crossings[s]:
                cut = True
        return cut

    def waste(self, start: int, end: int, amount: int) -> None:
        """Gives up so many bytes of the sections [start, end)."""
        slack = self.slack
        for s in range(start, end):
            slack[s] -= amount
        self.undo.append((start, end, amount))

    def bar(self, b: int, floor: int) -> None:
        """Notes that a buffer was tried in vain on a floor."""
        self.undo.append((-2, b, self.barred[b]))
        if self.barred[b] >= 0:
            self.bars ^= hash((b, self.barred[b]))
        self.barred[b] = floor
        self.bars ^= hash((b, floor))

    def rewind(self, mark: int) -> None:
        """Undoes everything after a mark."""
        while len(self.undo) > mark:
            what, b, value = self.undo.pop()
            if what >= 0:
                for s in range(what, b):
                    self.slack[s] += value
            elif what == -1:
                self.placed[b] = False
                self.unplaced ^= 1 << b
                for s in range(self.g.first[b] + 1, self.g.end[b]):
                    self.crossings[s] += 1
                if self.barred[b] >= 0:
                    self.bars ^= hash((b, self.barred[b]))
            else:
                self.bars ^= hash((b, self.barred[b]))
                self.barred[b] = value
                if value >= 0:
                    self.bars ^= hash((b, value))


def outcome(pending: Pending) -> bool:
    """Returns the result of a search. Searches under way are on a list, because Python's own
    stack (C's, before Python 3.11) is not deep enough for a thousand buffers with some calls
    each."""
    under_way: list[Generator[Pending, bool, bool]] = []
    while under_way or not isinstance(pending, bool):
        try:
            if isinstance(pending, bool):
                pending = under_way[-1].send(pending)
            else:
                under_way.append(pending)
                pending = next(pending)
        except StopIteration as over:
            under_way.pop()
            pending = over.value
    return pending
