# SPDX-License-Identifier: Apache-2.0
"""Leaves out channels whose byte is the same whatever the input, and channels that nobody reads.

What a channel can be follows from what the inputs can be, layer by layer, exactly or too widely but
never too narrowly (Layer.interval). A channel of one byte adds the same to every sum that it is
part of: it becomes part of the next layer's biases. Under a window with padding that holds only if
the byte is what padding stands for, the zero point; else the channel stays. What channels stay is
the smallest set that leaves every layer all it wants, and layers that work channel by channel the
same channels on both sides.
"""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np

from ..graph import Graph, Node
from ..ops import Interval, Layer, bind
from ..ops.concat import Concat
from ..quant import INT8_MAX, INT8_MIN

# By tensor, bool (C,): the channels that stay.
Kept = dict[str, np.ndarray]


def leave_out_constants(graph: Graph) -> Graph:
    layers = [bind(graph, node) for node in graph.nodes]
    found = intervals(graph, layers)
    kept = stays(graph, layers, found)
    if all(mask.all() for mask in kept.values()):
        return graph
    tensors = {
        name: replace(tensor, shape=(*tensor.shape[:2], int(kept[name].sum())))
        for name, tensor in graph.tensors.items()
    }
    changed = replace(
        graph,
        tensors=tensors,
        nodes=tuple(_cut(layer, kept, found) for layer in layers),
        channels={name: np.flatnonzero(mask) for name, mask in kept.items() if not mask.all()},
    )
    if any(op_without_room(node) for node in changed.nodes):
        return graph
    gone = sum(int(np.count_nonzero(~mask)) for mask in kept.values())
    return replace(changed, left_out=gone, macs_file=sum(layer.macs for layer in layers))


def op_without_room(node: Node) -> bool:
    """True if what was added to a bias takes it out of int32, where sums would wrap otherwise."""
    bias = getattr(node.op, "bias", None)
    return bias is not None and not np.array_equal(bias, bias.astype(np.int32))


def intervals(graph: Graph, layers: list[Layer[Any]]) -> dict[str, Interval]:
    """What every tensor's bytes can be. A loop's first node reads one that its last makes."""
    found = {
        name: Interval.between(INT8_MIN, INT8_MAX, tensor.shape[2])
        for name, tensor in graph.tensors.items()
    }
    for layer in layers:
        sources = [found[name] for name in layer.node.inputs]
        found[layer.node.outputs[0]] = layer.interval(sources)
    return found


def stays(graph: Graph, layers: list[Layer[Any]], found: dict[str, Interval]) -> Kept:
    """The channels that stay, of every tensor."""
    kept = {name: np.zeros(tensor.shape[2], bool) for name, tensor in graph.tensors.items()}
    for port in (*graph.inputs, *graph.outputs):
        kept[port.tensor][:] = True
    before = -1
    while before != (count := sum(int(mask.sum()) for mask in kept.values())):
        before = count
        for layer in reversed(layers):
            _want(layer, kept, found)
        for mask in kept.values():
            # A tensor has a channel.
            mask[0] |= not mask.any()
    return kept


def _want(layer: Layer[Any], kept: Kept, found: dict[str, Interval]) -> None:
    """Adds what a layer wants of its tensors, given what stays of them so far."""
    ins = [kept[name] for name in layer.node.inputs]
    out = kept[layer.node.outputs[0]]
    op = layer.op
    if layer.can_remove_channels:
        ins[0] |= layer.needed_channels(out, found[layer.node.inputs[0]])
    elif isinstance(op, Concat) and op.axis == 2:
        start = 0
        for mask in ins:
            part = out[start : start + len(mask)]
            part |= mask
            mask |= part
            start += len(mask)
    elif op.by_channel and all(len(m) == len(out) for m in ins):
        both = np.any([out, *ins], axis=0)
        for mask in (out, *ins):
            mask |= both
    else:
        for mask in (out, *ins):
            mask[:] = True


def _cut(layer: Layer[Any], kept: Kept, found: dict[str, Interval]) -> Node:
    """The node of what stays."""
    node = layer.node
    outs = kept[node.outputs[0]]
    if layer.can_remove_channels:
        source = node.inputs[0]
        if outs.all() and kept[source].all():
            return node
        return replace(node, op=layer.without(outs, kept[source], found[source]))
    if outs.all() or not layer.op.by_channel:
        return node
    return replace(node, op=layer.op.of_channels(np.flatnonzero(outs)))
