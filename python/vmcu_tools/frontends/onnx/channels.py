# SPDX-License-Identifier: Apache-2.0
"""Constants that are spread over a tensor, and those of one number a channel: a convolution."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

import numpy as np

from ...graph import Op, Tensor, Window
from ...ops.depthwise import DepthwiseConv2D
from ...quant import INT8_MAX, FloatScale
from ..common import KEEP_QUANTISATION, UnsupportedError, require
from ..movement import file_index
from .context import Context, clamp
from .file import FileNode
from .values import Activation, Pending, Value, laid_out, result_of

# The weight of a channel's value where a layer of one tap scales it, and the least factor: their
# product and bias keep the error of the bias below a hundredth of a step.
_TAP = 64
_LEAST_FACTOR = 2.0**-16
# The largest error of a bias, of an output's step.
_LOST_MOST = 0.25
# Of an output's step: the most by which two scales that are meant to be one differ, over eight
# inputs; and in units of a bias, the error of ONNX Runtime's float32.
_HALF_WAY = 1e-5
_FLOAT_ERROR = 1e-3
_QUANTISE_CONSTANT = "put QuantizeLinear and DequantizeLinear behind the constant"


def broadcast(
    a: tuple[int, ...], b: tuple[int, ...]
) -> tuple[tuple[int, ...], np.ndarray, np.ndarray]:
    """The result's shape in the file, and for each of its elements the row-major place in a, b."""
    try:
        shape = np.broadcast_shapes(a, b)
    except ValueError as error:
        raise UnsupportedError(f"cannot broadcast {list(a)} and {list(b)}") from error
    of_a, of_b = (np.broadcast_to(file_index(side), shape) for side in (a, b))
    return shape, of_a, of_b


def narrowed(index: np.ndarray) -> np.ndarray:
    """Axes along which nothing changes cut to one element."""
    for axis in range(3):
        first = index.take([0], axis)
        if np.array_equal(np.broadcast_to(first, index.shape), index):
            index = first
    return index


def scaled_channels(node: FileNode, x: Activation, gain: np.ndarray, offset: np.ndarray) -> Pending:
    """x * gain + offset, one of each for every channel in memory: a depthwise layer of one tap.
    gain, offset: float64 (C,)."""
    require(bool(np.isfinite(gain).all() and np.isfinite(offset).all()), "a factor is not finite")

    def make(out: Tensor) -> Op:
        ratios, steps = np.abs(gain) * x.tensor.scale / out.scale, offset / out.scale
        taps = _taps(ratios, steps)
        factors = np.maximum(ratios / taps, np.abs(steps) * 2.0**-30)
        weights = np.where(factors < _LEAST_FACTOR, 0, np.sign(gain) * taps)
        factors = np.maximum(factors, _LEAST_FACTOR)
        return DepthwiseConv2D(
            weights.astype(np.int8).reshape(1, 1, -1),
            _biases(weights, factors, steps).astype(np.int32),
            Window(),
            FloatScale(factors.astype(np.float32)),
        )

    return result_of(node, x, (x.tensor,), make, (x.shape, laid_out(x)))


def _taps(ratios: np.ndarray, steps: np.ndarray) -> np.ndarray:
    """The weight of each channel, whose bias is `steps` in units of its ratio over its weight: the
    largest where an output step is so far below an input's that such a unit is many steps."""

    def lost(tap: int) -> np.ndarray:
        units = np.maximum(ratios / tap, 1e-300)
        off: np.ndarray = np.abs(steps - np.rint(steps / units) * units)
        return off

    taps: np.ndarray = np.where(lost(_TAP) <= _LOST_MOST, _TAP, INT8_MAX)
    fine = np.minimum(lost(_TAP), lost(INT8_MAX)) <= 2 * _LOST_MOST
    require(bool(fine.all()), "the output's scale is far below its input's", KEEP_QUANTISATION)
    return taps


def _biases(weights: np.ndarray, factors: np.ndarray, steps: np.ndarray) -> np.ndarray:
    """`steps` in units of `factors`, rounded. A channel whose sums would be half way between two
    results for this alone takes the next bias, so that all of them go the way the file's go."""
    exact = steps / factors
    biases: np.ndarray = np.rint(exact)
    sums = np.arange(8)[:, None] * weights + biases
    half = (np.abs(sums * factors % 1 - 0.5) < _HALF_WAY).any(axis=0)
    lost = exact - biases
    return np.where(half & (np.abs(lost) > _FLOAT_ERROR), biases + np.sign(lost), biases)


def line(op: str, values: np.ndarray, swapped: bool) -> tuple[np.ndarray, np.ndarray] | None:
    """Gain and offset, float64, that an operator with constants amounts to; None if it is no such
    operator. swapped: the constants are its first operand."""
    values = values.astype(np.float64)
    ones, zeros = np.ones_like(values), np.zeros_like(values)
    if op == "Add":
        return ones, values
    if op == "Sub":
        return (-ones, values) if swapped else (ones, -values)
    if op == "Mul":
        return values, zeros
    if op != "Div":
        return None
    require(
        not swapped and bool(values.all()), "division by an activation or by zero is not supported"
    )
    return 1 / values, zeros


def per_channel(
    node: FileNode, x: Activation, constant: np.ndarray, swapped: bool
) -> Pending | None:
    """A sum or product with float constants that differ along the channels in memory only."""
    shape, _, index = broadcast(x.shape, constant.shape)
    if shape != x.shape:
        return None
    place = narrowed(index.ravel()[laid_out(x)])
    if place.shape[:2] != (1, 1):
        return None
    values = np.broadcast_to(constant.ravel()[place[0, 0]], x.tensor.shape[2])
    factors = line(node.op, values, swapped)
    return None if factors is None else scaled_channels(node, x, *factors)


def by_element(
    context: Context,
    node: FileNode,
    x: Activation,
    values: np.ndarray,
    swapped: bool,
    pair: Callable[[Context, FileNode, Activation, Activation], Pending],
) -> Value:
    """The operator with a factor and an offset for each element; values: float32, as x lies in
    memory; pair: the operator on two activations."""
    few = values.size < 1 << 16
    require(few, "the float constant is too large for its output's scale", _QUANTISE_CONSTANT)
    require(bool(np.isfinite(values).all()), "the constant operand is not a number")

    def scaled(node: FileNode, x: Activation, gain: np.ndarray, offset: np.ndarray) -> Pending:
        flat = context.arranged(x, laid_out(x).reshape(1, 1, -1))
        whole = Activation(flat, x.shape, laid_out(x).ravel(), x.dtype)
        return scaled_channels(node, whole, gain, offset)

    factors = line(node.op, values.ravel(), swapped)
    if factors is not None:
        return scaled(node, x, *factors)
    require(node.op == "PRelu" and not swapped, f"{node.op} with an array is not supported")

    def resolve(scale: float, zero: int) -> Value:
        # One of both is zero, so that only the other one is rounded.
        parts: list[Value] = []
        for low, high in ((0.0, np.inf), (-np.inf, 0.0)):
            name = context.hidden_name(f"{node.outputs[0]}/half")
            half = clamp(x, name, node.name, low, high)
            kept = x.tensor.scale, x.tensor.zero_point
            parts.append(context.quantise(half, *kept, name, x.dtype))
        above, below = (context.activation(part) for part in parts)
        name = context.hidden_name(f"{node.outputs[0]}/sloped")
        slopes = values.ravel().astype(np.float64)
        sloped = scaled(replace(node, outputs=(name,)), below, slopes, np.zeros_like(slopes))
        sides = above, context.quantise(sloped, scale, zero, name, x.dtype)
        return pair(context, replace(node, op="Add"), *sides)

    pending = scaled(node, x, np.ones(values.size), np.zeros(values.size))
    return replace(pending, resolve=resolve)
