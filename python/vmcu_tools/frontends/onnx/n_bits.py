# SPDX-License-Identifier: Apache-2.0
"""Import rules for operators of ONNX Runtime whose constants have 4 or 8 bits and a scale for each
block."""

from __future__ import annotations

import math
from dataclasses import replace

import numpy as np

from ..common import check_weight_scales, present, require
from .context import Context, rule
from .embedding import embedded
from .file import FileNode
from .grouped import grouped_dense, grouped_rows
from .values import Args, Constant, Indices, Value, blocked_constant

# Zero points of unsigned constants by default, by bits.
_MIDDLE = {4: 8, 8: 128}
# The shifts of both numbers in a byte.
_PAIR = np.array([0, 4], np.uint8)


@rule(
    "com.microsoft.MatMulNBits",
    constraints="bits 4 or 8; constant weights; no g_idx",
)
def _mat_mul_n_bits(context: Context, node: FileNode, args: Args) -> Value:
    names = ("K", "N", "block_size")
    depth, count, block = (int(node.attributes.get(name, 0)) for name in names)
    bits = int(node.attributes.get("bits", 4))
    require(bits in _MIDDLE, f"weights of {bits} bits", "use 4 or 8 bits")
    require(min(depth, count, block) > 0, "K, N or block_size is missing")
    require(len(args) < 5 or args[4] is None, "g_idx is not supported", "export without it")
    blocks = -(-depth // block)
    packed = present(context.constant(args, 1, "weights"), "the weights are missing")
    scales = present(context.constant(args, 2, "scales"), "the scales are missing")
    fits = packed.dtype == np.uint8 and packed.size == count * blocks * (block * bits // 8)
    require(fits, f"{packed.size} bytes of weights for {count} x {blocks} blocks of {block}")
    require(scales.size == count * blocks, f"{scales.size} scales for {count} x {blocks} blocks")
    check_weight_scales(scales)
    weights = _unpacked(packed, count, bits)[:, :depth]
    zeros = context.constant(args, 3, "zero points")
    points = np.full((count, blocks), _MIDDLE[bits])
    if zeros is not None:
        points = _zero_points(zeros, points.shape, bits)
    weights = weights - np.repeat(points, block, axis=1)[:, :depth]
    grouped = grouped_rows(weights[:, None], scales.reshape(count, 1, blocks), block)
    x = context.activation(args[0])
    return grouped_dense(context, node, x, grouped, args[5] if len(args) > 5 else None)


@rule(
    "com.microsoft.GatherBlockQuantized",
    constraints="a constant table of 4 or 8 bits, 2-D, gather_axis 0",
)
def _gather_block_quantized(context: Context, node: FileNode, args: Args) -> Value:
    given = node.attributes
    bits, block = int(given.get("bits", 4)), int(given.get("block_size", 128))
    require(bits in _MIDDLE and block > 0, f"a table of {bits} bits in blocks of {block}")
    table = present(context.constant(args, 0, "table"), "the table is missing")
    scales = present(context.constant(args, 2, "scales"), "the scales are missing")
    zeros = context.constant(args, 3, "zero points")
    middle = _MIDDLE[bits] if table.dtype == np.uint8 else 0
    ints = table if table.dtype != np.uint8 else _unpacked_rows(table, bits)
    points = np.full(scales.shape, middle)
    if zeros is not None:
        points = zeros if zeros.dtype != np.uint8 else _unpacked_rows(zeros, bits)
        points = points[..., : scales.shape[-1]]
    axis = int(given.get("quantize_axis", 1))
    blocked = blocked_constant(ints.astype(np.int64), scales, points, (axis, block, bits))
    numbers = args[1]
    node = replace(node, attributes={**given, "axis": given.get("gather_axis", 0)})
    if isinstance(numbers, Indices):
        return embedded(context, node, [blocked], numbers)
    places = present(context.constant(args, 1, "indices"), "the indices are missing")
    size = ints.shape[0]
    inside = bool(((-size <= places) & (places < size)).all()) and not node.attributes["axis"]
    require(inside, f"an index is outside of {size}, or of another axis than the first")
    return Constant(blocked.real()[places])


def _unpacked_rows(packed: np.ndarray, bits: int) -> np.ndarray:
    """Unpacks bytes along their last axis to int64."""
    rows = math.prod(packed.shape[:-1])
    return _unpacked(packed, rows, bits).reshape(*packed.shape[:-1], -1)


def _unpacked(packed: np.ndarray, count: int, bits: int) -> np.ndarray:
    """Unpacks bytes to int64 (count, n): of 4 bits the lower half of each, then the upper one."""
    values = packed.reshape(count, -1, 1)
    values = values >> _PAIR & 15 if bits == 4 else values
    return values.reshape(count, -1).astype(np.int64)


def _zero_points(zeros: np.ndarray, shape: tuple[int, int], bits: int) -> np.ndarray:
    """Reads zero points of (N, blocks), int64, from bytes that hold one or two of a row, or from
    floats."""
    count, blocks = shape
    if zeros.dtype == np.uint8:
        fits = zeros.size == count * -(-blocks * bits // 8)
        require(fits, f"{zeros.size} bytes of zero points for {count} x {blocks} blocks")
        return _unpacked(zeros, count, bits)[:, :blocks]
    require(zeros.size == count * blocks, f"{zeros.size} zero points")
    points = np.rint(zeros.astype(np.float64))
    integers = bool((points == zeros).all())
    require(integers, "a zero point is no integer", "quantise its weights with integer zero points")
    return points.astype(np.int64).reshape(shape)
