# SPDX-License-Identifier: Apache-2.0
"""The kernels: one class per op that holds its meaning and its order of access."""

from __future__ import annotations

from ..graph import (
    Add,
    ArgMax,
    Attention,
    AveragePool2D,
    Binary,
    Concat,
    Conv2D,
    DepthwiseConv2D,
    FullyConnected,
    Graph,
    LayerNorm,
    Lookup,
    MatMul,
    MatMulChain,
    MaxPool2D,
    Move,
    Node,
    Op,
    Pad,
    Requantize,
    Reshape,
    Resize,
    Softmax,
    TransposeConv2D,
)
from .add import AddLayer
from .base import NEVER, Layer, ProgramLayer
from .binary import BinaryLayer
from .channels import ArgMaxLayer, LayerNormLayer
from .depthwise import DepthwiseConv2DLayer
from .elementwise import RequantizeLayer, SoftmaxLayer
from .lookup import LookupLayer
from .mac import Conv2DLayer, FullyConnectedLayer
from .move import MoveLayer
from .pool import AveragePool2DLayer, AveragePool2DSumLayer, MaxPool2DLayer
from .product import AttentionLayer, MatMulChainLayer, MatMulLayer
from .resize import ResizeLayer
from .shape import ConcatLayer, PadLayer, ReshapeLayer
from .transpose_conv import TransposeConv2DLayer

__all__ = ["KERNELS", "NEVER", "Layer", "ProgramLayer", "bind", "can_sum"]

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
    Lookup: LookupLayer,
    Binary: BinaryLayer,
    Move: MoveLayer,
    Resize: ResizeLayer,
    TransposeConv2D: TransposeConv2DLayer,
    LayerNorm: LayerNormLayer,
    ArgMax: ArgMaxLayer,
}


def can_sum(graph: Graph, node: Node) -> bool:
    """True if a node's layer can add its input up as it comes."""
    return AveragePool2DSumLayer.serves(graph, node)


def bind(
    graph: Graph,
    node: Node,
    descending: bool = False,
    columns: int | None = None,
    summing: bool = False,
) -> Layer:
    """The layer of a node, with the tensors it reads and writes, in a direction. columns: of a
    call, all of a row by default. summing: as it adds its input up, see can_sum()."""
    if summing:
        return AveragePool2DSumLayer(graph, node, columns=columns)
    return KERNELS[type(node.op)](graph, node, descending, columns)
