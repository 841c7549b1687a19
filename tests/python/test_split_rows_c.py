# SPDX-License-Identifier: Apache-2.0
"""Windows over rows that a ring's end splits, in C: what a kernel takes at once ends there."""

from __future__ import annotations

import itertools

import numpy as np
import pytest
from builders.fused_networks import HOST, expect_meaning, whole_network
from drawn import case
from random_builder import Builder
from random_graphs import convolution, depthwise_of
from vmcu_tools.graph import Graph, Window
from vmcu_tools.ops.average_pooling import AveragePool2D
from vmcu_tools.ops.max_pooling import MaxPool2D

HEIGHT, WIDTH, CHANNELS = 9, 19, 4
ROW = WIDTH * CHANNELS
POOLS = {"average": AveragePool2D, "max": MaxPool2D}


def pair(seed: int, window: Window, kind: str) -> Graph:
    """A layer whose output is in a ring, and one with a window that reads it."""
    b = Builder(np.random.default_rng(seed))
    x = convolution(b, b.input((HEIGHT, WIDTH, 2)), Window(), HEIGHT, WIDTH, CHANNELS)
    size = window.out_size(0, HEIGHT), window.out_size(1, WIDTH)
    if kind in POOLS:
        return b.graph([b.node(POOLS[kind](window), [x], (*size, CHANNELS)).name])
    layer = depthwise_of(b, x, window, *size, 1) if kind == "depthwise" else None
    return b.graph([(layer or convolution(b, x, window, *size, 3)).name])


# A window of each size; with the other stride it is slow.
LEFT_OUT = {(5, 2), (7, 1)}
WINDOWS = [
    *itertools.product(("depthwise", "convolution"), (3, 5, 7), (1, 2)),
    *itertools.product(POOLS, (3,), (1, 2)),
]


@pytest.mark.parametrize(
    ("kind", "taps", "stride"),
    [case(*one, slow=one[1:] in LEFT_OUT) for one in WINDOWS],
)
def test_windows_over_rows_that_are_split(kind: str, taps: int, stride: int) -> None:
    split = 0
    for number, (pad, tile) in enumerate(((0, 32), (taps // 2, 16))):
        window = Window((taps, taps), (stride, stride), pad=(pad,) * 4)
        plan = whole_network(pair(number, window, kind), tile, True)
        rings = [place.ring for place in plan.placements.values()]
        split += any(ring > ROW and ring % ROW for ring in rings)
        expect_meaning(plan, HOST)
    assert split
