# SPDX-License-Identifier: Apache-2.0
"""What is joined along the channels is joined in tiles as well: neither the parts nor the whole
exist in rows."""

from __future__ import annotations

import numpy as np
import pytest
from random_builder import Builder
from random_graphs import convolution, random_inputs
from vmcu_bench.runners import get
from vmcu_tools.graph import Graph, Window
from vmcu_tools.machine import reference
from vmcu_tools.machine.mcu import VirtualMcu
from vmcu_tools.ops.concat import MOST_SPLIT, Concat
from vmcu_tools.planner.places import smallest_pool
from vmcu_tools.planner.places.layout import Cut, Layout

SIZE = 9, 16
SMALL = 32


def branches(count: int, axis: int = 2) -> Graph:
    """Layers that read one tensor, what they make in one again, of whose bytes every other part
    gets new ones, and a window over it."""
    b = Builder(np.random.default_rng(count))
    x = b.input((*SIZE, 3))
    parts = [convolution(b, x, Window(), *SIZE, 3 if axis == 1 else 4 + k) for k in range(count)]
    table = b.rng.integers(-128, 128, 256).astype(np.int8)
    tables = tuple(None if k % 2 else table for k in range(count))
    shape = list(parts[0].shape)
    shape[axis] = sum(part.shape[axis] for part in parts)
    joined = b.node(Concat(axis, tables), parts, (shape[0], shape[1], shape[2]))
    square = Window((3, 3), pad=(1, 1, 1, 1))
    return b.graph([convolution(b, joined, square, *joined.shape[:2], 4).name])


@pytest.mark.parametrize(
    ("count", "axis", "in_tiles"),
    [(2, 2, True), (MOST_SPLIT, 2, True), (MOST_SPLIT + 1, 2, False), (2, 1, False)],
)
def test_tiles(count: int, axis: int, in_tiles: bool) -> None:
    graph = branches(count, axis)
    layout = Layout(graph, (Cut(0, len(graph.nodes), SMALL),), True)
    *parts, joined = (graph.tensors[node.outputs[0]] for node in graph.nodes[:-1])
    assert (layout.ring_bytes(joined.name) < 3 * joined.row_bytes) == in_tiles
    for part in parts:
        assert (layout.ring_bytes(part.name) < part.row_bytes) == in_tiles
    plan = smallest_pool.place("vmcu", layout)
    VirtualMcu(plan).prove()
    inputs = random_inputs(graph, 1)
    wanted = reference.run(graph, inputs)[graph.outputs[0].tensor]
    (outputs,) = get("host:sanitize").run(plan, [inputs])
    np.testing.assert_array_equal(outputs[0], wanted)
