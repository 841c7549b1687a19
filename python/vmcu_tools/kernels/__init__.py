# SPDX-License-Identifier: Apache-2.0
"""The kernels: one class per op that holds its meaning and its order of access."""

from __future__ import annotations

from ..graph import (
    Add,
    Attention,
    AveragePool2D,
    Concat,
    Conv2D,
    DepthwiseConv2D,
    FullyConnected,
    Graph,
    MatMul,
    MatMulChain,
    MaxPool2D,
    Node,
    Op,
    Pad,
    Requantize,
    Reshape,
    Softmax,
)
from .add import AddLayer
from .base import NEVER, Layer, ProgramLayer
from .depthwise import DepthwiseConv2DLayer
from .elementwise import RequantizeLayer, SoftmaxLayer
from .mac import Conv2DLayer, FullyConnectedLayer
from .pool import AveragePool2DLayer, MaxPool2DLayer
from .product import AttentionLayer, MatMulChainLayer, MatMulLayer
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
    MatMul: MatMulLayer,
    MatMulChain: MatMulChainLayer,
    Attention: AttentionLayer,
}


def bind(graph: Graph, node: Node, descending: bool = False) -> Layer:
    """The layer of a node, with the tensors it reads and writes, in a direction."""
    return KERNELS[type(node.op)](graph, node, descending)
