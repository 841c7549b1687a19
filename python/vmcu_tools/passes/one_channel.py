# SPDX-License-Identifier: Apache-2.0
"""Turns a depthwise layer that makes several channels of one into a convolution of one channel.

Both compute the same sums. The convolution's kernels compute several output channels at a time from
the same taps and need a third of the cycles or less.
"""

from __future__ import annotations

from dataclasses import replace

import numpy as np

from ..graph import Graph, Node
from ..ops.conv2d import as_convolution
from ..ops.depthwise import DepthwiseConv2D
from .rewrite import replace_node, rewrite_nodes


def convolve_one_channel(graph: Graph) -> Graph:
    """The graph after all other passes."""
    return rewrite_nodes(graph, _convolve)


def _convolve(graph: Graph, node: Node) -> Graph | None:
    op = node.op
    if not isinstance(op, DepthwiseConv2D) or not 1 < op.multiplier == len(op.bias):
        return None
    weights = np.ascontiguousarray(op.weights.transpose(2, 0, 1)[..., None])
    return replace_node(graph, node, replace(node, op=as_convolution(op, weights, op.window)))
