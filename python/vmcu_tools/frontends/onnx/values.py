# SPDX-License-Identifier: Apache-2.0
"""The values behind the names of an ONNX graph during import, and the order of bytes in memory.

ONNX writes images as (N, C, H, W), the graph keeps them as (H, W, C). Nothing is transposed at run
time: each value remembers in which order its elements lie in memory, and its consumer either agrees
with that order, permutes its own constants accordingly, or reports a problem.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from ...graph import Op, Shape, Tensor
from ...quant import INT8_MAX, INT8_MIN
from ..common import UnsupportedError, check_weight_scales, hwc, hwc_axis, require
from ..movement import file_index
from .file import FileNode

FileShape = tuple[int, ...]
# order[i] is the row-major index, in the file's shape, of the element at place i in memory. None
# stands for the usual order: channels last for images, (1, C, H, W), row-major otherwise.
Order = np.ndarray | None


@dataclass(frozen=True, eq=False)
class Constant:
    """A constant of the file."""

    array: np.ndarray

    def real(self) -> np.ndarray:
        """float32 values."""
        return self.array.astype(np.float32)


@dataclass(frozen=True, eq=False)
class QuantConstant:
    """A dequantised constant. scale and zero_point have one element, or one per index of `axis`.
    bits: of an element in the file, where `ints` are bytes."""

    ints: np.ndarray
    scale: np.ndarray
    zero_point: np.ndarray
    axis: int
    bits: int = 8

    @property
    def is_int8(self) -> bool:
        """Whether it is int8 or uint8 with one scale."""
        one = self.scale.size == self.zero_point.size == 1
        return one and self.ints.dtype in (np.int8, np.uint8)

    def real(self) -> np.ndarray:
        """float32 values."""
        scale = self.scale.astype(np.float32).reshape(self._spread())
        return self.centred().astype(np.float32) * scale

    def centred(self) -> np.ndarray:
        """int64 values with the zero point taken out."""
        zero = self.zero_point.astype(np.int64).reshape(self._spread())
        return self.ints.astype(np.int64) - zero

    def symmetric(self) -> np.ndarray:
        """centred() as int8. Raises UnsupportedError if they do not fit."""
        shifted = self.centred()
        fits = bool((shifted >= INT8_MIN).all() and (shifted <= INT8_MAX).all())
        require(
            fits,
            "the weights do not fit int8 once their zero point is taken out",
            "quantise weights symmetrically to int8",
        )
        return shifted.astype(np.int8)

    def transpose(self, perm: list[int]) -> QuantConstant:
        axis = perm.index(self.axis) if self.scale.size > 1 else self.axis
        return replace(self, ints=self.ints.transpose(perm), axis=axis)

    def _spread(self) -> tuple[int, ...]:
        """The shape in which scale and zero_point broadcast over `ints`."""
        if max(self.scale.size, self.zero_point.size) == 1:
            return (1,) * self.ints.ndim
        return tuple(-1 if i == self.axis else 1 for i in range(self.ints.ndim))


@dataclass(frozen=True, eq=False)
class BlockedConstant:
    """A dequantised constant with a scale for each `block` of elements along an axis. scale and
    zero_point have the axes of `ints`; bits: of an element in the file."""

    ints: np.ndarray
    scale: np.ndarray
    zero_point: np.ndarray
    axis: int
    block: int
    bits: int

    def centred(self) -> np.ndarray:
        """int64 values with the zero point taken out."""
        values: np.ndarray = self.ints.astype(np.int64) - self._spread(
            self.zero_point.astype(np.int64)
        )
        return values

    def real(self) -> np.ndarray:
        """float32 values."""
        values: np.ndarray = self.centred() * self._spread(self.scale.astype(np.float32))
        return values.astype(np.float32)

    def _spread(self, array: np.ndarray) -> np.ndarray:
        """Repeats the numbers of blocks for each of their elements."""
        whole = np.repeat(array, self.block, axis=self.axis)
        return whole[tuple(slice(0, size) for size in self.ints.shape)]

    def transpose(self, perm: list[int]) -> BlockedConstant:
        return replace(
            self,
            ints=self.ints.transpose(perm),
            scale=self.scale.transpose(perm),
            zero_point=self.zero_point.transpose(perm),
            axis=perm.index(self.axis),
        )


def blocked_constant(
    ints: np.ndarray, scale: np.ndarray, zero: np.ndarray, blocks: tuple[int, int, int]
) -> BlockedConstant:
    """Makes a constant of arrays of a file. blocks: its axis, block and bits. Raises
    UnsupportedError for arrays that do not fit each other."""
    check_weight_scales(scale)
    axis, block, bits = blocks
    require(-ints.ndim <= axis < ints.ndim and block > 0, f"axis {axis} of {list(ints.shape)}")
    axis %= ints.ndim
    shape = [-(-n // block) if i == axis else n for i, n in enumerate(ints.shape)]
    for array in (scale, zero):
        fits = list(array.shape) == shape
        require(fits, f"scales or zero points {list(array.shape)} for {list(ints.shape)}")
    return BlockedConstant(ints, scale, zero, axis, block, bits)


@dataclass(frozen=True, eq=False)
class Activation:
    """An int8 tensor of the graph. `shape` and `dtype` are the file's."""

    tensor: Tensor
    shape: FileShape
    order: Order = None
    dtype: str = "int8"


@dataclass(frozen=True, eq=False)
class Real:
    """The float view of an activation: the result of DequantizeLinear."""

    activation: Activation


@dataclass(frozen=True, eq=False)
class Rescaled:
    """An activation that is read with another scale than it was written with. Only operators that
    give the same for any scale read it."""

    activation: Activation
    scale: float


@dataclass(frozen=True, eq=False)
class Curve:
    """A float function of one activation's value: real float32 (256,) for q = -128 .. 127.

    integers: ONNX Runtime's results where QuantizeLinear follows at once and it computes with
    integers, int64 (256,) by the output's tensor, or None for that output.
    """

    activation: Activation
    real: np.ndarray
    integers: Callable[[Tensor], np.ndarray | None] | None = None


@dataclass(frozen=True, eq=False)
class Indices:
    """Integers: numbers of rows, or the results of ArgMax. The tensor holds the bytes of an
    int32, `dtype` is the file's."""

    tensor: Tensor
    shape: FileShape
    dtype: str = "int64"


@dataclass(frozen=True, eq=False)
class FloatInput:
    """A float graph input on its way to QuantizeLinear. `source` is its shape in the file."""

    name: str
    source: FileShape
    shape: FileShape
    order: Order
    layout: str
    memory: Shape | None = None


@dataclass(frozen=True, eq=False)
class Pending:
    """A float result that becomes a node once its output's scale is known.

    make(out) is the op, without bounds; `clamps` tells whether it can bound its output. `memory`
    is (H, W, C) where `order` alone does not tell. `keeps` is the (scale, zero point) that the
    result may keep, and must keep if the op `copies` bytes. low and high are the fused activation.
    `rebias` adds a real bias, where one can still be added; `affine` multiplies channels by real
    gains and adds real offsets. `natural` is a (scale, zero point) that holds all results. A result
    with `resolve` is one that has to be made at its final scale from its inputs on. `terms`: the
    two activations whose difference it is. `curve`: the same as a function of one activation.
    """

    name: str
    node: str
    shape: FileShape
    order: Order
    inputs: tuple[Tensor, ...]
    make: Callable[[Tensor], Op]
    dtype: str = "int8"
    keeps: tuple[float, int] | None = None
    copies: bool = False
    clamps: bool = True
    low: float = -np.inf
    high: float = np.inf
    rebias: Callable[[np.ndarray, str], Pending] | None = None
    affine: Callable[[np.ndarray, np.ndarray, str], Pending] | None = None
    memory: Shape | None = None
    natural: tuple[float, int] | None = None
    resolve: Callable[[float, int], Value] | None = None
    terms: tuple[Activation, Activation] | None = None
    curve: Curve | None = None


@dataclass(frozen=True, eq=False)
class Failed:
    """The output of a node that could not be imported; its consumers are passed over."""


Value = (
    Constant
    | QuantConstant
    | BlockedConstant
    | Activation
    | Real
    | Rescaled
    | Curve
    | Indices
    | FloatInput
    | Pending
)
# The values of a node's inputs; None: absent.
Args = Sequence[Value | None]


def operand(value: Value | None, reason: str = "the input is missing") -> Value:
    """An input's value; raises UnsupportedError if it is absent."""
    if value is None:
        raise UnsupportedError(reason)
    return value


def constant_of(value: Value | None) -> np.ndarray | None:
    """float32 values of a constant, None for anything else."""
    return value.real() if isinstance(value, (Constant, QuantConstant)) else None


def usual_order(shape: FileShape) -> np.ndarray:
    """The order that None stands for, int64 (elements,)."""
    indices = file_index(shape)
    return indices.transpose(0, 2, 3, 1).ravel() if is_image(shape) else indices.ravel()


def is_image(shape: FileShape) -> bool:
    """Whether a shape is (1, C, H, W)."""
    return len(shape) == 4 and shape[0] == 1


def explicit(shape: FileShape, order: Order) -> np.ndarray:
    return usual_order(shape) if order is None else order


def simplify(shape: FileShape, order: np.ndarray) -> Order:
    """None where `order` is the usual one for `shape`."""
    return None if np.array_equal(order, usual_order(shape)) else order


def transpose_order(shape: FileShape, order: Order, perm: list[int]) -> tuple[FileShape, Order]:
    """File shape and order after a Transpose of the file: no byte moves in memory."""
    to = tuple(shape[axis] for axis in perm)
    count = int(np.prod(shape, dtype=np.int64))
    old = np.arange(count).reshape(shape).transpose(perm).ravel()
    new_of_old = np.empty(count, np.int64)
    new_of_old[old] = np.arange(count)
    return to, simplify(to, new_of_old[explicit(shape, order)])


def laid_out(x: Activation) -> np.ndarray:
    """The file's element at each place in memory: int64 (H, W, C) of row-major indices."""
    return explicit(x.shape, x.order).reshape(x.tensor.shape)


def of_rank(x: Activation, rank: int) -> Activation:
    """x with axes of one element in front where it has fewer than `rank`."""
    if len(x.shape) >= rank:
        return x
    shape = (*[1] * (rank - len(x.shape)), *x.shape)
    return replace(x, shape=shape, order=arrangement(shape, laid_out(x))[0])


def places(x: Activation) -> np.ndarray:
    """Maps each element of the file to its place in memory: int64 of the file's shape."""
    order = explicit(x.shape, x.order)
    result = np.empty(len(order), np.int64)
    result[order] = np.arange(len(order))
    return result.reshape(x.shape)


def matrices(shape: FileShape) -> Shape:
    """(H, W, C) of a value whose last two axes are matrices and whose others count them; a matrix
    alone has a pixel to a row, as everywhere."""
    if len(shape) < 3:
        return hwc(shape)
    return math.prod(shape[:-2]), shape[-2], shape[-1]


def lines(x: Activation) -> np.ndarray:
    """Rows of row-major places, (H, W, C), that have the last axis as their channels: those of the
    tensor if it has them."""
    lined = file_index(x.shape).reshape(matrices(x.shape))
    laid = laid_out(x)
    same = laid.shape[2] == x.shape[-1] and np.array_equal(laid.ravel(), lined.ravel())
    return laid if same else lined


def channels_last(shape: FileShape) -> np.ndarray:
    """(1, C, ...) with the channels last, as laid_out() has it: one spatial axis becomes H."""
    index: np.ndarray = np.moveaxis(file_index(shape)[0], 0, -1)
    return index.reshape(index.shape[0], -1, index.shape[-1])


def arrangement(shape: FileShape, laid: np.ndarray) -> tuple[Order, Shape]:
    """Order and (H, W, C) of a value of which laid_out() is `laid`."""
    memory = laid.shape[0], laid.shape[1], laid.shape[2]
    usual = memory == tensor_shape(shape, None)
    return (simplify(shape, laid.ravel()) if usual else laid.ravel()), memory


def result_of(
    node: FileNode,
    x: Activation,
    inputs: tuple[Tensor, ...],
    make: Callable[[Tensor], Op],
    form: tuple[FileShape, np.ndarray],
    **more: Any,
) -> Pending:
    """The first output of a node, of the type of x. form: its shape in the file, and laid_out()
    of it."""
    order, memory = arrangement(*form)
    name, shape = node.outputs[0], form[0]
    return Pending(name, node.name, shape, order, inputs, make, x.dtype, memory=memory, **more)


def tensor_shape(shape: FileShape, order: Order) -> Shape:
    """(H, W, C) of a value in some order, unless it says otherwise."""
    what = f"shape {list(shape)} is empty or dynamic"
    require(min(shape, default=1) > 0, what, "fix all sizes")
    if is_image(shape) and order is None:
        return shape[2], shape[3], shape[1]
    if len(shape) > 4 or (len(shape) > 2 and shape[0] != 1):
        return matrices(shape)
    return hwc(shape)


def tensor_axis(axis: int, shape: FileShape) -> int:
    """Which of (H, W, C) is a file axis of a value in the usual order; -1: none of them alone."""
    rank = len(shape)
    axis = axis + rank if axis < 0 else axis
    if is_image(shape):
        return {0: -1, 1: 2, 2: 0, 3: 1}[axis]
    if rank > 4 or (rank > 2 and shape[0] != 1):
        return axis - rank + 3 if axis >= rank - 2 else -1
    return hwc_axis(axis, rank)
