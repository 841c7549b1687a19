# SPDX-License-Identifier: Apache-2.0
"""Layers whose weights have a scale for each block of inputs."""

from __future__ import annotations

import math
from dataclasses import dataclass, replace

import numpy as np

from ...graph import Op, Tensor, Window
from ...kernels.targets.portable.grouped import TAPS
from ...ops.fully_connected import FullyConnected
from ...ops.grouped import MOST_ERROR, GroupedDense, in_groups, multipliers_of
from ...ops.pad import Pad
from ...quant import INT8_MAX, INT8_MIN, INT32_MAX, FloatScale
from ..common import present, require
from ..movement import file_index
from .context import Context
from .file import FileNode
from .values import (
    Activation,
    BlockedConstant,
    FileShape,
    Pending,
    Value,
    arrangement,
    channels_last,
    constant_of,
    lines,
    result_of,
)

# The range of a weight of 4 bits.
_LEAST, _LARGEST = -8, 7
# Inputs of a layer whose weights have 8 bits: the kernel counts both halves of each.
_MOST_INPUTS = 32767
# Zero points times multipliers of 16 bits fit 32; those of halves of 8 bits are 8 more.
_FARTHEST = 32767 - 8


@dataclass(frozen=True, eq=False)
class Grouped:
    """weights: int8 (N, K) of `bits` bits; scales: float32 (N, groups), each of K / groups
    consecutive weights; zeros: int64 (N, groups), which weights are less than what they stand for,
    None if all are zero; index: int64 (K,), the input of each weight."""

    weights: np.ndarray
    scales: np.ndarray
    zeros: np.ndarray | None
    index: np.ndarray
    bits: int

    @property
    def inputs(self) -> int:
        """The inputs that it has weights for."""
        return int(self.index.max()) + 1

    @property
    def factors(self) -> np.ndarray:
        """What the weights stand for, in units of their scales, int64 (N, K)."""
        groups = in_groups(self.weights, self.zeros, self.scales.shape)
        return groups.reshape(self.weights.shape)


def grouped_of(weights: BlockedConstant, axis: int) -> Grouped:
    """Groups a matrix whose inputs are along `axis`."""
    require(weights.ints.ndim == 2, f"the weights have {weights.ints.ndim} dimensions")
    require(
        weights.axis == axis,
        "the blocks of its weights are along the outputs",
        "quantise them in blocks along the inputs",
    )
    laid = weights if axis else weights.transpose([1, 0])
    return grouped_rows(laid.centred()[:, None], laid.scale[:, None], laid.block)


def grouped_rows(ints: np.ndarray, scales: np.ndarray, block: int) -> Grouped:
    """Groups integers (N, runs, K) with scales (N, runs, blocks). A last block of a run may be
    short: then groups are as long as divides both, or filled up with zeros if that is no multiple
    of TAPS."""
    count, runs, depth = ints.shape
    block = min(block, depth)
    size = math.gcd(block, depth)
    index = np.arange(depth)
    if size % TAPS:
        size = -(-block // TAPS) * TAPS
        within = np.arange(size)
        places = np.arange(scales.shape[2])[:, None] * block + within
        inside = ((within < block) & (places < depth)).ravel()
        index = np.where(inside, places.ravel(), 0)
        ints = np.where(inside, ints[:, :, index], 0)
    else:
        scales = scales[:, :, np.arange(0, depth, size) // block]
    index = (np.arange(runs)[:, None] * depth + index).ravel()
    scales = scales.reshape(count, -1).astype(np.float32)
    groups = ints.reshape(*scales.shape, size)
    # A negative scale is its weights' sign, unless one of them is -8.
    turned = (scales < 0) & (groups.min(axis=2) > _LEAST)
    groups, scales = (
        np.where(turned[:, :, None], -groups, groups),
        np.where(turned, -scales, scales),
    )
    least, largest = groups.min(axis=2), groups.max(axis=2)
    bits = 4 if (largest - least).max() <= _LARGEST - _LEAST else 8
    low = _LEAST if bits == 4 else INT8_MIN
    require(
        bool((largest - least <= INT8_MAX - INT8_MIN).all()),
        "the weights do not fit 8 bits once their zero point is taken out",
        "quantise its weights symmetrically",
    )
    require(
        bits == 4 or len(index) <= _MOST_INPUTS,
        f"{len(index)} inputs of weights of 8 bits with several scales; the maximum is "
        f"{_MOST_INPUTS}",
        "use int4 weights, or one scale per output channel",
    )
    # No zero point where there need not be one.
    zeros = np.where(least < low, least - low, np.maximum(largest + low + 1, 0))
    far = bool(np.abs(zeros).max() > _FARTHEST)
    require(not far, "a zero point does not fit 16 bits", "use zero points in its weights' range")
    weights = (groups - zeros[:, :, None]).reshape(count, -1).astype(np.int8)
    plain = bits == 4 and not zeros.any()
    return Grouped(weights, scales, None if plain else zeros, index, bits)


def grouped_dense(
    context: Context, node: FileNode, x: Activation, grouped: Grouped, bias: Value | None
) -> Pending:
    """The layer of weights and a constant bias, for each line of the input's last axis."""
    real = _real(bias)
    count, depth = len(grouped.weights), grouped.inputs
    fits = bool(x.shape) and x.shape[-1] == depth
    require(fits, f"the input is {list(x.shape)} and its weights are {depth} x {count}")
    lined = lines(x)
    tensor = context.arranged(x, lined[:, :, grouped.index])
    shape = (*x.shape[:-1], count)
    laid = file_index(shape).reshape(*lined.shape[:2], count)
    return grouped_pending(node, replace(x, tensor=tensor), grouped, real, (shape, laid))


def _real(bias: Value | None) -> np.ndarray | None:
    """The values of constant biases."""
    if bias is None:
        return None
    return present(constant_of(bias), "the biases are not constant", "freeze the model")


def grouped_conv(
    context: Context,
    node: FileNode,
    x: Activation,
    weights: BlockedConstant,
    bias: Value | None,
    window: Window,
) -> Pending:
    """A convolution of an image or a line. All taps of an output pixel become channels of one, if
    they are not."""
    count, depth = weights.ints.shape[:2]
    single = int(node.attributes.get("group", 1)) == 1 and weights.axis == 1
    reason = "blocks of weights of a convolution that has groups, or along another axis"
    require(single, reason, "quantise its weights with one scale per output channel")
    require(depth == x.shape[1], f"{x.shape[1]} channels and weights of {depth}")
    # (N, C, kernel) to (N, kernel, C).
    parts = (weights.centred(), weights.scale)
    ints, scales = (part.reshape(count, part.shape[1], -1).swapaxes(1, 2) for part in parts)
    grouped = grouped_rows(ints, scales, weights.block)
    shape = (1, count, *(window.out_size(axis, n) for axis, n in enumerate(x.shape[2:])))
    x = _padded(context, node, x, window)
    rows, columns = (_taps(window, axis, n) for axis, n in enumerate(x.tensor.shape[:2]))
    places = file_index(x.shape).reshape(depth, *x.tensor.shape[:2])
    taps = places[:, rows[:, None, :, None], columns[None, :, None, :]]
    # (C, H, W, kernel) to (H, W, kernel, C).
    lined = np.moveaxis(taps, 0, -1).reshape(len(rows), len(columns), -1)
    tensor = context.arranged(x, lined[:, :, grouped.index])
    form = shape, channels_last(shape)
    return grouped_pending(node, replace(x, tensor=tensor), grouped, _real(bias), form)


def _taps(window: Window, axis: int, size: int) -> np.ndarray:
    """The places (out, kernel) along an axis of a padded image."""
    extent = window.extent(axis)
    starts = np.arange(0, size - extent + 1, window.stride[axis])
    return starts[:, None] + np.arange(0, extent, window.dilation[axis])


def _padded(context: Context, node: FileNode, x: Activation, window: Window) -> Activation:
    """An image or a line with the padding of a window around it."""
    if not any(window.pad):
        return x
    top, left, bottom, right = window.pad
    height, width, channels = x.tensor.shape
    pad = Pad(((top, bottom), (left, right), (0, 0)), x.tensor.zero_point)
    name = f"{node.outputs[0]}/padded"
    size = height + top + bottom, width + left + right, channels
    tensor = context.builder.add_tensor(replace(x.tensor, name=name, shape=size))
    context.builder.add_node(name, pad, [x.tensor.name], name)
    shape = (1, channels, *size[: len(x.shape) - 2])
    return Activation(tensor, shape, arrangement(shape, channels_last(shape))[0], x.dtype)


def grouped_pending(
    node: FileNode,
    x: Activation,
    grouped: Grouped,
    real: np.ndarray | None,
    form: tuple[FileShape, np.ndarray],
) -> Pending:
    """The result of a layer on each pixel of x; form: that of result_of(). real: biases float32,
    none if an Add may still bring them."""
    count, scale = len(grouped.weights), np.float32(x.tensor.scale)
    biases = np.zeros(1) if real is None else real.astype(np.float64).ravel()
    require(biases.size in (1, count), f"{biases.size} biases for {count} channels")
    require(bool(np.isfinite(biases).all()), "a bias is not a number")
    biases = np.broadcast_to(biases, count) / np.float64(scale)

    def make(out: Tensor) -> Op:
        step = float(np.float64(out.scale) / scale)
        made = multipliers_of(grouped.factors, grouped.scales, biases, step)
        require(
            bool((np.abs(made.biases) < INT32_MAX).all()),
            "a bias is beyond what its weights' scales allow",
            "quantise the model again with larger scales of the weights",
        )
        require(
            made.error <= MOST_ERROR,
            f"refused: its integer sums miss the output by up to {made.error:.2g} steps",
            "quantise the model again with a larger scale of the output",
        )
        factors = (np.float64(scale) * made.units / np.float64(out.scale)).astype(np.float32)
        require(bool(np.isfinite(factors).all()), "a ratio of its scales is not a number")
        bias, requant = made.biases.astype(np.int32), FloatScale(factors)
        zeros, bits = grouped.zeros, grouped.bits
        alone = not made.fine and (made.values == 1).all() and made.values.shape[1] == 1
        if alone and (zeros is None or not zeros.any()):
            return FullyConnected(grouped.weights, bias, requant, bits)
        return GroupedDense(grouped.weights, made.values, bias, requant, made.fine, zeros, bits)

    pending = result_of(node, x, (x.tensor,), make, form)
    if real is not None:
        return pending

    def rebias(real: np.ndarray, name: str) -> Pending:
        return replace(grouped_pending(node, x, grouped, real, form), name=name)

    return replace(pending, rebias=rebias)
