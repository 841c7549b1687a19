# SPDX-License-Identifier: Apache-2.0
"""Depth-first search for a placement within a given height, bottom up along the skyline.

Moments at which the same buffers are alive are one section; over each section the skyline is the
top of what has been placed there. Everything still to be placed goes on or above the skyline, so
a section whose skyline plus what is still to come exceeds the height is dead: its slack, what may
still be wasted in it, is below zero.

A valley is a stretch of skyline with higher neighbours. Pushed down as far as it goes, a buffer
either lies on a valley's floor, alive within the valley only, or no buffer lies there, and then
the floor may as well be raised to the lower neighbour, at the cost of slack: whatever else is
alive over the valley rests on that neighbour or something higher. So any valley may be decided
next, whichever constrains most, and that is where the search differs from one that places buffers
by rising offset: a tight corner is found out while its neighbours are still open. Sections that
no unplaced buffer connects are searched on their own.

The search is exhaustive, so it can also prove that there is no such placement. It comes in
several strategies because none is best; portfolio.py tries them in turn, each with few nodes.
"""

from __future__ import annotations

import time
from bisect import bisect_right
from collections.abc import Generator, Sequence

from .partial import INFINITE, Geometry, PartialAllocation
from .strategy import COVER, NO_CHOICE, OPEN, VALLEYS, Strategy, Valley

Segment = tuple[int, int, int]  # sections [start, end) and the level of the skyline over them
# A search as a coroutine: it yields the searches it depends on and is sent what each has found.
# One that is decided without looking is just its outcome.
Pending = Generator["Pending", bool, bool] | bool


class LimitError(Exception):
    """The search may visit no further node."""


class Search(PartialAllocation):
    """One search, from the top of its tree; PartialAllocation says what it has placed so far."""

    def __init__(self, geometry: Geometry, height: int, order: Sequence[int], strategy: Strategy):
        super().__init__(geometry, height, order)
        self.strategy = strategy
        self.key = VALLEYS[strategy.valley]
        self.within: dict[tuple[int, int], int] = {}
        self.dead: set[int] = set()  # hashes of states that lead nowhere
        self.nodes = 0

    def run(self, limit: int, deadline: float = INFINITE) -> list[int] | None:
        """Offsets, or None if there are none. Raises LimitError if it cannot tell."""
        self.limit, self.deadline = limit, deadline
        if min(self.slack, default=0) < 0:
            return None
        found = outcome(self.split(0, self.g.sections, [(0, self.g.sections, 0)]))
        return self.offset if found else None

    # What follows: a component is a range of sections, its part of the skyline, its valleys by
    # start. Segments and valleys are copied on the way down; everything else is undone.

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
            self.look_at_clock()
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

    def look_at_clock(self) -> None:
        """Of what may take as many steps as there are buffers, each looks."""
        if time.monotonic() > self.deadline:
            raise LimitError

    def members(self, start: int, end: int) -> int:
        """A bit for each buffer alive between two sections only."""
        if (start, end) not in self.within:
            self.look_at_clock()
            first, last = self.g.first, self.g.end
            self.within[start, end] = sum(
                1 << b for b in range(self.g.count) if first[b] >= start and last[b] <= end
            )
        return self.within[start, end]

    def search(
        self, start: int, end: int, segments: list[Segment], valleys: dict[int, Valley]
    ) -> Pending:
        """Searches a component; True if all of its buffers have a place, else everything is undone.
        Raises LimitError where it may go no further."""
        self.nodes += 1
        self.look_at_clock()
        if self.nodes > self.limit:
            raise LimitError
        left = self.members(start, end) & self.unplaced
        if not left:
            return True
        state = hash((left, self.bars, tuple(segments)))
        if state in self.dead:
            return False
        slack, key = self.slack, self.key
        valley = min(valleys.values(), key=lambda v: key(v, slack))
        node = Branch(self, start, end, segments, valleys, valley)
        mark = len(self.undo)
        if valley.kind == NO_CHOICE:
            found = yield self.level(node)
        elif valley.kind == OPEN and self.strategy.fit != "rank":
            found = yield from self.from_left(node)
        else:
            found = yield from self.by_rank(node)
        if not found:
            self.rewind(mark)
            self.dead.add(state)
        return found

    def by_rank(self, node: Branch) -> Generator[Pending, bool, bool]:
        """Tries one buffer after the other; one that has had its turn is barred from the floor."""
        v, segments = node.valley, node.segments
        for b in v.buffers:
            mark = len(self.undo)
            if (yield self.place(node, b, 0)):
                return True
            self.rewind(mark)
            if v.kind == COVER:
                continue
            self.bar(b, v.floor)
            rest = self.valley(segments, node.at)
            if rest is None:
                return False
            if rest.kind != OPEN:
                valleys = {**node.valleys, v.start: rest}
                return (yield self.search(node.start, node.end, segments, valleys))
        return False

    def from_left(self, node: Branch) -> Generator[Pending, bool, bool]:
        """Tries each buffer as the leftmost on the floor: what is left of it is raised."""
        v = node.valley
        for b, raised in self.leftmost(node):
            mark = len(self.undo)
            if raised:
                self.waste(v.start, self.g.first[b], raised)
            if (yield self.place(node, b, raised)):
                return True
            self.rewind(mark)
        if any(self.top(b, v.floor) - v.floor <= v.wall for b in v.buffers):
            return False  # whatever would be below the raised floor could just as well be on it
        return min(self.slack[v.start : v.end]) >= v.wall and (yield self.level(node))

    def leftmost(self, node: Branch) -> list[tuple[int, int]]:
        """The buffers that can be leftmost, and by how much each raises what is left of it."""
        v, first, end = node.valley, self.g.first, self.g.end
        left_wall = node.left_wall - v.floor
        right_wall = node.right_wall - v.floor
        shares = self.strategy.fit == "share"
        height = {b: self.top(b, v.floor) - v.floor for b in v.buffers}
        ranked = []
        for b in v.buffers:
            at, raised, cost = first[b], 0, 0.0
            if at > v.start:
                raised = min(left_wall, height[b])
                slack = self.slack[v.start : at]
                if min(slack) < raised:
                    continue
                if any(end[x] <= at and height[x] <= raised for x in v.buffers):
                    continue  # that one fits below
                cost = sum(raised / (s + 1) for s in slack) if shares else raised * len(slack)
            matches = (at == v.start) + (end[b] == v.end)
            matches += at == v.start and height[b] == left_wall
            matches += end[b] == v.end and height[b] == right_wall
            ranked.append((cost, -matches, self.rank[b], b, raised))
        return [(b, raised) for *_, b, raised in sorted(ranked)]

    def place(self, node: Branch, b: int, raised: int) -> Pending:
        """Puts a buffer on the floor, raises the floor left of it, and goes on from there."""
        v = node.valley
        first, end, top = self.g.first[b], self.g.end[b], self.top(b, v.floor)
        wasted = top - self.g.size[b] - v.floor
        if wasted:
            self.waste(first, end, wasted)
        pieces = [(first, end, top)]
        if first > v.start:
            pieces.insert(0, (v.start, first, v.floor + raised))
        if end < v.end:
            pieces.append((end, v.end, v.floor))
        cut = self.put(b, top)
        return self.descend(node, pieces, cut)

    def level(self, node: Branch) -> Pending:
        """Raises the whole valley to its lower neighbour, which joins it."""
        v = node.valley
        self.waste(v.start, v.end, v.wall)
        return self.descend(node, [(v.start, v.end, v.floor + v.wall)], False)

    def descend(self, node: Branch, pieces: list[Segment], cut: bool) -> Pending:
        """Searches on with the valley's segment replaced by pieces."""
        before, after = node.segments[: node.at], node.segments[node.at + 1 :]
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
        at = max(len(before) - 1, 0)
        return self.survey(segments, at, at + len(joined), valleys) and self.search(
            node.start, node.end, segments, valleys
        )

    def survey(
        self, segments: list[Segment], begin: int, end: int, valleys: dict[int, Valley]
    ) -> bool:
        """Adds the valleys among some segments; False if one of them is dead."""
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
        """What may be done about a valley; None if nothing."""
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
            # Something that would fit below the raised floor has been tried on this one.
            if least < wall or (fits is not None and fits <= wall):
                return None
            return Valley(1, floor, start, end, wall, NO_CHOICE, [])
        lowest = min(lowest, wall)
        if least < lowest:
            covering = self.covering(start, end, lowest, buffers)
            if not covering:
                return None
            if self.strategy.cover or len(covering) == 1:
                return Valley(len(covering), floor, start, end, wall, COVER, covering)
        buffers.sort(key=self.rank.__getitem__)
        return Valley(len(buffers) + 1, floor, start, end, wall, OPEN, buffers)

    def candidates(self, start: int, end: int, floor: int) -> tuple[list[int], int, int | None]:
        """The buffers that may lie on a floor, the lowest of their tops, and that of all that fit.

        Tops are above the floor. All that fit includes those whose turn is over.
        """
        placed, last, size, twin, barred = (
            self.placed, self.g.end, self.g.size, self.twin, self.barred
        )  # fmt: skip
        found: list[int] = []
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
                    found.append(b)
        return found, lowest, None if fits == INFINITE else fits

    def covering(self, start: int, end: int, raise_: int, buffers: list[int]) -> list[int]:
        """The choices for the section with the fewest among those that must be covered."""
        change = [0] * (end - start + 1)
        first, last = self.g.first, self.g.end
        for b in buffers:
            change[first[b] - start] += 1
            change[last[b] - start] -= 1
        fewest, at, count = INFINITE, -1, 0
        for s in range(start, end):
            count += change[s - start]
            if count < fewest and self.slack[s] < raise_:
                fewest, at = count, s
        chosen = [b for b in buffers if first[b] <= at < last[b]]
        chosen.sort(key=self.rank.__getitem__)
        return chosen


class Branch:
    """Where a search is: a component and the valley to decide."""

    __slots__ = ("at", "end", "left_wall", "right_wall", "segments", "start", "valley", "valleys")

    def __init__(
        self,
        search: Search,
        start: int,
        end: int,
        segments: list[Segment],
        valleys: dict[int, Valley],
        valley: Valley,
    ):
        self.start, self.end, self.segments, self.valleys = start, end, segments, valleys
        self.valley = valley
        self.at = at = bisect_right(segments, (valley.start, INFINITE)) - 1
        self.left_wall = segments[at - 1][2] if at else INFINITE
        self.right_wall = segments[at + 1][2] if at + 1 < len(segments) else INFINITE


def outcome(found: Pending) -> bool:
    """What a search finds. Searches under way are on a list, because Python's own stack (C's,
    before Python 3.11) is not deep enough for a thousand buffers with some calls each."""
    under_way: list[Generator[Pending, bool, bool]] = []
    while under_way or not isinstance(found, bool):
        try:
            if isinstance(found, bool):
                found = under_way[-1].send(found)
            else:
                under_way.append(found)
                found = next(found)
        except StopIteration as over:
            under_way.pop()
            found = over.value
    return found
