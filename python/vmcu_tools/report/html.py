# SPDX-License-Identifier: Apache-2.0
"""A report as one HTML page with a map of the pool: steps to the right, addresses upwards."""

from __future__ import annotations

from dataclasses import dataclass

import jinja2

from ..plan.plan import Placement, Plan
from ..plan.pools import Pool
from .model import ModelReport

WIDTH, HEIGHT = 960, 420


@dataclass(frozen=True)
class Box:
    """A tensor's place in the map, in SVG units; a tensor that wraps has two."""

    x: float
    y: float
    width: float
    height: float
    hue: int
    title: str


def boxes(plan: Plan) -> list[Box]:
    """The map's boxes, in SVG units: each tensor over its steps and its bytes of the pool."""
    columns = len(plan.steps) + 2
    result = []
    for number, placement in enumerate(plan.placements.values()):
        for start, stop in spans(placement, plan.pool_of(placement.base)):
            result.append(
                Box(
                    x=(placement.first + 1) / columns * WIDTH,
                    y=HEIGHT - stop / plan.pool_bytes * HEIGHT,
                    width=(placement.last - placement.first + 1) / columns * WIDTH,
                    height=(stop - start) / plan.pool_bytes * HEIGHT,
                    hue=number * 137 % 360,
                    title=f"{placement.tensor}: bytes {start} to {stop - 1}, "
                    f"steps {placement.first} to {placement.last}",
                )
            )
    return result


def spans(placement: Placement, circle: Pool) -> list[tuple[int, int]]:
    """The one or two address ranges (start, stop) that a tensor's rows cover in their pool."""
    start, size = circle.around(placement.base), placement.ring
    if start + size <= circle.stop:
        return [(start, start + size)]
    return [(start, circle.stop), (circle.start, start + size - circle.size)]


def render(plan: Plan, report: ModelReport) -> str:
    """The page, complete in itself."""
    environment = jinja2.Environment(
        loader=jinja2.PackageLoader("vmcu_tools.report"), autoescape=True, trim_blocks=True
    )
    return environment.get_template("report.html").render(
        report=report, boxes=boxes(plan), width=WIDTH, height=HEIGHT
    )
