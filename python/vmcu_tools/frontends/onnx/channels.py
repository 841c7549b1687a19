# SPDX-License-Identifier: Apache-2.0
"""Constants that are spread over a tensor, and those of one number a channel: a convolution."""

from __future__ import annotations

import numpy as np

from ...graph import Op, Tensor, Window
from ...ops.depthwise import DepthwiseConv2D
from ...quant import FloatScale
from ..common import UnsupportedError, require
from ..movement import file_index
from .file import FileNode
from .values import Activation, Pending, laid_out

# The weight of a channel's value where a layer of one tap scales it, and the least factor: their
# product and bias keep the error of the bias below a hundredth of a step.
_TAP = 64
_LEAST_FACTOR = 2.0**-16


def broadcast(
    a: tuple[int, ...], b: tuple[int, ...]
) -> tuple[tuple[int, ...], np.ndarray, np.ndarray]:
    """The result's shape in the file, and for each of its elements the row-major place in a, b."""
    try:
        shape = np.broadcast_shapes(a, b)
    except ValueError as error:
        raise UnsupportedError(f"it broadcasts {list(a)} and {list(b)}") from error
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
    require(bool(np.isfinite(gain).all() and np.isfinite(offset).all()), "it has no finite factors")

    def make(out: Tensor, act_min: int, act_max: int) -> Op:
        factors = np.abs(gain) * x.tensor.scale / out.scale / _TAP
        steps = offset / out.scale
        factors = np.maximum(factors, np.abs(steps) * 2.0**-30)
        weights = np.where(factors < _LEAST_FACTOR, 0, np.sign(gain) * _TAP)
        factors = np.maximum(factors, _LEAST_FACTOR)
        return DepthwiseConv2D(
            weights.astype(np.int8).reshape(1, 1, -1),
            np.rint(steps / factors).astype(np.int32),
            Window(),
            FloatScale(factors.astype(np.float32)),
            act_min=act_min,
            act_max=act_max,
        )

    return Pending(
        node.outputs[0],
        node.name,
        x.shape,
        x.order,
        (x.tensor,),
        make,
        x.dtype,
        memory=x.tensor.shape,
    )


def scaled_elements(
    node: FileNode, x: Activation, flat: Tensor, gain: np.ndarray, offset: np.ndarray
) -> Pending:
    """x * gain + offset, one of each for every element in memory; `flat` is x as one pixel."""
    whole = Activation(flat, x.shape, laid_out(x).ravel(), x.dtype)
    return scaled_channels(node, whole, gain, offset)


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
    require(not swapped and bool(values.all()), "it divides by the activation or by zero")
    return 1 / values, zeros


def per_channel(
    node: FileNode, x: Activation, constant: np.ndarray, swapped: bool
) -> Pending | None:
    """A sum or product with float constants that differ along the channels in memory only."""
    shape, _, index = broadcast(x.shape, constant.shape)
    if shape != x.shape:
        return None
    found = narrowed(index.ravel()[laid_out(x)])
    if found.shape[:2] != (1, 1):
        return None
    values = np.broadcast_to(constant.ravel()[found[0, 0]], x.tensor.shape[2])
    factors = line(node.op, values, swapped)
    return None if factors is None else scaled_channels(node, x, *factors)
