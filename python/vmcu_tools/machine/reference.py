# SPDX-License-Identifier: Apache-2.0
"""A graph's meaning, with every tensor in memory of its own."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import numpy as np

from ..graph import Graph
from ..ops import bind


def run(graph: Graph, inputs: Sequence[np.ndarray]) -> dict[str, np.ndarray]:
    """Every tensor's int8 (H, W, C) values for the given graph inputs, in port order."""
    values = {
        port.tensor: np.asarray(data, np.int8).reshape(graph.tensors[port.tensor].shape)
        for port, data in zip(graph.inputs, inputs, strict=True)
    }
    loops = {number: loop for loop in graph.loops for number in loop}
    for number, node in enumerate(graph.nodes):
        if number in loops:
            if number == loops[number].start:
                values |= run_loop(graph, loops[number], values)
            continue
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


def run_loop(graph: Graph, loop: range, known: Mapping[str, np.ndarray]) -> dict[str, np.ndarray]:
    """The tensors of a loop, which it computes row by row."""
    layers = [bind(graph, graph.nodes[number]) for number in loop]
    made = {layer.out.name: np.zeros(layer.out.shape, np.int8) for layer in layers}
    values = {**known, **made}
    for y in range(max(layer.height for layer in layers)):
        for layer in layers:
            if y < layer.height:
                data = [values[name] for name in layer.node.operands]
                made[layer.out.name][y : y + 1] = layer.rows(data, y, y + 1)
    return made
