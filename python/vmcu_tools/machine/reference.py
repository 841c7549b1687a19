# SPDX-License-Identifier: Apache-2.0
"""A graph's meaning, with every tensor in memory of its own."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from ..graph import Graph
from ..ops import bind


def run(graph: Graph, inputs: Sequence[np.ndarray]) -> dict[str, np.ndarray]:
    """Every tensor's int8 (H, W, C) values for the given graph inputs, in port order."""
    values = {
        port.tensor: np.asarray(data, np.int8).reshape(graph.tensors[port.tensor].shape)
        for port, data in zip(graph.inputs, inputs, strict=True)
    }
    for node in graph.nodes:
        layer = bind(graph, node)
        values[layer.out.name] = np.empty(layer.out.shape, np.int8)
        data = [values[name] for name in node.operands]
        # Blocks of rows bound the memory that the gathered taps take; of its own output a layer
        # sees the rows before.
        block = max(1, (1 << 24) // max(1, layer.macs // max(1, layer.height)))
        for y in range(0, layer.height, block):
            stop = min(y + block, layer.height)
            values[layer.out.name][y:stop] = layer.rows(data, y, stop)
    return values
