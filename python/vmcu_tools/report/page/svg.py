# SPDX-License-Identifier: Apache-2.0
"""Plots as SVG: the inside of the page's picture, and a picture of its own."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from html import escape

from .palette import AREAS, DARK, LIGHT, variables
from .picture import HIGH, WIDE, Line, Polygon, Shape, Text
from .plot import HEIGHT, Area, Plot


def path(outline: Sequence[tuple[int, int]]) -> str:
    """A polygon with right angles, upside down as SVG has it, in few letters."""
    x, y = outline[0][0], HEIGHT - outline[0][1]
    parts = [f"M{x} {y}"]
    for next_x, up in outline[1:]:
        next_y = HEIGHT - up
        if next_x != x:
            parts.append(f"h{next_x - x}")
        if next_y != y:
            parts.append(f"v{next_y - y}")
        x, y = next_x, next_y
    return "".join([*parts, "z"])


def area_path(area: Area) -> str:
    """All of an area but hatched parts."""
    return "".join(path(outline) for outline in area.outlines)


def hatched_path(area: Area) -> str:
    """The hatched parts."""
    return "".join(
        path([(left, low), (left, high), (right, high), (right, low)])
        for left, low, right, high in area.hatched
    )


def curve_path(plot: Plot) -> str:
    """Draws the needed bytes, as an area in the plot's own units."""
    scale = HEIGHT / plot.top
    points = [(x, round(size * scale)) for x, size in plot.curve]
    if not points:
        return ""
    outline = [(points[0][0], 0)]
    for (x, high), (until, _) in zip(points, [*points[1:], points[-1]], strict=True):
        outline += [(x, high), (until, high)]
    return path([*outline, (points[-1][0], 0)])


def patterns(names: Sequence[str], size: int = 14, pen: float = 5) -> Iterator[str]:
    """Hatches of all colours, h- for a ring and g- for a guest in one."""
    for name in names:
        for kind, angle in (("h", 45), ("g", -45)):
            yield (
                f'<pattern id="{kind}-{name}" width="{size}" height="{size}" '
                f'patternUnits="userSpaceOnUse" patternTransform="rotate({angle})">'
                f'<path d="M0 {size / 2:g}h{size}" stroke="var(--{name})" stroke-width="{pen:g}"/>'
                "</pattern>"
            )


STYLE = (
    f"svg{{{variables(AREAS)}{variables(LIGHT)}}}"
    f"@media(prefers-color-scheme:dark){{svg{{{variables(DARK)}}}}}"
    "text{font:15px system-ui,sans-serif;fill:var(--ink)}"
    ".soft{fill:var(--soft)}.title{font-size:22px;font-weight:600}.peaked{fill:var(--peak);"
    "font-weight:600}"
)


def picture(shapes: Sequence[Shape], label: str) -> str:
    """A picture as one file."""
    head = (
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {WIDE} {HIGH}" role="img" '
        f'aria-label="{escape(label)}">'
    )
    hatches = "".join(patterns(list(AREAS), 7, 2.5))
    parts = [head, f"<style>{STYLE}</style>", f"<defs>{hatches}</defs>"]
    parts += [_drawn(shape) for shape in shapes]
    return "\n".join([*parts, "</svg>"]) + "\n"


def _drawn(shape: Shape) -> str:
    if isinstance(shape, Text):
        style = f' class="{shape.style}"' if shape.style else ""
        return (
            f'<text x="{shape.x:g}" y="{shape.y:g}" text-anchor="{shape.anchor}"{style}>'
            f"{escape(shape.text)}</text>"
        )
    if isinstance(shape, Line):
        dash = ' stroke-dasharray="6 4"' if shape.dashed else ""
        return (
            f'<path d="M{shape.x0:g} {shape.y0:g}L{shape.x1:g} {shape.y1:g}" fill="none" '
            f'stroke="var(--{shape.colour})" stroke-width="{shape.pen:g}"{dash}/>'
        )
    fill = f"url(#{shape.hatch}-{shape.colour})" if shape.hatch else f"var(--{shape.colour})"
    solid = "" if shape.opacity == 1 else f' fill-opacity="{shape.opacity:g}"'
    return f'<path fill="{fill}"{solid} d="{_points(shape)}"/>'


def _points(shape: Polygon) -> str:
    return (
        "".join(
            f"{'L' if number else 'M'}{x:g} {y:g}" for number, (x, y) in enumerate(shape.points)
        )
        + "z"
    )
