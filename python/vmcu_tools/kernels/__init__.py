# SPDX-License-Identifier: Apache-2.0
"""The kernels: one class per op that holds its meaning and its order of access."""

from __future__ import annotations

from ..graph import (
    Add,
    AveragePool2D,
    Concat,
    Conv2D,
    DepthwiseConv2D,
    FullyConnected,
    Graph,
    MaxPool2D,
    Node,
    Op,
    Pad,
    Requantize,
    Reshape,
    Softmax,
)
from .base import NEVER, Layer, ProgramLayer
from .elementwise import AddLayer, RequantizeLayer, SoftmaxLayer
from .mac import Conv2DLayer, DepthwiseConv2DLayer, FullyConnectedLayer
from .pool import AveragePool2DLayer, MaxPool2DLayer
from .shape import ConcatLayer, PadLayer, ReshapeLayer

__all__ = ["KERNELS", "NEVER", "Layer", "ProgramLayer", "bind"]

KERNELS: dict[type[Op], type[Layer]] = {
    Conv2D: Conv2DLayer,
    DepthwiseConv2D: DepthwiseConv2DLayer,
    FullyConnected: FullyConnectedLayer,
    Add: AddLayer,
    AveragePool2D: AveragePool2DLayer,
    MaxPool2D: MaxPool2DLayer,
    Pad: PadLayer,
    Reshape: ReshapeLayer,
    Concat: ConcatLayer,
    Requantize: RequantizeLayer,
    Softmax: SoftmaxLayer,
}


def bind(graph: Graph, node: Node, descending: bool = False) -> Layer:
    """The layer of a node, with the tensors it reads and writes, in a direction."""
    return KERNELS[type(node.op)](graph, node, descending)
