# SPDX-License-Identifier: Apache-2.0
"""Import rules for QuantizeLinear and DequantizeLinear."""

from __future__ import annotations

import numpy as np
import onnx

from ..common import (
    KEEP_QUANTISATION,
    UnsupportedError,
    check_scale,
    check_weight_scales,
    present,
    require,
)
from . import values
from .context import Context, rule
from .file import FileNode

# Operators that divide by the root of a mean square: any scale of their input cancels out.
SCALE_FREE = ("RMSNormalization", "SimplifiedLayerNormalization")


@rule(
    "QuantizeLinear",
    "com.microsoft.QuantizeLinear",
    constraints="constant scale; no block_size; activations: int8 or uint8 with one scale",
)
def _quantize(context: Context, node: FileNode, args: values.Args) -> values.Value:
    require(
        not node.attributes.get("block_size"),
        "blockwise quantisation is not supported",
        KEEP_QUANTISATION,
    )
    scale = context.constant(args, 1, "scale")
    zero_point = context.constant(args, 2, "zero point")
    value = args[0]
    if zero_point is None and node.attributes.get("output_dtype"):
        kind = onnx.helper.tensor_dtype_to_np_dtype(node.attributes["output_dtype"])
        zero_point = np.zeros(1, kind)
    if isinstance(value, values.Constant):
        return _quantize_constant(node, value.array, scale, zero_point)
    if isinstance(value, values.QuantConstant):
        return _quantize_constant(node, value.real(), scale, zero_point)
    factor, zero, dtype = quantisation(scale, zero_point)
    return context.quantise(value, factor, zero, node.outputs[0], dtype)


def _quantize_constant(
    node: FileNode, real: np.ndarray, scale: np.ndarray | None, zero_point: np.ndarray | None
) -> values.Constant:
    """Weights that an exporter left as float, behind their own QuantizeLinear."""
    axis = node.attributes.get("axis", 1)
    zero = np.zeros(1, np.uint8) if zero_point is None else zero_point
    require(
        zero.dtype.kind in "iu",
        f"quantisation to an unsupported type: {zero.dtype}",
        KEEP_QUANTISATION,
    )
    scale = present(scale, "the scale is missing")
    check_weight_scales(scale)
    spread = [-1 if scale.size > 1 and i == axis % real.ndim else 1 for i in range(real.ndim)]
    quotient = np.rint(real.astype(np.float32) / scale.reshape(spread))
    limits = np.iinfo(zero.dtype)
    shifted = quotient + zero.astype(np.float32).reshape(spread if zero.size > 1 else -1)
    return values.Constant(np.clip(shifted, limits.min, limits.max).astype(zero.dtype))


@rule(
    "DequantizeLinear",
    "com.microsoft.DequantizeLinear",
    constraints="constant scale; block_size: weights; activations: the "
    "scale and zero point of their QuantizeLinear",
)
def _dequantize(context: Context, node: FileNode, args: values.Args) -> values.Value:
    scale = context.constant(args, 1, "scale")
    zero_point = context.constant(args, 2, "zero point")
    value = args[0]
    if node.attributes.get("block_size"):
        return _in_blocks(node, value, present(scale, "the scale is missing"), zero_point)
    if isinstance(value, values.Activation) and _scale_does_not_matter(context, node):
        stated = quantisation(scale, zero_point)
        if stated[1:] == (value.tensor.zero_point, value.dtype):
            return values.Rescaled(value, stated[0])
    return dequantise(value, scale, zero_point, node.attributes.get("axis", 1))


def _in_blocks(
    node: FileNode, value: values.Value | None, scale: np.ndarray, zero_point: np.ndarray | None
) -> values.BlockedConstant:
    if not isinstance(value, values.Constant):
        raise UnsupportedError("blockwise quantisation of an activation", KEEP_QUANTISATION)
    ints, bits = _bytes_of(value.array)
    require(ints.dtype.kind in "iu", f"cannot dequantise {ints.dtype} values")
    block, axis = int(node.attributes["block_size"]), int(node.attributes.get("axis", 1))
    zero = np.zeros(scale.shape, np.int64) if zero_point is None else _bytes_of(zero_point)[0]
    return values.blocked_constant(ints, scale, zero, (axis, block, bits))


def _scale_does_not_matter(context: Context, node: FileNode) -> bool:
    """Whether all that read a node are operators that give the same for any scale."""
    name = node.outputs[0]
    readers = [other for other in context.model.nodes if name in other.inputs]
    ends = any(value.name == name for value in context.model.outputs)
    return bool(readers) and not ends and all(reader.op in SCALE_FREE for reader in readers)


# onnxruntime's quantiser writes such a scale.
_INFINITE = (
    "the scale of a constant is infinite or not a number, as of a mask of minus infinity",
    "quantise the float model with `vmcu quantize`, which replaces such a mask by finite numbers",
)


def dequantise(
    value: values.Value | None,
    scale: np.ndarray | None,
    zero_point: np.ndarray | None,
    axis: int = 1,
) -> values.Value:
    """The float view of a quantised value: of a constant, or of an activation, whose own scale
    and zero point it must repeat."""
    if isinstance(value, values.Constant):
        ints, bits = _bytes_of(value.array)
        require(ints.dtype.kind in "iu", f"cannot dequantise {ints.dtype} values")
        scale = present(scale, "the scale is missing")
        require(bool(np.isfinite(scale).all()), *_INFINITE)
        check_weight_scales(scale)
        zero = np.zeros(1, np.int64) if zero_point is None else zero_point
        for array in (scale, zero):
            fits = array.size == 1 or (ints.ndim > 0 and array.size == ints.shape[axis])
            require(fits, f"{array.size} scales or zero points for the shape {list(ints.shape)}")
        axis = axis % ints.ndim if ints.ndim else 0
        return values.QuantConstant(ints, scale.ravel(), zero.ravel(), axis, bits)
    if not isinstance(value, values.Activation):
        raise UnsupportedError("the input of DequantizeLinear is not quantised")
    absent = np.zeros(1, value.dtype)
    stated = quantisation(scale, absent if zero_point is None else zero_point)
    tensor = value.tensor
    same = stated == (tensor.scale, tensor.zero_point, value.dtype)
    require(
        same,
        f"input '{tensor.name}' is read with another scale or zero point than it was written with",
        KEEP_QUANTISATION,
    )
    return values.Real(value)


def _bytes_of(ints: np.ndarray) -> tuple[np.ndarray, int]:
    """Integers, those of 4 bits as bytes, and the bits of each."""
    kind = {"int4": np.int8, "uint4": np.uint8}.get(ints.dtype.name)
    return (ints, 8 * ints.dtype.itemsize) if kind is None else (ints.astype(kind), 4)


def quantisation(scale: np.ndarray | None, zero_point: np.ndarray | None) -> tuple[float, int, str]:
    """(scale, int8 zero point, file dtype) of an activation, from a node's constants."""
    scale = present(scale, "the scale is missing")
    require(scale.size == 1, "an activation is quantised per channel", KEEP_QUANTISATION)
    zero = np.zeros(1, np.uint8) if zero_point is None else zero_point
    require(zero.size == 1, "an activation is quantised per channel", KEEP_QUANTISATION)
    require(
        zero.dtype in (np.int8, np.uint8),
        f"an activation is quantised to {zero.dtype}, not int8",
        KEEP_QUANTISATION,
    )
    value = float(np.float32(scale.reshape(-1)[0]))
    check_scale(value, "an activation")
    unsigned = zero.dtype == np.uint8
    return value, int(zero.reshape(-1)[0]) - (128 if unsigned else 0), str(zero.dtype)
