# SPDX-License-Identifier: Apache-2.0
"""The int8 graph: what a model computes, free of its file format.

Activations are int8 tensors of shape (H, W, C); batch is always one. A row is the W x C bytes of
one y. Fully connected activations are one row of one pixel, (1, 1, C); a matrix of M rows is
(M, 1, K). Weights and all other constants live inside the ops, already in the layout given
there; ONNX models have been turned from NCHW to NHWC. Every op carries its requantiser, computed
exactly as the runtime that the file was written for computes it, so that nothing below the
frontends needs to know the format.
"""

from __future__ import annotations

from dataclasses import dataclass, field

import numpy as np

from .quant import INT8_MAX, INT8_MIN, FixedPoint, Requant

Shape = tuple[int, int, int]


@dataclass(frozen=True)
class Tensor:
    """An int8 activation. real = scale * (q - zero_point)."""

    name: str
    shape: Shape
    scale: float
    zero_point: int

    @property
    def row_bytes(self) -> int:
        return self.shape[1] * self.shape[2]

    @property
    def bytes(self) -> int:
        return self.shape[0] * self.row_bytes


@dataclass(frozen=True)
class Window:
    """How an output pixel looks at its input: kernel, stride, dilation as (y, x); pad as
    (top, left, bottom, right). Padding takes part as the input's zero point."""

    kernel: tuple[int, int] = (1, 1)
    stride: tuple[int, int] = (1, 1)
    dilation: tuple[int, int] = (1, 1)
    pad: tuple[int, int, int, int] = (0, 0, 0, 0)

    def extent(self, axis: int) -> int:
        """Input elements from a window's first tap to its last, both included."""
        return (self.kernel[axis] - 1) * self.dilation[axis] + 1

    def first(self, axis: int, out: int) -> int:
        """Input index of the first tap of output index `out`; negative inside the padding."""
        return out * self.stride[axis] - self.pad[axis]

    def out_size(self, axis: int, size: int) -> int:
        padded = size + self.pad[axis] + self.pad[axis + 2]
        return (padded - self.extent(axis)) // self.stride[axis] + 1


@dataclass(frozen=True, eq=False)
class Op:
    """Base of all ops. act_min and act_max bound the int8 output (fused activation)."""

    act_min: int = field(default=INT8_MIN, kw_only=True)
    act_max: int = field(default=INT8_MAX, kw_only=True)


@dataclass(frozen=True, eq=False)
class Conv2D(Op):
    """weights int8 (Cout, kh, kw, Cin / groups), symmetric; bias int32 (Cout,)."""

    weights: np.ndarray
    bias: np.ndarray
    window: Window
    requant: Requant
    groups: int = 1


@dataclass(frozen=True, eq=False)
class DepthwiseConv2D(Op):
    """weights int8 (kh, kw, Cout), symmetric; bias int32 (Cout,); Cout = Cin * multiplier and
    output channel c reads input channel c // multiplier."""

    weights: np.ndarray
    bias: np.ndarray
    window: Window
    requant: Requant
    multiplier: int = 1


@dataclass(frozen=True, eq=False)
class FullyConnected(Op):
    """Applied to each pixel's C values. weights int8 (N, C), symmetric; bias int32 (N,)."""

    weights: np.ndarray
    bias: np.ndarray
    requant: Requant


@dataclass(frozen=True, eq=False)
class Add(Op):
    """Element-wise sum of two tensors of one shape, in fixed point for every file format.

    out = out.apply(a.apply((qa - za) << left_shift) + b.apply((qb - zb) << left_shift)) + zo, one
    factor each. TensorFlow Lite, kernels/internal/reference/add.h.
    """

    a: FixedPoint
    b: FixedPoint
    out: FixedPoint
    left_shift: int = 20


@dataclass(frozen=True, eq=False)
class AveragePool2D(Op):
    """Mean over the window's taps inside the image (or all taps if `count_padding`).

    `requant` None: TensorFlow Lite semantics, input and output share scale and zero point, the
    sum of the q is divided by the count with rounding half away from zero. Otherwise
    requant.apply(round((sum of (q - zi)) * 256 / count)) + zo, the division again half away from
    zero, with the one factor in_scale / out_scale / 256.
    """

    window: Window
    requant: FixedPoint | None = None
    count_padding: bool = False


@dataclass(frozen=True, eq=False)
class MaxPool2D(Op):
    """Maximum over the window's taps inside the image; scale and zero point are kept."""

    window: Window


@dataclass(frozen=True, eq=False)
class Pad(Op):
    """Constant padding, amounts ((top, bottom), (left, right), (before, after)) over H, W, C."""

    amounts: tuple[tuple[int, int], tuple[int, int], tuple[int, int]]
    value: int


@dataclass(frozen=True, eq=False)
class Reshape(Op):
    """The same bytes in NHWC order under another shape."""


@dataclass(frozen=True, eq=False)
class Concat(Op):
    """Inputs one after the other along `axis` (0 H, 1 W, 2 C). requants has one factor for each
    input whose scale or zero point differs from the output's (applied to q - zi, zo added), None
    where bytes are copied."""

    axis: int
    requants: tuple[FixedPoint | None, ...]


@dataclass(frozen=True, eq=False)
class Requantize(Op):
    """Another scale, zero point or range for the same values: Quantize int8 to int8, stand-alone
    Relu and Clip. requant.apply(q - zi) + zo; None: the scale stays, only the clamp applies."""

    requant: FixedPoint | None


@dataclass(frozen=True, eq=False)
class Softmax(Op):
    """Over the channels of each pixel.

    `exp` is a uint32 table indexed by max - q (0..255), `style` names how it is summed and
    divided. "tflite": gemmlowp, exp in Q0.31, entries beyond diff_min are zero, output scale
    1/256 and zero point -128. "onnx": entries up to 2**23, output
    round(exp / sum / out_scale) + zero_point by an integer division, ties upwards.
    """

    exp: np.ndarray
    style: str
    out_scale: float = 1.0 / 256

    @property
    def gain(self) -> int:
        """1 / out_scale with 16 fractional bits."""
        return round(65536 / self.out_scale)


@dataclass(frozen=True, eq=False)
class MatMul(Op):
    """For every y the product of two matrices, input 0 (H, M, K) by input 1 (H, K, N), or
    (H, N, K) if `transposed`: requant.apply(sum of (qa - za)(qb - zb)) + zo, one factor."""

    requant: FixedPoint
    transposed: bool = False


@dataclass(frozen=True, eq=False)
class MatMulChain(Op):
    """Two matrix products, (input 0 by input 1) by input 2. What the first yields has the zero
    point `zero` and exists line by line only."""

    first: FixedPoint
    second: FixedPoint
    zero: int


@dataclass(frozen=True, eq=False)
class Attention(Op):
    """For every y softmax(q k^T) v of inputs q (H, M, D), k (H, T, D) and v (H, T, N).

    `scores` brings q k^T to the scale that the table `exp` is for (Softmax, "tflite"); weights
    have scale 1/256 and zero point -128; `requant` brings weights times v to the output's scale.
    """

    scores: FixedPoint
    exp: np.ndarray
    requant: FixedPoint


@dataclass(frozen=True, eq=False)
class Node:
    """One op, with the names of its activation inputs and outputs. `name` is the file's."""

    name: str
    op: Op
    inputs: tuple[str, ...]
    outputs: tuple[str, ...]

    @property
    def kind(self) -> str:
        return type(self.op).__name__


@dataclass(frozen=True)
class Port:
    """How the file presents a graph input or output: shape, element type ("int8", "float32"),
    and the order of the file's axes ("nhwc", "nchw") where it has four."""

    tensor: str
    name: str
    file_shape: tuple[int, ...]
    dtype: str
    layout: str = "nhwc"


@dataclass(frozen=True, eq=False)
class Graph:
    """Nodes in the file's order, which is an execution order. `origin` is the file's path."""

    name: str
    origin: str
    tensors: dict[str, Tensor]
    nodes: tuple[Node, ...]
    inputs: tuple[Port, ...]
    outputs: tuple[Port, ...]

    def producer(self, tensor: str) -> Node | None:
        return next((n for n in self.nodes if tensor in n.outputs), None)

    def consumers(self, tensor: str) -> list[Node]:
        return [n for n in self.nodes if tensor in n.inputs]
