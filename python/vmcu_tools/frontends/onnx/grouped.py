# SPDX-License-Identifier: Apache-2.0
"""Weights of 4 bits with a scale for each block of inputs, and the import rule of MatMulNBits."""

from __future__ import annotations

import math
from dataclasses import dataclass, replace

import numpy as np

from ...graph import Op, Tensor
from ...kernels.targets.portable.grouped import TAPS
from ...ops.fully_connected import FullyConnected
from ...ops.grouped import MOST_ERROR, GroupedDense, multipliers_of
from ...quant import INT32_MAX, FloatScale
from ..common import check_weight_scales, present, require
from ..movement import file_index
from .context import Context, rule
from .file import FileNode
from .values import (
    Activation,
    Args,
    BlockedConstant,
    FileShape,
    Order,
    Pending,
    Value,
    arrangement,
    channels_last,
    constant_of,
    laid_out,
    matrices,
)

_SYMMETRIC = "quantise its weights symmetrically to int4"
# The range of a weight of 4 bits.
_LEAST, _LARGEST = -8, 7
# The zero point that MatMulNBits has by default.
_MIDDLE = 8
# The shifts that pack two weights into a byte.
_PAIR = np.array([0, 4], np.uint8)


@dataclass(frozen=True, eq=False)
class Grouped:
    """weights: int8 (N, K), within 4 bits; scales: float32 (N, groups), each of K / groups
    consecutive weights."""

    weights: np.ndarray
    scales: np.ndarray


def grouped_of(weights: BlockedConstant, axis: int) -> Grouped:
    """A matrix whose inputs are along `axis`."""
    ints = weights.centred()
    require(ints.ndim == 2, f"the weights have {ints.ndim} dimensions")
    require(
        weights.axis == axis,
        "the blocks of its weights are along the outputs",
        "quantise them in blocks along the inputs",
    )
    require(
        weights.bits == 4,
        f"blocks of weights of {weights.bits} bits are not supported",
        "use int4 weights, or one scale per output channel",
    )
    if axis == 0:
        return _grouped(ints.T, weights.scale.T, weights.block)
    return _grouped(ints, weights.scale, weights.block)


def _grouped(ints: np.ndarray, scales: np.ndarray, block: int) -> Grouped:
    """Groups integers (N, K) with scales (N, blocks). A last block may be short: then groups are
    as long as divides both."""
    depth = ints.shape[1]
    size = depth if block >= depth else math.gcd(block, depth)
    reason = f"{depth} inputs in blocks of {block} are groups of {size}, not a multiple of {TAPS}"
    remedy = f"use blocks of a multiple of {TAPS} that divides the number of inputs"
    require(size % TAPS == 0, reason, remedy)
    scales = scales[:, np.arange(0, depth, size) // block].astype(np.float32)
    reason = "the weights do not fit 4 bits once their zero point is taken out"
    require(bool((ints >= _LEAST).all() and (ints <= _LARGEST).all()), reason, _SYMMETRIC)
    # A negative scale is its weights' sign, unless one of them is -8.
    groups = ints.reshape(*scales.shape, size)
    turned = (scales < 0) & (groups.min(axis=2) > _LEAST)
    groups = np.where(turned[:, :, None], -groups, groups)
    ints = np.ascontiguousarray(groups.reshape(ints.shape).astype(np.int8))
    return Grouped(ints, np.where(turned, -scales, scales))


def grouped_dense(
    context: Context, node: FileNode, x: Activation, grouped: Grouped, bias: Value | None
) -> Pending:
    """The layer of weights and a constant bias, for each line of the input's last axis."""
    real = _real(bias)
    count, depth = grouped.weights.shape
    fits = bool(x.shape) and x.shape[-1] == depth
    require(fits, f"the input is {list(x.shape)} and its weights are {depth} x {count}")
    rows = matrices(x.shape)
    lined = file_index(x.shape).reshape(rows)
    if np.array_equal(laid_out(x).ravel(), lined.ravel()) and x.tensor.shape[2] == depth:
        rows = x.tensor.shape
    tensor = context.arranged(x, lined.reshape(rows))
    shape = (*x.shape[:-1], count)
    order, memory = arrangement(shape, file_index(shape).reshape(*rows[:2], count))
    return grouped_pending(node, replace(x, tensor=tensor), grouped, real, (shape, order, memory))


def _real(bias: Value | None) -> np.ndarray | None:
    """The values of constant biases."""
    if bias is None:
        return None
    return present(constant_of(bias), "the biases are not constant", "freeze the model")


def grouped_conv(
    node: FileNode, x: Activation, weights: BlockedConstant, bias: Value | None
) -> Pending:
    """A 1 x 1 convolution of an image or a line, channels last in memory."""
    axes = len(x.shape) - 2
    plain = {"strides": [1] * axes, "dilations": [1] * axes, "pads": [0] * 2 * axes}
    count, depth = weights.ints.shape[:2]
    require(
        weights.ints.shape[2:] == (1,) * axes
        and int(node.attributes.get("group", 1)) == 1
        and all(node.ints(name, value) == value for name, value in plain.items()),
        "blocks of weights of a convolution that is not 1 x 1",
        "quantise its weights with one scale per output channel",
    )
    require(depth == x.shape[1], f"{x.shape[1]} channels and weights of {depth}")
    shape = (1, count, *x.shape[2:])
    order, memory = arrangement(shape, channels_last(shape))
    grouped = grouped_of(weights.cut(2), 1)
    return grouped_pending(node, x, grouped, _real(bias), (shape, order, memory))


def grouped_pending(
    node: FileNode,
    x: Activation,
    grouped: Grouped,
    real: np.ndarray | None,
    result: tuple[FileShape, Order, tuple[int, int, int]],
) -> Pending:
    """The result of a layer on each pixel of x: its shape, order and size in memory. real: biases
    float32, none if an Add may still bring them."""
    count, scale = len(grouped.weights), np.float32(x.tensor.scale)
    biases = np.zeros(1) if real is None else real.astype(np.float64).ravel()
    require(biases.size in (1, count), f"{biases.size} biases for {count} channels")
    require(bool(np.isfinite(biases).all()), "a bias is not a number")
    biases = np.broadcast_to(biases, count) / np.float64(scale)

    def make(out: Tensor, act_min: int, act_max: int) -> Op:
        step = float(np.float64(out.scale) / scale)
        made = multipliers_of(grouped.weights, grouped.scales, biases, step)
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
        limits = {"act_min": act_min, "act_max": act_max}
        if not made.fine and (made.values == 1).all() and made.values.shape[1] == 1:
            return FullyConnected(grouped.weights, bias, requant, 4, **limits)
        return GroupedDense(grouped.weights, made.values, bias, requant, made.fine, **limits)

    shape, order, memory = result
    pending = Pending(
        node.outputs[0], node.name, shape, order, (x.tensor,), make, x.dtype, memory=memory
    )
    if real is not None:
        return pending

    def rebias(real: np.ndarray, name: str) -> Pending:
        return replace(grouped_pending(node, x, grouped, real, result), name=name)

    return replace(pending, rebias=rebias)


@rule(
    "com.microsoft.MatMulNBits",
    constraints="bits 4; constant symmetric weights (zero point 8); groups of a multiple of 16 "
    "inputs; no g_idx",
)
def _mat_mul_n_bits(context: Context, node: FileNode, args: Args) -> Value:
    names = ("K", "N", "block_size")
    depth, count, block = (int(node.attributes.get(name, 0)) for name in names)
    bits = int(node.attributes.get("bits", 4))
    require(bits == 4, f"weights of {bits} bits", "use 4 bits, or QuantizeLinear with int8")
    require(min(depth, count, block) > 0, "K, N or block_size is missing")
    require(len(args) < 5 or args[4] is None, "g_idx is not supported", "export without it")
    blocks = -(-depth // block)
    packed = present(context.constant(args, 1, "weights"), "the weights are missing")
    scales = present(context.constant(args, 2, "scales"), "the scales are missing")
    fits = packed.dtype == np.uint8 and packed.size == count * blocks * (block // 2)
    require(fits, f"{packed.size} bytes of weights for {count} x {blocks} blocks of {block}")
    require(scales.size == count * blocks, f"{scales.size} scales for {count} x {blocks} blocks")
    check_weight_scales(scales)
    weights = _unpacked(packed, count)[:, :depth]
    zeros = context.constant(args, 3, "zero points")
    if zeros is not None:
        points = _zero_points(zeros, count, blocks)
        weights = weights - np.repeat(points, block, axis=1)[:, :depth]
    else:
        weights = weights - _MIDDLE
    grouped = _grouped(weights, scales.reshape(count, blocks), block)
    x = context.activation(args[0])
    return grouped_dense(context, node, x, grouped, args[5] if len(args) > 5 else None)


def _unpacked(packed: np.ndarray, count: int) -> np.ndarray:
    """int64 (count, n): of each byte the lower half, then the upper one."""
    nibbles: np.ndarray = (packed.reshape(count, -1, 1) >> _PAIR & 15).reshape(count, -1)
    return nibbles.astype(np.int64)


def _zero_points(zeros: np.ndarray, count: int, blocks: int) -> np.ndarray:
    """int64 (count, blocks), of bytes with two of a row each or of floats."""
    if zeros.dtype == np.uint8:
        fits = zeros.size == count * (-(-blocks // 2))
        require(fits, f"{zeros.size} bytes of zero points for {count} x {blocks} blocks")
        return _unpacked(zeros, count)[:, :blocks]
    require(zeros.size == count * blocks, f"{zeros.size} zero points")
    points = np.rint(zeros.astype(np.float64))
    require(bool((points == zeros).all()), "a zero point is no integer", _SYMMETRIC)
    return points.astype(np.int64).reshape(count, blocks)
