# SPDX-License-Identifier: Apache-2.0
"""Moves a Pad into the windows of the layers behind it.

A convolution pads with its input's zero point, so the Pad must do the same. A maximum ignores its
padding, so the Pad's value must not exceed any value of the image.
"""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np

from ..graph import Graph, Node, Tensor, Window
from ..ops.max_pooling import MaxPool2D
from ..ops.pad import Pad
from ..quant import INT8_MIN
from .rewrite import is_output, reading, rewrite_nodes, same_quantisation, with_nodes


def absorb_pad(graph: Graph) -> Graph:
    return rewrite_nodes(graph, _absorb)


def _absorb(graph: Graph, node: Node) -> Graph | None:
    if not isinstance(node.op, Pad):
        return None
    source, target = graph.tensors[node.inputs[0]], graph.tensors[node.outputs[0]]
    consumers = graph.consumers(target.name)
    (top, bottom), (left, right), channels = node.op.amounts
    possible = (
        channels == (0, 0)
        and not is_output(graph, target.name)
        and same_quantisation(source, target)
        and all(_takes(graph, node, consumer, source) for consumer in consumers)
    )
    if not possible or not consumers:
        return None

    def absorbed(consumer: Node) -> Node:
        if consumer not in consumers:
            return consumer
        op: Any = consumer.op
        inner = op.window.pad
        pad = tuple(a + b for a, b in zip(inner, (top, left, bottom, right), strict=True))
        op = replace(op, window=replace(op.window, pad=pad))
        return reading(replace(consumer, op=op), target.name, source.name)

    return with_nodes(graph, [absorbed(other) for other in graph.nodes if other is not node])


def _takes(graph: Graph, pad: Node, consumer: Node, source: Tensor) -> bool:
    assert isinstance(pad.op, Pad)
    if consumer.op.windowed and (consumer.op.columnwise or consumer.op.channelwise):
        return pad.op.value == source.zero_point
    if not isinstance(consumer.op, MaxPool2D):
        return False
    producer = graph.producer(source.name)
    least = INT8_MIN if producer is None else producer.op.act_min
    heights, widths = pad.op.amounts[:2]
    return (
        pad.op.value <= least
        and _touches(consumer.op.window, 0, source.shape[0], heights)
        and _touches(consumer.op.window, 1, source.shape[1], widths)
    )


def _touches(window: Window, axis: int, size: int, amounts: tuple[int, int]) -> bool:
    """Whether every window of a padded axis has a tap inside the image."""
    outs = np.arange(window.out_size(axis, size + sum(amounts)), dtype=np.int64)
    first = outs * window.stride[axis] - window.pad[axis] - amounts[0]
    step = window.dilation[axis]
    lowest = np.maximum(-(first // step), 0)
    highest = np.minimum((size - 1 - first) // step, window.kernel[axis] - 1)
    return bool((lowest <= highest).all())
