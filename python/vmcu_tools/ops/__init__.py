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
    L2Norm,
    LayerNorm,
    LogSoftmaxOnnx,
    LogSoftmaxTflite,
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
from .binary import BinaryLayer
from .channels import ArgMaxLayer, L2NormLayer, LayerNormLayer
from .depthwise import DepthwiseConv2DLayer
from .elementwise import LogSoftmaxOnnxLayer, LogSoftmaxTfliteLayer, RequantizeLayer, SoftmaxLayer
from .layer import NEVER, Form, Layer, ProgramLayer
from .lookup import LookupLayer
from .mac import Conv2DLayer, FullyConnectedLayer
from .move import MoveLayer
from .pool import AveragePool2DLayer, AveragePool2DSumLayer, MaxPool2DLayer
from .product import AttentionLayer, MatMulChainLayer, MatMulLayer
from .resize import ResizeLayer
from .shape import ConcatLayer, PadLayer, ReshapeLayer
from .transpose_conv import TransposeConv2DLayer

__all__ = ["KERNELS", "NEVER", "Form", "Layer", "ProgramLayer", "bind", "serves"]

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
    LogSoftmaxOnnx: LogSoftmaxOnnxLayer,
    MatMul: MatMulLayer,
    MatMulChain: MatMulChainLayer,
    Attention: AttentionLayer,
    Lookup: LookupLayer,
    Binary: BinaryLayer,
    Move: MoveLayer,
    Resize: ResizeLayer,
    TransposeConv2D: TransposeConv2DLayer,
    LayerNorm: LayerNormLayer,
    L2Norm: L2NormLayer,
    LogSoftmaxTflite: LogSoftmaxTfliteLayer,
    ArgMax: ArgMaxLayer,
}


def serves(graph: Graph, node: Node, form: Form) -> bool:
    """True if a node's layer can work in a form."""
    if form is Form.SUMMING:
        return AveragePool2DSumLayer.serves(graph, node)
    if form is Form.DIRECT:
        return isinstance(node.op, Conv2D) and Conv2DLayer(graph, node).pointwise
    return True


def bind(
    graph: Graph,
    node: Node,
    descending: bool = False,
    columns: int | None = None,
    form: Form = Form.USUAL,
) -> Layer:
    """The layer of a node, with the tensors it reads and writes, in a direction. columns: of a
    call, all of a row by default. form: one that serves()."""
    kind = AveragePool2DSumLayer if form is Form.SUMMING else KERNELS[type(node.op)]
    return kind(graph, node, descending, columns, form)
