# SPDX-License-Identifier: Apache-2.0
"""Depthwise layers side by side, each over some channels and the latest rows, as one layer.

A mixed convolution splits its channels, gives each part a kernel of another length and puts the
results side by side again. One kernel as long as the longest does the same, with zeros in front of
the shorter ones: no channel is moved, and all parts share one ring of rows.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from ..graph import Graph, Node, Tensor
from ..ops.concat import Concat
from ..ops.depthwise import DepthwiseConv2D
from ..ops.move import Move
from ..quant import FixedPoint
from .rewrite import rewrite_nodes, same_quantisation, sole_consumer, with_nodes


@dataclass(frozen=True)
class _Branch:
    """A depthwise node over channels from `channel` on and rows from `row` on of a tensor, which
    `move`, if any, takes from it."""

    node: Node
    move: Node | None
    source: str
    row: int
    channel: int


def join_branches(graph: Graph) -> Graph:
    return rewrite_nodes(graph, _join)


def _join(graph: Graph, node: Node) -> Graph | None:
    if not isinstance(node.op, Concat) or node.op.axis != 2 or len(node.inputs) < 2:
        return None
    found = [_branch(graph, name) for name in node.inputs]
    branches = [one for one in found if one is not None]
    if len(branches) < len(found) or any(table is not None for table in node.op.tables):
        return None
    op = _joined(graph, branches, graph.tensors[node.outputs[0]])
    if op is None:
        return None
    gone = {id(part) for one in branches for part in (one.node, one.move)}
    joined = Node(node.name, op, (branches[0].source,), node.outputs)
    return with_nodes(graph, [joined if n is node else n for n in graph.nodes if id(n) not in gone])


def _branch(graph: Graph, name: str) -> _Branch | None:
    node = graph.producer(name)
    alone = node is not None and sole_consumer(graph, name) is not None
    if node is None or not alone or not isinstance(node.op, DepthwiseConv2D):
        return None
    given = graph.tensors[node.inputs[0]]
    simple = node.op.weights.shape[2] == given.shape[2] and not any(node.op.window.pad)
    if not simple or node.op.window.dilation != (1, 1):
        return None
    move = graph.producer(given.name)
    if move is None or not isinstance(move.op, Move):
        return _Branch(node, None, given.name, 0, 0)
    source = graph.tensors[move.inputs[0]]
    row, rest = divmod(int(move.op.rows[0]), source.row_bytes)
    channel = int(move.op.columns[0] + move.op.channels[0]) + rest
    rows, columns, channels = (np.arange(size) for size in given.shape)
    part = (
        given.shape[1] == source.shape[1]
        and channel + len(channels) <= source.shape[2]
        and np.array_equal(
            move.op.index,
            (row + rows)[:, None, None] * source.row_bytes
            + columns[:, None] * source.shape[2]
            + channel
            + channels,
        )
    )
    if not part or sole_consumer(graph, given.name) is None:
        return None
    return _Branch(node, move, source.name, row, channel)


def _joined(graph: Graph, branches: Sequence[_Branch], out: Tensor) -> DepthwiseConv2D | None:
    """One layer for all branches; None if they do not make up their source's channels in order, or
    differ in more than their kernels."""
    source = graph.tensors[branches[0].source]
    first: Any = branches[0].node.op
    made = 0
    for one in branches:
        op: Any = one.node.op
        ours = graph.tensors[one.node.outputs[0]]
        alike = (
            one.source == source.name
            and one.channel == made
            and op.window.stride == first.window.stride
            and op.window.kernel[1] == first.window.kernel[1]
            and (op.act_min, op.act_max) == (first.act_min, first.act_max)
            and isinstance(op.requant, FixedPoint)
            and same_quantisation(ours, out)
            and ours.shape[:2] == out.shape[:2]
        )
        if not alike:
            return None
        made += op.weights.shape[2]
    if made != source.shape[2]:
        return None
    ops: list[Any] = [one.node.op for one in branches]
    tall = max(one.row + op.window.kernel[0] for one, op in zip(branches, ops, strict=True))
    weights, bias, factors = [], [], []
    for one, op in zip(branches, ops, strict=True):
        behind = tall - one.row - len(op.weights)
        weights.append(np.pad(op.weights, ((one.row, behind), (0, 0), (0, 0))))
        bias.append(op.bias)
        count = len(op.bias)
        pairs = (op.requant.multiplier, op.requant.shift)
        factors.append([np.broadcast_to(pair, count) for pair in pairs])
    multipliers, shifts = (np.concatenate(part) for part in zip(*factors, strict=True))
    joined: DepthwiseConv2D = replace(
        first,
        weights=np.concatenate(weights, axis=2),
        bias=np.concatenate(bias),
        window=replace(first.window, kernel=(tall, first.window.kernel[1])),
        requant=FixedPoint(multipliers, shifts),
        weight_bits=max(op.weight_bits for op in ops),
    )
    return joined
