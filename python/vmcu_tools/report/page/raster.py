# SPDX-License-Identifier: Apache-2.0
"""The picture as pixels, by Pillow."""

from __future__ import annotations

import io
from collections.abc import Sequence
from typing import TYPE_CHECKING

from ...errors import missing_package
from .palette import AREAS, LIGHT
from .picture import HIGH, WIDE, Line, Polygon, Shape, Text

if TYPE_CHECKING:
    from PIL.Image import Image
    from PIL.ImageDraw import ImageDraw

# Pixels for each of the picture's units, and of those that each is the mean of.
SCALE, FINER = 2, 2
COLOURS = {**AREAS, **LIGHT}
SIZES = {"title": 22, "": 15}
HATCH = 7


def png(shapes: Sequence[Shape]) -> bytes:
    """A PNG file. Raises UserError where Pillow is not installed."""
    try:
        import PIL.Image
        import PIL.ImageDraw
    except ImportError:
        raise missing_package(
            "pillow", "write a PNG file (a .svg file needs none)", "png"
        ) from None
    size = WIDE * SCALE * FINER, HIGH * SCALE * FINER
    image = PIL.Image.new("RGB", size, LIGHT["paper"])
    for shape in shapes:
        if isinstance(shape, Polygon):
            _polygon(image, shape)
        elif isinstance(shape, Line):
            _line(PIL.ImageDraw.Draw(image), shape)
    image = image.resize((WIDE * SCALE, HIGH * SCALE), PIL.Image.Resampling.BOX)
    draw = PIL.ImageDraw.Draw(image)
    for shape in shapes:
        if isinstance(shape, Text):
            _text(draw, shape)
    file = io.BytesIO()
    image.save(file, "PNG", optimize=True)
    return file.getvalue()


def _scaled(points: Sequence[tuple[float, float]]) -> list[tuple[float, float]]:
    return [(x * SCALE * FINER, y * SCALE * FINER) for x, y in points]


def _polygon(image: Image, shape: Polygon) -> None:
    import PIL.Image
    import PIL.ImageDraw

    points = _scaled(shape.points)
    left, top = (int(min(p[axis] for p in points)) for axis in (0, 1))
    right, bottom = (int(max(p[axis] for p in points)) + 1 for axis in (0, 1))
    mask = PIL.Image.new("L", (right - left + 1, bottom - top + 1))
    pen = PIL.ImageDraw.Draw(mask)
    inside = [(x - left, y - top) for x, y in points]
    # A polygon of Pillow has the pixels of its right and lower edges, too.
    pen.polygon(inside, fill=round(255 * shape.opacity))
    if shape.hatch:
        lines = PIL.Image.new("L", mask.size)
        _hatched(PIL.ImageDraw.Draw(lines), (left, top), mask.size, shape.hatch == "h")
        empty = PIL.Image.new("L", mask.size)
        mask = PIL.Image.composite(lines, empty, mask)
    image.paste(COLOURS[shape.colour], (left, top), mask)


def _hatched(pen: ImageDraw, at: tuple[int, int], size: tuple[int, int], falling: bool) -> None:
    wide, high = size
    step = round(HATCH * SCALE * FINER * 2**0.5)
    # All hatches hang together, wherever their areas begin.
    offset = (at[0] - at[1] if falling else at[0] + at[1]) % step
    for x in range(-high - step - offset, wide + high + step, step):
        ends = ((x, 0), (x + high, high)) if falling else ((x, high), (x + high, 0))
        pen.line(ends, fill=255, width=round(2.5 * SCALE * FINER))


def _line(pen: ImageDraw, shape: Line) -> None:
    ((x0, y0), (x1, y1)) = _scaled([(shape.x0, shape.y0), (shape.x1, shape.y1)])
    width = max(round(shape.pen * SCALE * FINER), 1)
    length = max(abs(x1 - x0), abs(y1 - y0))
    dash, gap = (6 * SCALE * FINER, 4 * SCALE * FINER) if shape.dashed else (length or 1, 0)
    done = 0.0
    while done < length:
        a, b = done / length, min(done + dash, length) / length
        ends = [(x0 + (x1 - x0) * part, y0 + (y1 - y0) * part) for part in (a, b)]
        pen.line(ends, fill=COLOURS[shape.colour], width=width)
        done += dash + gap


def _text(pen: ImageDraw, shape: Text) -> None:
    import PIL.ImageFont

    font = PIL.ImageFont.load_default(SIZES.get(shape.style, SIZES[""]) * SCALE)
    colour = {"soft": "soft", "peaked": "peak"}.get(shape.style, "ink")
    anchor = {"start": "ls", "middle": "ms", "end": "rs"}[shape.anchor]
    at = shape.x * SCALE, shape.y * SCALE
    pen.text(at, shape.text, fill=COLOURS[colour], font=font, anchor=anchor)
