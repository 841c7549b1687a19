# SPDX-License-Identifier: Apache-2.0
"""The pool as areas in the plane of time and addresses, for pages and pictures.

Time goes to the right: a stage is as wide as its cycles by estimate, and never so narrow that it
cannot be seen; its calls are equally wide. Addresses go up. Whole numbers, so that the output is
short and the same everywhere.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

import numpy as np

from ...planner.stages.costs import cycles_of
from .lives import BEFORE, Box, Life, Lives, runs_of

WIDTH, HEIGHT = 2400, 1200
# Of the width: the margins in front of the first call and behind the last, and the least for a
# stage.
BORDER, LEAST = 0.012, 0.008
# A ring whose turns are narrower is hatched.
NARROW = 5.0
# Names of colours, of which neighbours in time have different ones.
COLOURS = 8
INPUT, OUTPUT, SCRATCH = "in", "out", "scratch"
# Edges of a rectangle: left, bottom, right, top.
Edges = tuple[int, int, int, int]


@dataclass(frozen=True)
class Area:
    """The area of a tensor. `life`: its number among those of Lives, -1 for scratch; colour: its
    name. outlines: polygons of (x, y) with right angles; hatched: rings whose turns are too
    narrow to be drawn, as rectangles, `guest` where another tensor's is behind."""

    life: int
    colour: str
    outlines: tuple[tuple[tuple[int, int], ...], ...]
    hatched: tuple[Edges, ...] = ()
    guest: bool = False


@dataclass(frozen=True)
class Mark:
    """A stage on the axis of time."""

    left: int
    right: int
    first: int
    last: int


@dataclass(frozen=True)
class Plot:
    """areas: the large ones first; curve: bytes that are needed, as points (x, bytes), each until
    the next; peak: (x, bytes) of the peak, None if it is not in sight; bottom, top: the addresses
    that are seen."""

    areas: tuple[Area, ...]
    marks: tuple[Mark, ...]
    curve: tuple[tuple[int, int], ...]
    peak: tuple[int, int] | None
    bottom: int
    top: int


def whole(lives: Lives) -> Plot:
    """The plot of an inference; of a window that moves, of two hops."""
    x = _even(lives, *lives.sight) if lives.plan.graph.state.step_rows else _times(lives)
    return _plotted(lives, x, *lives.sight)


def close(lives: Lives, call: int) -> Plot | None:
    """The plot of the stage of a call; None where it is most of the plot of all."""
    if lives.plan.graph.state.step_rows or len(lives.spans) < 2:
        return None
    number = lives.span_of(call)
    span = lives.spans[number]
    start, stop = span.start, span.stop
    if span.first == span.last:
        near = lives.spans[max(number - 1, 0) : number + 2]
        start, stop = near[0].start, near[-1].stop
    return _plotted(lives, _even(lives, start, stop), start, stop)


def _even(lives: Lives, start: int, stop: int) -> np.ndarray:
    """x of each call's left edge, and of the right one of the last: calls [start, stop) only."""
    border = BORDER * WIDTH
    edges = np.arange(lives.calls + 1, dtype=np.float64)
    x = border + (edges - start) / max(stop - start, 1) * (WIDTH - 2 * border)
    return np.clip(x, 0 if start else border, WIDTH if stop < lives.calls else WIDTH - border)


def _times(lives: Lives) -> np.ndarray:
    """Returns the x of all calls, with stages by their cycles."""
    if not lives.spans:
        return np.array([BORDER * WIDTH])
    cycles = cycles_of(lives.plan)
    each = np.array([sum(cycles[span.first : span.last + 1]) for span in lives.spans])
    least = min(LEAST, 0.6 / len(each))
    shares = least + (1 - least * len(each)) * each / max(each.sum(), 1)
    x = [np.zeros(1)]
    for span, share in zip(lives.spans, shares, strict=True):
        calls = span.stop - span.start
        x.append(x[-1][-1] + share * np.arange(1, calls + 1) / calls)
    return (BORDER + np.concatenate(x) * (1 - 2 * BORDER)) * WIDTH


def _plotted(lives: Lives, x: np.ndarray, start: int, stop: int) -> Plot:
    colours = _colours(lives)
    bottom, top = 0, max(lives.plan.pool_bytes, 1)
    grid = _Grid(lives, x, start, stop, bottom, top)
    areas = [grid.area(number, life, colours[number]) for number, life in enumerate(lives.lives)]
    areas += [grid.box(box) for box in _apart(lives.boxes)]
    shown = [area for area in areas if area is not None]
    marks = tuple(
        Mark(round(x[span.start]), round(x[span.stop]), span.first, span.last)
        for span in lives.spans
        if span.start < stop and start < span.stop
    )
    peak = lives.peak
    seen = None
    if lives.calls and start <= peak < stop:
        seen = round((x[peak] + x[peak + 1]) / 2), int(lives.ledger.needed[peak])
    return Plot(tuple(shown), marks, tuple(_curve(lives, x, start, stop)), seen, bottom, top)


def _curve(lives: Lives, x: np.ndarray, start: int, stop: int) -> Iterator[tuple[int, int]]:
    """The most that is needed in each column of the plot, where it changes."""
    columns = np.rint(x[start:stop]).astype(np.int64)
    before = None
    for column in np.unique(columns).tolist():
        most = int(lives.ledger.needed[start:stop][columns == column].max())
        if most != before:
            yield column, most
        before = most
    if stop > start:
        yield round(x[stop]), 0


def _colours(lives: Lives) -> list[str]:
    graph, number, colours = lives.plan.graph, 0, []
    outputs = {port.tensor for port in graph.outputs}
    inputs = {port.tensor for port in graph.inputs}
    for life in lives.lives:
        if life.tensor in inputs:
            colours.append(INPUT)
        elif life.tensor in outputs:
            colours.append(OUTPUT)
        else:
            colours.append(f"c{number % COLOURS}")
            number += 1
    return colours


def _apart(boxes: Sequence[Box]) -> list[Box]:
    """Those that are in no other of their stage: layers share the bytes of their scratch."""
    largest: dict[tuple[int, int], Box] = {}
    for box in boxes:
        known = largest.setdefault((box.start, box.base), box)
        if box.bytes > known.bytes:
            largest[box.start, box.base] = box
    return list(largest.values())


class _Grid:
    """A map from calls and addresses to whole numbers of the plot."""

    def __init__(self, lives: Lives, x: np.ndarray, start: int, stop: int, bottom: int, top: int):
        self.found, self.start, self.stop = lives, start, stop
        self.x, self.bottom, self.scale = x, bottom, HEIGHT / (top - bottom)
        self.circles: set[tuple[int, int]] = set()

    def left(self, births: np.ndarray) -> np.ndarray:
        """x of births."""
        edges = np.rint(self.x[np.maximum(births, 0)]).astype(np.int64)
        return np.where(births == BEFORE, 0, edges)

    def right(self, deaths: np.ndarray) -> np.ndarray:
        """x of deaths."""
        last = len(self.x) - 1
        edges = np.rint(self.x[np.minimum(deaths + 1, last)]).astype(np.int64)
        return np.where(deaths + 1 > last, WIDTH, edges)

    def height(self, at: np.ndarray) -> np.ndarray:
        """y of addresses, from the bottom."""
        return np.rint((at - self.bottom) * self.scale).astype(np.int64)

    def area(self, number: int, life: Life, colour: str) -> Area | None:
        """A tensor's area; None if it is not alive in sight."""
        if life.first >= self.stop or life.last < self.start:
            return None
        laps = int(life.laps[-1] - life.laps[0]) + 1 if life.laps.size else 0
        first, last = max(life.first, 0), min(life.last + 1, len(self.x) - 1)
        if laps > 1 and (self.x[last] - self.x[first]) / laps < NARROW:
            return self._hatched(number, life, colour)
        outlines: list[tuple[tuple[int, int], ...]] = []
        for lap in np.unique(life.laps).tolist():
            mine = life.laps == lap
            one = Life(life.tensor, life.pixel, *(a[mine] for a in _arrays(life)))
            outlines += self._outlines(one)
        return Area(number, colour, tuple(outlines)) if outlines else None

    def _hatched(self, number: int, life: Life, colour: str) -> Area:
        plan = self.found.plan
        placement = plan.placements[life.tensor]
        circle = plan.pool_of(placement.base)
        start = circle.around(placement.base)
        key = start, placement.ring
        guest = key in self.circles
        self.circles.add(key)
        spans = [(start, min(start + placement.ring, circle.stop))]
        if start + placement.ring > circle.stop:
            spans.append((circle.start, start + placement.ring - circle.size))
        left = int(self.left(np.array([max(life.first, self.start - 1)]))[0])
        right = int(self.right(np.array([life.last]))[0])
        return Area(
            number,
            colour,
            (),
            tuple((left, *self._bounds(low, high, right)) for low, high in spans),
            guest,
        )

    def _bounds(self, low: int, high: int, right: int) -> tuple[int, int, int]:
        bottom, top = self.height(np.array([low, high])).tolist()
        return bottom, right, max(top, bottom + 1)

    def _outlines(self, life: Life) -> Iterator[tuple[tuple[int, int], ...]]:
        """Yields the outlines of pixels of one turn of a ring: one polygon for each stretch of
        addresses."""
        starts, stops, births, deaths = runs_of(life)
        order = np.argsort(starts, kind="stable")
        starts, stops = starts[order], stops[order]
        left, right = self.left(births[order]), self.right(deaths[order])
        low, high = self.height(starts), self.height(stops)
        keep = (right > left) & (left < WIDTH) & (right > 0)
        rows: list[list[int]] = []
        ends = starts[:0]
        for index in np.flatnonzero(keep).tolist():
            row = [int(left[index]), int(low[index]), int(right[index]), int(high[index])]
            joins = len(ends) and int(ends[-1]) == int(starts[index])
            ends = stops[index : index + 1]
            if rows and not joins:
                yield _outline(rows)
                rows = []
            if rows and rows[-1][0] == row[0] and rows[-1][2] == row[2]:
                rows[-1][3] = row[3]
            elif rows and row[1] == row[3]:
                continue
            else:
                rows.append(row)
        if rows:
            rows[-1][3] = max(rows[-1][3], rows[0][1] + 1)
            yield _outline(rows)

    def box(self, box: Box) -> Area | None:
        """Scratch, while its stage runs."""
        if box.start >= self.stop or box.stop <= self.start:
            return None
        left, right = round(self.x[box.start]), round(self.x[box.stop])
        bounds = self._bounds(box.base, box.base + box.bytes, max(right, left + 1))
        return Area(-1, SCRATCH, (), ((left, *bounds),))


def _arrays(life: Life) -> tuple[np.ndarray, ...]:
    return life.at, life.births, life.deaths, life.laps


def _outline(rows: Sequence[Sequence[int]]) -> tuple[tuple[int, int], ...]:
    """Up along the left edges of rows one above the other, down along the right ones."""
    points: list[tuple[int, int]] = []
    for left, low, _, high in rows:
        points += [(left, low), (left, high)]
    for _, low, right, high in reversed(rows):
        points += [(right, high), (right, low)]
    outline: list[tuple[int, int]] = []
    for point in points:
        if outline and outline[-1] == point:
            continue
        if len(outline) > 1 and (outline[-2][0] == outline[-1][0] == point[0]):
            outline[-1] = point
            continue
        outline.append(point)
    return tuple(outline)
