# SPDX-License-Identifier: Apache-2.0
"""A graph with a larger or smaller image, or wider or narrower: what it would take, not what it
would compute.

Weights that are missing are made up. Tensors, and so RAM and arithmetic, are those of such a
network.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import replace

from ..errors import Problem, UserError
from ..graph import Graph, Node, Op, Port, Shape, Tensor
from ..ops import bind

# Channel counts that are a multiple of it stay one.
EVEN = 8


def scaled(graph: Graph, size: tuple[int, int] | None = None, width: float = 1.0) -> Graph:
    """The graph for an image of `size`, height and width, with `width` times as many channels
    everywhere but in its inputs and outputs.

    Raises UserError, which names the node, where an operator has no such form.
    """
    fixed = _fixed(graph)
    tensors = dict(graph.tensors)
    for port in graph.inputs:
        tensor = graph.tensors[port.tensor]
        if size is not None:
            tensors[port.tensor] = replace(tensor, shape=(*size, tensor.shape[2]))
    nodes = []
    for node in graph.nodes:
        op, shape = _scaled(graph, node, tensors, fixed, width)
        nodes.append(replace(node, op=op))
        name = node.outputs[0]
        tensors[name] = replace(graph.tensors[name], shape=shape)
    return replace(
        graph,
        tensors=tensors,
        nodes=tuple(nodes),
        inputs=tuple(_port(port, tensors[port.tensor]) for port in graph.inputs),
        outputs=tuple(_port(port, tensors[port.tensor]) for port in graph.outputs),
        offline={},
    )


def wider(channels: int, width: float) -> int:
    """So many channels times `width`."""
    grain = EVEN if channels % EVEN == 0 else 1
    return max(round(channels * width / grain), 1) * grain


def _fixed(graph: Graph) -> set[str]:
    """Tensors whose channels an output has."""
    found: set[str] = set()
    ahead = [port.tensor for port in graph.outputs]
    while ahead:
        name = ahead.pop()
        node = graph.producer(name)
        if name in found:
            continue
        found.add(name)
        if node is not None and not bind(graph, node).can_remove_channels:
            ahead += node.inputs
    return found


def _scaled(
    graph: Graph, node: Node, tensors: Mapping[str, Tensor], fixed: set[str], width: float
) -> tuple[Op, Shape]:
    out = graph.tensors[node.outputs[0]].shape
    channels = out[2] if node.outputs[0] in fixed else wider(out[2], width)
    ins = [tensors[name].shape for name in node.inputs]
    was = [graph.tensors[name].shape for name in node.inputs]
    found = node.op.scaled(ins, was, out, channels)
    if found is None or min(found[1]) < 1 or (node.outputs[0] in fixed and found[1][2] != out[2]):
        shapes = ", ".join(" x ".join(map(str, shape)) for shape in ins)
        reason = f"the network cannot be resized for inputs of {shapes}"
        hint = "choose another size, or change the network itself"
        raise UserError(Problem(reason, hint, graph.origin, node.name, node.kind))
    return found


def _port(port: Port, tensor: Tensor) -> Port:
    """A port as a file with that tensor would have it."""
    height, width, depth = tensor.shape
    if len(port.file_shape) == 4:
        inner = (depth, height, width) if port.layout == "nchw" else (height, width, depth)
        return replace(port, file_shape=(1, *inner))
    if math.prod(port.file_shape) == tensor.bytes:
        return port
    return replace(port, file_shape=(1, *tensor.shape), layout="nhwc")
