# SPDX-License-Identifier: Apache-2.0
"""How the proof divides rows of a streamed input where a ring's end splits them."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
from random_builder import Builder
from random_graphs import convolution
from vmcu_tools.errors import PlanError
from vmcu_tools.graph import Window
from vmcu_tools.machine.parts import Taken
from vmcu_tools.plan.plan import Plan
from vmcu_tools.planner.options import CompileOptions
from vmcu_tools.planner.registry import make_plan

HEIGHT, CHANNELS = 6, 3


def streamed(width: int, pixels: int, phase: int) -> Plan:
    """A plan whose input has a ring of so many pixels, of which row 0 begins at `phase`."""
    b = Builder(np.random.default_rng(width))
    x = b.input((HEIGHT, width, CHANNELS))
    y = convolution(b, x, Window((3, 3), (1, 1), (1, 1), (1, 1, 1, 1)), HEIGHT, width, 4)
    plan = make_plan(b.graph([y.name]), CompileOptions(stream_input=True))
    ring = replace(plan.placements[x.name], ring=pixels * CHANNELS, phase=phase * CHANNELS)
    return replace(plan, placements={**plan.placements, x.name: ring})


@pytest.mark.parametrize("most", [1, 2, 3, 8])
@pytest.mark.parametrize("pixels", [2, 3, 7, 9])
@pytest.mark.parametrize("width", [1, 2, 5, 8])
def test_every_pixel_is_taken_once(width: int, pixels: int, most: int) -> None:
    phase = pixels // 2
    taken, found = Taken(streamed(width, pixels, phase)), []
    for _ in range(HEIGHT * -(-width // most)):
        calls = list(taken.next(most))
        assert sum(call.columns for call in calls) == min(most, width - calls[0].x)
        found += calls
    assert [(call.y, call.x + i) for call in found for i in range(call.columns)] == [
        (y, x) for y in range(HEIGHT) for x in range(width)
    ]
    for call in found:
        assert (call.y * width + call.x + phase) % pixels + call.columns <= pixels
    with pytest.raises(PlanError, match="more rows are taken"):
        list(taken.next(most))
