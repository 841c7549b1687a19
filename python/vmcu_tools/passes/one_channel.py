# SPDX-License-Identifier: Apache-2.0
"""Turns a depthwise layer that makes several channels of one into a convolution of one channel.

Both compute the same sums. The convolution's kernels compute several output channels at a time from
the same taps and need a third of the cycles or less.
"""

from __future__ import annotations

import numpy as np

from ..graph import Graph, Node
from ..ops.conv2d import Conv2D
from ..ops.depthwise import DepthwiseConv2D
from .rewrite import replace_node, rewrite_nodes


def convolve_one_channel(graph: Graph) -> Graph:
    """The graph after all other passes."""
    return rewrite_nodes(graph, _convolve)


def _convolve(graph: Graph, node: Node) -> Graph | None:
    op = node.op
    if not isinstance(op, DepthwiseConv2D) or not 1 < op.multiplier == len(op.bias):
        return None
    conv = Conv2D(
        weights=np.ascontiguousarray(op.weights.transpose(2, 0, 1)[..., None]),
        bias=op.bias,
        window=op.window,
        requant=op.requant,
        weight_bits=op.weight_bits,
        act_min=op.act_min,
        act_max=op.act_max,
    )
    return replace_node(graph, node, Node(node.name, conv, node.inputs, node.outputs))
