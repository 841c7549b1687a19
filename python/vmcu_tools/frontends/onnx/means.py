# SPDX-License-Identifier: Apache-2.0
"""Import rules for means and sums over axes and windows.

Of a function that is left in float, onnxruntime computes the mean in float: here it is one layer
that adds up the function's values with all their bits, and rounds once.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass, replace

import numpy as np

from ...graph import Op, Tensor, Window
from ...ops.average_pooling import AveragePool2D
from ...ops.conv2d import Conv2D
from ...ops.table_mean import TableMean
from ...quant import FloatScale
from ..common import KEEP_QUANTISATION, axis_of, fixed_point, require
from ..movement import file_index
from . import values
from .context import Context, rule
from .file import FileNode
from .ops import auto_pad, natural_of, whole_window, window_of, windowed

# sum * 256 has to stay within 32 bits.
MAX_POOL_TAPS = 1 << 15
# Of a function's values: with their sign they are in 32 bits.
_VALUE_BITS = 31
_FRACTION_MOST = 30


def reduced_axes(context: Context, node: FileNode, args: values.Args, rank: int) -> list[int]:
    axes = context.constant(args, 1, "axes")
    given = node.ints("axes", []) if axes is None else [int(a) for a in axes.ravel()]
    if not given:
        require(not node.attributes.get("noop_with_empty_axes"), "there are no axes to reduce")
        given = list(range(rank))
    return sorted({axis_of(a, rank) for a in given})


Axes = tuple[bool, bool, bool]


def lines(context: Context, x: values.Activation, axes: list[int]) -> tuple[Tensor, Axes]:
    """x as a tensor of whose (H, W, C) the reduced axes are whole ones, and which those are. Images
    and sequences are such tensors already; of all else the reduced elements become the columns."""
    if values.is_image(x.shape) and x.order is None:
        return x.tensor, (2 in axes, 3 in axes, 1 in axes)
    if len(x.shape) == 3 and x.order is None and x.shape[0] == 1:
        return x.tensor, (1 in axes, False, 2 in axes)
    return columns(context, x, axes)


def columns(context: Context, x: values.Activation, axes: list[int]) -> tuple[Tensor, Axes]:
    """x with the reduced elements as columns of one channel."""
    others = [a for a in range(len(x.shape)) if a not in axes]
    turned = file_index(x.shape).transpose([*others, *axes])
    count = math.prod(x.shape[a] for a in axes)
    return context.arranged(x, turned.reshape(-1, count, 1)), (False, True, False)


def reduced(
    node: FileNode, x: values.Activation, tensor: Tensor, axes: list[int], over: Axes
) -> tuple[values.FileShape, np.ndarray]:
    """Shape in the file of the reduced value, and laid_out() of it."""
    full = tuple(1 if a in axes else d for a, d in enumerate(x.shape))
    height, width, channels = (1 if o else d for o, d in zip(over, tensor.shape, strict=True))
    image = values.is_image(x.shape) and x.order is None and tensor is x.tensor
    laid = (
        values.channels_last(full) if image else file_index(full).reshape(height, width, channels)
    )
    if not node.attributes.get("keepdims", 1):
        full = tuple(d for a, d in enumerate(x.shape) if a not in axes)
    return full, laid


def whole_axes(tensor: Tensor, over: Axes) -> Window:
    """The window that sees all rows or columns where these are reduced, else one."""
    return Window((tensor.shape[0] if over[0] else 1, tensor.shape[1] if over[1] else 1))


@dataclass(frozen=True, eq=False)
class _Mean:
    """A mean over windows of `tensor`, (H, W, C) of x, as a value of `shape` that is laid out as
    `laid`. divisor: of the sum; 0: the taps inside of the image."""

    x: values.Activation
    tensor: Tensor
    window: Window
    divisor: int
    shape: values.FileShape
    laid: np.ndarray

    def pending(self, node: FileNode, make: Callable[[Tensor], Op]) -> values.Pending:
        form, natural = (self.shape, self.laid), self._natural(node)
        return values.result_of(node, self.x, (self.tensor,), make, form, natural=natural)

    def _natural(self, node: FileNode) -> tuple[float, int]:
        """A sum has as many steps as the mean has, each as large as all that are added."""
        scale, zero = natural_of(self.tensor)
        count = math.prod(self.x.shape) // math.prod(self.shape) if node.op == "ReduceSum" else 1
        return scale * count, zero


def _over_axes(
    context: Context, node: FileNode, args: values.Args, channels: bool
) -> tuple[_Mean, Axes]:
    """Returns the mean of ReduceMean or ReduceSum, and which of (H, W, C) are reduced; channels:
    these may be."""
    x = context.activation(args[0])
    axes = reduced_axes(context, node, args, len(x.shape))
    tensor, over = lines(context, x, axes)
    if over[2] and not channels:
        tensor, over = columns(context, x, axes)
    window = whole_axes(tensor, over)
    count = _limited(window) * (tensor.shape[2] if over[2] else 1)
    share = 1 if node.op == "ReduceSum" else count
    return _Mean(x, tensor, window, share, *reduced(node, x, tensor, axes, over)), over


def _over_windows(context: Context, node: FileNode, args: values.Args) -> _Mean:
    """Returns the mean of AveragePool or GlobalAveragePool."""
    x = context.image(args[0])
    if node.op == "GlobalAveragePool":
        window = whole_window(x)
        shape: values.FileShape = (1, x.shape[1], *[1] * (len(x.shape) - 2))
        divisor = _limited(window)
    else:
        x, window = window_of(context, node, x, node.ints("kernel_shape", []))
        shape, divisor = windowed(window, x, x.shape[1]), _padded_divisor(node, window)
    return _Mean(x, x.tensor, window, divisor, shape, values.channels_last(shape))


def _limited(window: Window) -> int:
    """Its taps."""
    taps = math.prod(window.kernel)
    require(taps <= MAX_POOL_TAPS, f"{taps} elements are averaged; the maximum is {MAX_POOL_TAPS}")
    return taps


def _padded_divisor(node: FileNode, window: Window) -> int:
    """Returns the divisor of AveragePool's sums: the taps where the padding counts, 0 where it
    does not."""
    padded = bool(node.attributes.get("count_include_pad")) and any(window.pad)
    rounded = bool(node.attributes.get("ceil_mode")) and not auto_pad(node).startswith("SAME")
    over = sum(window.pad) > sum(node.ints("pads", [0])) and rounded
    require(
        not (padded and over),
        "the ceil_mode reaches beyond the padding, which runtimes count differently",
        "set count_include_pad=False, or pad the input so that the windows fit",
    )
    require(window.dilation == (1, 1), "a dilated average is not supported")
    taps = _limited(window)
    return taps if padded else 0


@rule(
    "ReduceMean",
    "ReduceSum",
    constraints=f"constant axes; at most {MAX_POOL_TAPS:,} elements per sum, channels not counted",
)
def _reduce(context: Context, node: FileNode, args: values.Args) -> values.Value:
    mean, over = _over_axes(context, node, args, channels=True)
    tensor, window = mean.tensor, mean.window

    def make(out: Tensor) -> Op:
        ratio = np.float64(tensor.scale) / np.float64(out.scale)
        if over[2]:
            ones = np.ones((1, *window.kernel, tensor.shape[2]), np.int8)
            factor = FloatScale(np.array([ratio / mean.divisor], np.float32))
            zero = np.zeros(1, np.int32)
            return Conv2D(ones, zero, window, factor)
        requant = fixed_point(ratio * (math.prod(window.kernel) / mean.divisor) / 256)
        return AveragePool2D(window, requant)

    return mean.pending(node, make)


@rule(
    "AveragePool",
    constraints=f"1-D or 2-D; no dilation; at most {MAX_POOL_TAPS:,} elements per window; not "
    "count_include_pad with a ceil_mode that adds padding",
)
def _average_pool(context: Context, node: FileNode, args: values.Args) -> values.Value:
    mean = _over_windows(context, node, args)

    def make(out: Tensor) -> Op:
        requant = fixed_point(np.float64(mean.tensor.scale) / np.float64(out.scale) / 256)
        padded = mean.divisor > 0
        return AveragePool2D(mean.window, requant, padded)

    return mean.pending(node, make)


@rule(
    "GlobalAveragePool", constraints=f"1-D or 2-D; at most {MAX_POOL_TAPS:,} elements per channel"
)
def _global_average_pool(context: Context, node: FileNode, args: values.Args) -> values.Value:
    """ONNX Runtime, onnxruntime/core/mlas/lib/qlgavgpool.cpp: one float32 factor for the sum."""
    mean = _over_windows(context, node, args)

    def make(out: Tensor) -> Op:
        count = np.float32(mean.divisor)
        factor = np.float32(mean.tensor.scale) / (np.float32(out.scale) * count)
        require(bool(np.isfinite(factor)), "a ratio of its scales is not a number")
        requant = FloatScale(np.array([factor], np.float32))
        return AveragePool2D(mean.window, requant, of_sum=True)

    return mean.pending(node, make)


def mean_of_function(
    context: Context,
    node: FileNode,
    curve: values.Curve,
    args: values.Args,
    natural: tuple[float, int] | None,
) -> values.Pending:
    """A mean or a sum of a function's values. args: all operands, of which `curve` is the first;
    natural: scale and zero point that hold the function's values."""
    given = [curve.activation, *args[1:]]
    if node.op.startswith("Reduce"):
        mean, _ = _over_axes(context, node, given, channels=False)
    else:
        mean = _over_windows(context, node, given)
    finite = bool(np.isfinite(curve.real).all())
    require(finite, "the averaged function is not a number for some inputs", "clip it ahead")

    def make(out: Tensor) -> Op:
        steps = curve.real.astype(np.float64) / np.float64(out.scale)
        largest = max(float(np.abs(steps).max()), 1e-30)
        bits = min(_VALUE_BITS - 1 - math.floor(math.log2(largest)) - 1, _FRACTION_MOST)
        require(bits >= 0, "the values are far above its output's scale", KEEP_QUANTISATION)
        table = np.rint(steps * 2.0**bits).astype(np.int32)
        return TableMean(table, mean.window, bits, mean.divisor)

    pending = mean.pending(node, make)
    return replace(pending, natural=None if node.op == "ReduceSum" else natural)
