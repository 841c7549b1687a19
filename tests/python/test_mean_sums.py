# SPDX-License-Identifier: Apache-2.0
"""A mean that adds up its image as it comes: sums of two bytes as long as they hold any image."""

from __future__ import annotations

import numpy as np
import pytest
from builders.fused_networks import HOST, whole_network
from random_builder import Builder
from vmcu_bench.runners import get
from vmcu_tools.graph import Window
from vmcu_tools.machine import reference
from vmcu_tools.ops.average_pooling import AveragePool2D, AveragePool2DSumLayer
from vmcu_tools.ops.max_pooling import MaxPool2D


@pytest.mark.parametrize(("height", "width"), [(16, 16), (257, 1), (15, 19), (1, 255)])
def test_sums_of_extreme_images(height: int, width: int) -> None:
    b = Builder(np.random.default_rng(height))
    shape = height, width, 6
    x = b.input(shape)
    most = b.node(MaxPool2D(Window((3, 3), pad=(1, 1, 1, 1))), [x], shape)
    mean = b.node(AveragePool2D(Window((height, width))), [most], (1, 1, 6))
    graph = b.graph([mean.name])
    plan = whole_network(graph, 4, streamed=True)
    sums = plan.steps[-1].bind(graph)
    assert isinstance(sums, AveragePool2DSumLayer)
    assert sums.scratch_bytes == 6 * (2 if height * width <= 256 else 4)
    images = [np.full(shape, value, np.int8) for value in (-128, 127)]
    images.append(b.rng.integers(-128, 128, shape, np.int8))
    outputs = get(HOST).run(plan, [[image] for image in images])
    for image, found in zip(images, outputs, strict=True):
        np.testing.assert_array_equal(found[0], reference.run(graph, [image])[mean.name])
