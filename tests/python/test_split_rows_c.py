# SPDX-License-Identifier: Apache-2.0
"""Windows over rows that a ring's end splits, in C: what a kernel takes at once ends there."""

from __future__ import annotations

import itertools

import numpy as np
import pytest
from random_builder import Builder
from random_graphs import convolution, depthwise_of
from test_fusion import HOST, expect_meaning, whole_network
from vmcu_tools.graph import Graph, Window

HEIGHT, WIDTH, CHANNELS = 9, 19, 4
ROW = WIDTH * CHANNELS


def pair(seed: int, window: Window, depthwise: bool) -> Graph:
    """A layer whose output is in a ring, and one with a window that reads it."""
    b = Builder(np.random.default_rng(seed))
    x = convolution(b, b.input((HEIGHT, WIDTH, 2)), Window(), HEIGHT, WIDTH, CHANNELS)
    size = window.out_size(0, HEIGHT), window.out_size(1, WIDTH)
    layer = depthwise_of(b, x, window, *size, 1) if depthwise else None
    return b.graph([(layer or convolution(b, x, window, *size, 3)).name])


@pytest.mark.parametrize("stride", [1, 2])
@pytest.mark.parametrize("taps", [3, 5, 7])
@pytest.mark.parametrize("depthwise", [True, False])
def test_windows_over_rows_that_are_split(depthwise: bool, taps: int, stride: int) -> None:
    split = 0
    for number, (pad, tile) in enumerate(itertools.product((0, taps // 2), (16, 32))):
        window = Window((taps, taps), (stride, stride), pad=(pad,) * 4)
        plan = whole_network(pair(number, window, depthwise), tile, True)
        rings = [place.ring for place in plan.placements.values()]
        split += any(ring > ROW and ring % ROW for ring in rings)
        expect_meaning(plan, HOST)
    assert split
