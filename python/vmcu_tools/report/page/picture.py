# SPDX-License-Identifier: Apache-2.0
"""The picture of a plan on its own, as shapes that SVG and pixels are made of."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

from ..model import ModelReport
from .plot import HEIGHT, WIDTH, Area, Plot

# Of the picture; its plot, and the curve below it, as left, top, width, height.
WIDE, HIGH = 1200, 700
INSIDE = (84.0, 78.0, 1092.0, 440.0)
BELOW = (84.0, 536.0, 1092.0, 84.0)
TICKS = 4
# Numbers of layers closer than that are left out.
NEAR = 26


@dataclass(frozen=True)
class Polygon:
    """Filled; hatch: "h" or "g", see svg.patterns()."""

    points: tuple[tuple[float, float], ...]
    colour: str
    opacity: float = 1.0
    hatch: str = ""


@dataclass(frozen=True)
class Line:
    x0: float
    y0: float
    x1: float
    y1: float
    colour: str
    pen: float = 1.0
    dashed: bool = False


@dataclass(frozen=True)
class Text:
    """style: "", "soft", "title" or "peaked"."""

    x: float
    y: float
    text: str
    style: str = ""
    anchor: str = "start"


Shape = Polygon | Line | Text


def shapes(plot: Plot, report: ModelReport) -> list[Shape]:
    """Lists the shapes from the back to the front."""
    return [
        _box((0, 0, WIDE, HIGH), "paper"),
        Text(INSIDE[0], 36, f"{report.model}: {report.pool_bytes:,} bytes of RAM", "title"),
        Text(INSIDE[0] + INSIDE[2], 36, "addresses upwards, time to the right", "soft", "end"),
        _box(INSIDE, "plot"),
        *_areas(plot),
        *_axes(plot),
        _box(BELOW, "plot"),
        *_curve(plot),
        *_layers(plot),
        *_peak(plot),
        *_legend(),
    ]


def _box(bounds: tuple[float, float, float, float], colour: str, opacity: float = 1.0) -> Polygon:
    x, y, wide, high = bounds
    corners = ((x, y), (x + wide, y), (x + wide, y + high), (x, y + high))
    return Polygon(corners, colour, opacity)


def _at(x: float, y: float, inside: tuple[float, float, float, float]) -> tuple[float, float]:
    """Converts the plot's units to the picture's."""
    left, top, wide, high = inside
    return round(left + x / WIDTH * wide, 2), round(top + high - y / HEIGHT * high, 2)


def _areas(plot: Plot) -> Iterator[Shape]:
    for area in plot.areas:
        yield from _area(area)


def _area(area: Area) -> Iterator[Shape]:
    for outline in area.outlines:
        yield Polygon(tuple(_at(x, y, INSIDE) for x, y in outline), area.colour)
    for left, low, right, high in area.hatched:
        corners = ((left, low), (left, high), (right, high), (right, low))
        points = tuple(_at(x, y, INSIDE) for x, y in corners)
        if not area.guest:
            yield Polygon(points, area.colour, 0.4)
        yield Polygon(points, area.colour, 1.0, "g" if area.guest else "h")


def _axes(plot: Plot) -> Iterator[Shape]:
    for tick in range(TICKS + 1):
        _, y = _at(0, HEIGHT * tick / TICKS, INSIDE)
        yield Line(INSIDE[0] - 5, y, INSIDE[0], y, "soft")
        at = round(plot.bottom + (plot.top - plot.bottom) * tick / TICKS)
        yield Text(INSIDE[0] - 9, y + 5, f"{at:,}", "soft", "end")


def _curve(plot: Plot) -> Iterator[Shape]:
    scale = HEIGHT / plot.top
    points: list[tuple[float, float]] = []
    for (x, size), (until, _) in zip(plot.curve, plot.curve[1:], strict=False):
        points += [_at(x, size * scale, BELOW), _at(until, size * scale, BELOW)]
    if points:
        floor = BELOW[1] + BELOW[3]
        yield Polygon(((points[0][0], floor), *points, (points[-1][0], floor)), "accent", 0.75)
    yield Text(BELOW[0] - 9, BELOW[1] + 12, "needed", "soft", "end")


def _layers(plot: Plot) -> Iterator[Shape]:
    last = -float(NEAR)
    y = BELOW[1] + BELOW[3]
    for mark in plot.marks:
        left, _ = _at(mark.left, 0, BELOW)
        right, _ = _at(mark.right, 0, BELOW)
        yield Line(left, y, left, y + 5, "soft")
        name = f"{mark.first}" if mark.first == mark.last else f"{mark.first}-{mark.last}"
        room = 9 * len(name) + 6
        middle = (left + right) / 2
        if middle - room / 2 >= last:
            yield Text(middle, y + 20, name, "soft", "middle")
            last = middle + room / 2
    yield Text(BELOW[0] - 9, y + 20, "layers", "soft", "end")


def _peak(plot: Plot) -> Iterator[Shape]:
    if plot.peak is None:
        return
    at, size = plot.peak
    x, _ = _at(at, 0, INSIDE)
    yield Line(x, INSIDE[1] - 8, x, BELOW[1] + BELOW[3], "peak", 2, True)
    right = x < WIDE * 0.6
    yield Text(
        x + (7 if right else -7),
        INSIDE[1] - 6,
        f"peak: {size:,} bytes needed",
        "peaked",
        "start" if right else "end",
    )


def _legend() -> Iterator[Shape]:
    x, y = INSIDE[0], HIGH - 34
    for colour, hatch, text in (
        ("in", "", "input"),
        ("out", "", "output"),
        ("c0", "", "other tensors, row by row"),
        ("c0", "h", "rings that turn too fast to be drawn"),
        ("scratch", "h", "scratch"),
    ):
        if hatch:
            yield _box((x, y, 22, 14), colour, 0.4)
        yield Polygon(_box((x, y, 22, 14), colour).points, colour, 1.0, hatch)
        yield Text(x + 29, y + 13, text, "soft")
        x += 52 + 7.6 * len(text)
