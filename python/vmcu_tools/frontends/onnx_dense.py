# SPDX-License-Identifier: Apache-2.0
"""Weights and biases of ONNX layers, and the import rules of Gemm and MatMul."""

from __future__ import annotations

import math
from dataclasses import replace

import numpy as np

from ..graph import FullyConnected, Op, Tensor
from ..quant import INT32_MAX, INT32_MIN, FloatScale
from .common import require
from .onnx_context import Context, rule
from .onnx_file import FileNode
from .onnx_values import Activation, Constant, Pending, QuantConstant, Value

_BIAS_TOLERANCE = 1e-2


def constant_weights(
    args: list[Value | None], place: int, axis: int
) -> tuple[np.ndarray, np.ndarray]:
    """Symmetric int8 weights and their float32 scales, one or one per index of `axis`."""
    value = args[place] if place < len(args) else None
    require(
        not isinstance(value, Constant), "its weights are float", "Quantise its weights to int8."
    )
    require(
        isinstance(value, QuantConstant),
        "its weights are not constant",
        "Freeze the model so that they are stored in the file.",
    )
    require(value.ints.dtype in (np.int8, np.uint8), f"its weights are {value.ints.dtype}")
    per_channel = value.scale.size > 1
    require(not per_channel or value.axis == axis, f"its weights' scales are on axis {value.axis}")
    return value.symmetric(), value.scale.astype(np.float32)


def float_scale(x: Activation, scales: np.ndarray, out: Tensor, count: int) -> FloatScale:
    """ONNX Runtime, core/providers/cpu/quantization: x scale * w scale / y scale in float32."""
    product = np.float32(x.tensor.scale) * scales
    factors = np.broadcast_to(product / np.float32(out.scale), count).copy()
    require(bool(np.isfinite(factors).all()), "a ratio of its scales is not a number")
    return FloatScale(factors)


def bias_of(
    args: list[Value | None], place: int, x: Activation, scales: np.ndarray, count: int
) -> np.ndarray:
    """int32 (count,) biases, zero if absent; a float constant is quantised as ONNX Runtime does
    (core/optimizer/qdq_transformer/weight_bias_quantization.cc)."""
    value = args[place] if place < len(args) else None
    if value is None:
        return np.zeros(count, np.int32)
    product = np.float32(x.tensor.scale) * scales
    if isinstance(value, Constant) and value.array.dtype == np.float32:
        return quantise_bias(value.array, product, count)
    require(isinstance(value, QuantConstant), "its biases are not constant", "Freeze the model.")
    require(value.ints.dtype == np.int32, f"its biases are {value.ints.dtype}, not int32")
    require(not value.zero_point.any(), "its biases have a zero point")
    require(value.ints.size == count, f"it has {value.ints.size} biases for {count} channels")
    close = np.abs(value.scale / product - 1) <= _BIAS_TOLERANCE
    # Where all biases of a channel are zero, their scale is arbitrary.
    require(
        bool((close | (value.ints.ravel() == 0)).all()),
        "the scale of its biases is not input scale times weight scale",
        "Quantise biases with that scale.",
    )
    return value.ints.reshape(count)


def quantise_bias(real: np.ndarray, product: np.ndarray, count: int) -> np.ndarray:
    """int32 (count,) from float32 biases of scale `product`."""
    require(real.size in (1, count), f"it has {real.size} biases for {count} channels")
    q = np.rint(np.broadcast_to(real.ravel(), count).astype(np.float32) / product)
    require(bool(np.isfinite(q).all()), "a bias is not a number")
    return np.clip(q.astype(np.float64), INT32_MIN, INT32_MAX).astype(np.int32)


@rule("Gemm")
def _gemm(context: Context, node: FileNode, args: list[Value | None]) -> Value:
    attributes = node.attributes
    plain = attributes.get("alpha", 1.0) == 1.0 and not attributes.get("transA")
    require(plain, "alpha or transA is set", "Fold them into the weights.")
    has_bias = len(args) > 2 and args[2] is not None
    require(not has_bias or attributes.get("beta", 1.0) == 1.0, "beta is set", "Fold it.")
    transposed = bool(attributes.get("transB"))
    weights, scales = constant_weights(args, 1, 0 if transposed else 1)
    return _dense(context, node, args, weights if transposed else weights.T, scales)


@rule("MatMul")
def _mat_mul(context: Context, node: FileNode, args: list[Value | None]) -> Value:
    require(
        not isinstance(args[0], (Constant, QuantConstant)),
        "its left operand is constant",
        "Transpose the product, so that the constant is on the right.",
    )
    weights, scales = constant_weights(args[:2], 1, 1)
    return _dense(context, node, args[:2], weights.T, scales)


def _dense(
    context: Context,
    node: FileNode,
    args: list[Value | None],
    weights: np.ndarray,
    scales: np.ndarray,
) -> Pending:
    """weights int8 (N, K). Where the input is a flattened image, whose bytes lie channels last,
    the columns are permuted to match."""
    require(weights.ndim == 2, f"its weights have {weights.ndim} dimensions")
    require(args[0] is not None, "its input is absent")
    x = context.activation(args[0])
    count, depth = weights.shape
    require(
        len(x.shape) in (1, 2, 3) and x.shape[-1] == depth,
        f"its input is {list(x.shape)} and its weights are {depth} x {count}",
    )
    if x.order is not None:
        rows = math.prod(x.shape[:-1])
        require(rows == 1, "the rows of its input do not lie in order in memory", "Use one row.")
        weights = weights[:, x.order]
    weights = np.ascontiguousarray(weights)
    biases = bias_of(args, 2, x, scales, count)
    shape = (*x.shape[:-1], count)
    pending = _dense_pending(node, x, weights, scales, biases, shape)
    if len(args) > 2 and args[2] is not None:
        return pending

    def rebias(real: np.ndarray, name: str) -> Pending:
        biases = quantise_bias(real, np.float32(x.tensor.scale) * scales, count)
        return replace(_dense_pending(node, x, weights, scales, biases, shape), name=name)

    return replace(pending, rebias=rebias)


def _dense_pending(
    node: FileNode,
    x: Activation,
    weights: np.ndarray,
    scales: np.ndarray,
    biases: np.ndarray,
    shape: tuple[int, ...],
) -> Pending:
    def make(out: Tensor, act_min: int, act_max: int) -> Op:
        requant = float_scale(x, scales, out, len(weights))
        return FullyConnected(weights, biases, requant, act_min=act_min, act_max=act_max)

    return Pending(node.outputs[0], node.name, shape, None, (x.tensor,), make, x.dtype)
