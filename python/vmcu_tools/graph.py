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
from typing import ClassVar

import numpy as np

from .quant import INT8_MAX, INT8_MIN, FixedPoint, FixedSum, FloatProduct, FloatSum, Requant

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
    """Base of all ops. act_min and act_max bound the int8 output (fused activation).

    Traits, by which the rest of the tools treats ops alike: `elementwise`, an output byte depends
    on those of its own place alone and the tools that write in place write over any input.
    """

    elementwise: ClassVar[bool] = False

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
    """Element-wise sum of two tensors of one shape."""

    elementwise: ClassVar[bool] = True

    sum: FixedSum | FloatSum


@dataclass(frozen=True, eq=False)
class AveragePool2D(Op):
    """Mean over the window's taps inside the image (or all taps if `count_padding`).

    `requant` None: TensorFlow Lite semantics, input and output share scale and zero point, the
    sum of the q is divided by the count with rounding half away from zero. Otherwise
    requant.apply(round((sum of (q - zi)) * 256 / count)) + zo, the division again half away from
    zero, with the one factor in_scale / out_scale / 256; or, `of_sum`, requant.apply(sum of
    (q - zi)) + zo, where the factor holds the count: TensorFlow Lite's MEAN and ONNX Runtime's
    global mean.
    """

    window: Window
    requant: Requant | None = None
    count_padding: bool = False
    of_sum: bool = False


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
    """Inputs one after the other along `axis` (0 H, 1 W, 2 C). tables has one, int8 (256,) as
    Lookup has it, for each input whose scale or zero point differs from the output's, None where
    bytes are copied."""

    axis: int
    tables: tuple[np.ndarray | None, ...]


@dataclass(frozen=True, eq=False)
class Requantize(Op):
    """Another scale, zero point or range for the same values: Quantize int8 to int8, stand-alone
    Relu and Clip. requant.apply(q - zi) + zo; None: the scale stays, only the clamp applies."""

    elementwise: ClassVar[bool] = True

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
class LogSoftmaxOnnx(Op):
    """Logarithm of softmax over the channels of each pixel: d * step - log2(sum of exp[-d]) * gain,
    with d = q - max and both factors in units of 1/65536 of an output's step; `exp` is the table of
    Softmax, "onnx", and its sum is taken in units of 2**23."""

    exp: np.ndarray
    step: int
    gain: int


@dataclass(frozen=True, eq=False)
class LogSoftmaxTflite(Op):
    """The logarithm of Softmax over the channels of each pixel, scale 1/16 and zero point 127.

    Both tables are indexed by max - q: `exp` as Softmax has it in style "tflite", `scaled`, int32,
    the negative difference in real units with 26 fractional bits, -20 where it is below that.
    """

    exp: np.ndarray
    scaled: np.ndarray


@dataclass(frozen=True, eq=False)
class L2Norm(Op):
    """Each pixel's channels divided by the root of the sum of their squares, scale 1/128 and zero
    point 0. TensorFlow Lite, kernels/internal/reference/integer_ops/l2normalization.h."""


@dataclass(frozen=True, eq=False)
class MatMul(Op):
    """For every y the product of two matrices, input 0 (H, M, K) by input 1 (H, K, N), or
    (H, N, K) if `transposed`: requant.apply(sum of (qa - za)(qb - zb)) + zo, one factor."""

    requant: Requant
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
class Lookup(Op):
    """Any function of one value: out = table[q + 128], table int8 (256,)."""

    table: np.ndarray


@dataclass(frozen=True, eq=False)
class Binary(Op):
    """Element-wise on two operands, each repeated along the axes where its size is one.

    The second operand is input 1 or, if given, `constant`, int8 (H, W, C) with the zero point
    `constant_zero`. With da = qa - za and db = qb - zb, and before the output's zero point:

    "sum", "difference", "reversed": out.apply(ta + tb), (ta - tb) or (tb - ta), where
        ta = a.apply(da << left_shift), tb = b.apply(db << left_shift)
    "squared": out.apply((ta - tb) ** 2)
    "product": out.apply(da * db)
    "minimum", "maximum": of a.apply(da) and b.apply(db); both None: of qa and qb, which share
        the output's scale and zero point
    "prelu": a.apply(da) where da >= 0, else out.apply(da * db)
    "float_sum": sum.apply(qa, qb), which contains the output's zero point
    "float_product": product.apply(da * db, zo), the same
    "quotient": da / db times out, the largest value of da's sign where db is zero

    TensorFlow Lite, kernels/internal/reference: add.h, sub.h, mul.h, prelu.h, div.h and
    micro/kernels/squared_difference.cc.
    """

    kind: str
    a: FixedPoint | None = None
    b: FixedPoint | None = None
    out: FixedPoint | None = None
    left_shift: int = 0
    constant: np.ndarray | None = None
    constant_zero: int = 0
    sum: FloatSum | None = None
    product: FloatProduct | None = None


@dataclass(frozen=True, eq=False)
class Move(Op):
    """Another arrangement of the same bytes: transposition, slicing, repetition, nearest
    neighbour and the like.

    out[y, x, c] is the input's byte number rows[y] + columns[x] + channels[c] in row-major order;
    int64 (H,), (W,), (C,) of the output. Scale and zero point are kept.
    """

    rows: np.ndarray
    columns: np.ndarray
    channels: np.ndarray

    @staticmethod
    def of(index: np.ndarray) -> Move | None:
        """From the input byte of each output byte, int64 (H, W, C), if it can be said so."""
        first = index[0, 0, 0]
        op = Move(index[:, 0, 0], index[0, :, 0] - first, index[0, 0, :] - first)
        return op if np.array_equal(op.index, index) else None

    @property
    def index(self) -> np.ndarray:
        """The input byte of each output byte, int64 (H, W, C)."""
        return self.rows[:, None, None] + self.columns[None, :, None] + self.channels


@dataclass(frozen=True, eq=False)
class Resize(Op):
    """Linear interpolation along H and W.

    rows int32 (H, 3) and columns int32 (W, 3) hold for each output index two input indices and
    the second one's weight in 1/1024, w; the first one weighs 1024 - w. `requant` None: scale and
    zero point are kept, the sum of the four taps is divided by 2**20, ties away from zero.
    TensorFlow Lite, kernels/internal/reference/resize_bilinear.h, ResizeBilinearInteger.
    Otherwise requant.apply(sum - zi * 2**20) + zo, the one factor in_scale / out_scale / 2**20.
    """

    rows: np.ndarray
    columns: np.ndarray
    requant: FixedPoint | None = None


@dataclass(frozen=True, eq=False)
class TransposeConv2D(Op):
    """Every input pixel adds its kernel to the output at (y * stride - pad).

    weights int8 (Cout, kh, kw, Cin / groups), symmetric; bias int32 (Cout,); stride and dilation
    (y, x); pad (top, left) is what is cut from the full result.
    """

    weights: np.ndarray
    bias: np.ndarray
    stride: tuple[int, int]
    pad: tuple[int, int]
    requant: Requant
    groups: int = 1
    dilation: tuple[int, int] = (1, 1)


@dataclass(frozen=True, eq=False)
class LayerNorm(Op):
    """Each pixel's channels at mean zero and variance one, times a gain, plus an offset.

    With n channels, d = q - zi, s the sum of d and t that of d * d,
    z = (n d - s) / sqrt(n t - s s + epsilon). Not `centred`: s is zero, which leaves the mean of
    the squares at one. out = (z * gain + offset) in units of the output, plus its zero point; gain
    and offset are int32 with `bits` fractional bits, one for every `run` neighbours: over the
    channels of a pixel, then over those of the next, and again from the first after the last.
    epsilon is the file's in units of n * n * scale * scale.
    """

    gain: np.ndarray
    offset: np.ndarray
    bits: int
    epsilon: int
    centred: bool = True
    run: int = 1


@dataclass(frozen=True, eq=False)
class ArgMax(Op):
    """The channel with the largest value of each pixel, or the smallest if `smallest`; the first
    one of several, or the last one if `last`. The output's four channels are the bytes of an
    int32, least significant first."""

    smallest: bool = False
    last: bool = False


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
    """How the file presents a graph input or output: shape, element type, and the order of its
    axes: "nchw" where channels come first among (1, C, ...), else "nhwc".

    Types are "int8", "uint8", "float32", and "int32" or "int64" for the result of ArgMax, whose
    tensor holds the bytes of an int32 either way. `half_away`: real values are quantised with ties
    away from zero, as TensorFlow Lite does, not to even.
    """

    tensor: str
    name: str
    file_shape: tuple[int, ...]
    dtype: str
    layout: str = "nhwc"
    half_away: bool = False


@dataclass(frozen=True, eq=False)
class Graph:
    """Nodes in the file's order, which is an execution order. `origin` is the file's path; `target`
    the cores that constants are laid out for, by their name in kernels/targets, the default ones if
    None."""

    name: str
    origin: str
    tensors: dict[str, Tensor]
    nodes: tuple[Node, ...]
    inputs: tuple[Port, ...]
    outputs: tuple[Port, ...]
    target: str | None = None

    def producer(self, tensor: str) -> Node | None:
        return next((n for n in self.nodes if tensor in n.outputs), None)

    def consumers(self, tensor: str) -> list[Node]:
        return [n for n in self.nodes if tensor in n.inputs]
