# SPDX-License-Identifier: Apache-2.0
"""Weights and biases of ONNX layers, and the import rules of Gemm and MatMul."""

from __future__ import annotations

import math
from dataclasses import dataclass, replace

import numpy as np

from ...graph import Op, Tensor
from ...ops.fully_connected import FullyConnected
from ...ops.matmul import MatMul
from ...quant import INT8_MAX, INT8_MIN, INT32_MAX, INT32_MIN, FloatScale
from ..common import UnsupportedError, present, require
from ..movement import file_index
from .context import Context, rule
from .curves import REQUANTISE
from .file import FileNode
from .grouped import grouped_dense, grouped_of
from .values import (
    Activation,
    Args,
    BlockedConstant,
    Constant,
    FileShape,
    Pending,
    QuantConstant,
    Real,
    Value,
    arrangement,
    channels_last,
    explicit,
    laid_out,
    lines,
    result_of,
)

_BIAS_TOLERANCE = 1e-2


@dataclass(frozen=True, eq=False)
class Weights:
    """ints: int8, symmetric; scales: float32, one or one per output channel; bits: of one in the
    file."""

    ints: np.ndarray
    scales: np.ndarray
    bits: int

    def laid(self, ints: np.ndarray) -> Weights:
        """The same in another order or shape."""
        return replace(self, ints=ints)


def constant_weights(args: Args, place: int, axis: int) -> Weights:
    """Constant weights of one scale or one per index of `axis`."""
    value = args[place] if place < len(args) else None
    require(
        not isinstance(value, Constant),
        "the weights are float",
        "quantise its weights to int8; onnxruntime does so in QuantFormat.QDQ",
    )
    require(
        not isinstance(value, BlockedConstant),
        "the weights have several scales per output channel",
        "quantise them with one; MatMul, Gemm, Conv and MatMulNBits support blocks of weights",
    )
    if not isinstance(value, QuantConstant):
        raise UnsupportedError(
            "the weights are not constant",
            "freeze the model so that they are stored in the file",
        )
    require(value.ints.dtype in (np.int8, np.uint8), f"the weights are {value.ints.dtype}")
    per_channel = value.scale.size > 1
    along = f"the weights' scales are on axis {value.axis}"
    require(not per_channel or value.axis == axis, along, REQUANTISE)
    return Weights(value.symmetric(), value.scale.astype(np.float32), value.bits)


def narrowed(weights: Value | None) -> list[QuantConstant]:
    """Weights that leave int8 once their zero point is taken out, as a sum of several that do not;
    those that do not leave it alone, and anything else as no weights at all."""
    if not isinstance(weights, QuantConstant) or weights.ints.dtype.itemsize > 1:
        return []
    rest = weights.centred()
    parts: list[QuantConstant] = []
    while rest.any() or not parts:
        ints = np.clip(rest, INT8_MIN, INT8_MAX)
        rest = rest - ints
        zero = np.zeros(1, np.int64)
        parts.append(replace(weights, ints=ints.astype(np.int8), zero_point=zero))
    return parts


def narrow_channels(
    context: Context, node: FileNode, x: Activation, args: Args, axis: int
) -> tuple[Activation, Args]:
    """Weights that do not fit int8 as a sum of several that do, one after the other along the axis
    of input channels, each with a copy of its group's channels of its own."""
    parts = narrowed(args[1] if len(args) > 1 else None)
    if len(parts) < 2:
        return x, args
    groups = int(node.attributes.get("group", 1))
    fits = groups >= 1 and x.shape[1] % groups == 0
    require(fits, f"{x.shape[1]} channels and {groups} groups")
    laid = laid_out(x)
    copies = laid.reshape(*laid.shape[:2], groups, 1, -1).repeat(len(parts), axis=3)
    tensor = context.arranged(x, copies.reshape(*laid.shape[:2], -1))
    shape = (1, x.shape[1] * len(parts), *x.shape[2:])
    order, _ = arrangement(shape, channels_last(shape))
    weights = replace(parts[0], ints=np.concatenate([part.ints for part in parts], axis=axis))
    return Activation(tensor, shape, order, x.dtype), [args[0], weights, *args[2:]]


def float_scale(x: Activation, scales: np.ndarray, out: Tensor, count: int) -> FloatScale:
    """ONNX Runtime, core/providers/cpu/quantization: x scale * w scale / y scale in float32."""
    product = np.float32(x.tensor.scale) * scales
    factors = np.broadcast_to(product / np.float32(out.scale), count).copy()
    require(bool(np.isfinite(factors).all()), "a ratio of its scales is not a number")
    return FloatScale(factors)


def bias_of(
    args: Args, place: int, x: Activation, scales: np.ndarray, count: int, own_scale: bool = True
) -> np.ndarray:
    """int32 (count,) biases, zero if absent; a float constant is quantised as ONNX Runtime does
    (core/optimizer/qdq_transformer/weight_bias_quantization.cc). own_scale: ONNX Runtime heeds the
    biases' scale where it is another one than the product's, as of two layers that share them."""
    value = args[place] if place < len(args) else None
    if value is None:
        return np.zeros(count, np.int32)
    product = np.float32(x.tensor.scale) * scales
    if isinstance(value, Constant) and value.array.dtype == np.float32:
        return quantise_bias(value.array, product, count)
    if not isinstance(value, QuantConstant):
        raise UnsupportedError("the biases are not constant", "freeze the model")
    require(value.ints.dtype == np.int32, f"the biases are {value.ints.dtype}, not int32")
    require(not value.zero_point.any(), "the biases have a zero point")
    fits = value.ints.size in (1, count)
    require(fits, f"{value.ints.size} biases for {count} channels")
    close = np.abs(value.scale / product - 1) <= _BIAS_TOLERANCE
    # Where all biases of a channel are zero, their scale is arbitrary.
    if not bool((close | (value.ints.ravel() == 0)).all()):
        unheeded = "the scale of its biases is not input scale times weight scale"
        require(own_scale, f"{unheeded}, and ONNX Runtime takes it for that", REQUANTISE)
        return quantise_bias(value.real(), product, count)
    return np.broadcast_to(value.ints.ravel(), count).copy()


def quantise_bias(real: np.ndarray, product: np.ndarray, count: int) -> np.ndarray:
    """int32 (count,) from float32 biases of scale `product`."""
    require(real.size in (1, count), f"{real.size} biases for {count} channels")
    q = np.rint(np.broadcast_to(real.ravel(), count).astype(np.float32) / product)
    require(bool(np.isfinite(q).all()), "a bias is not a number")
    rounded: np.ndarray = np.clip(q.astype(np.float64), INT32_MIN, INT32_MAX).astype(np.int32)
    return rounded


@rule(
    "Gemm",
    constraints="constant weights of 8 or 4 bits, per tensor, per output channel or in blocks "
    "of inputs; alpha 1, beta 1, transA 0",
)
def _gemm(context: Context, node: FileNode, args: Args) -> Value:
    attributes = node.attributes
    plain = attributes.get("alpha", 1.0) == 1.0 and not attributes.get("transA")
    require(plain, "alpha or transA is set", "fold them into the weights")
    has_bias = len(args) > 2 and args[2] is not None
    require(not has_bias or attributes.get("beta", 1.0) == 1.0, "beta is set", "fold it")
    transposed = bool(attributes.get("transB"))
    if len(args) > 1 and isinstance(args[1], BlockedConstant):
        grouped = grouped_of(args[1], 1 if transposed else 0)
        bias = args[2] if len(args) > 2 else None
        return grouped_dense(context, node, context.activation(args[0]), grouped, bias)
    args = _narrow_weights(context, node, args, 1 if transposed else 0)
    weights = constant_weights(args, 1, 0 if transposed else 1)
    laid = weights if transposed else weights.laid(weights.ints.T)
    return _dense(context, node, args, laid)


@rule(
    "MatMul",
    constraints="two activations; or an activation and one constant matrix of 8 or 4 bits for all "
    "batches, per tensor, per output channel or in blocks of inputs",
)
def _mat_mul(context: Context, node: FileNode, args: Args) -> Value:
    if isinstance(args[0], (Constant, QuantConstant)):
        return _constant_left(context, node, args)
    right = args[1] if len(args) > 1 else None
    if isinstance(right, (Real, Activation, Pending)):
        return _product(context, node, context.activation(args[0]), context.activation(right))
    if isinstance(right, BlockedConstant):
        x = context.activation(args[0])
        return grouped_dense(context, node, x, grouped_of(right, 0), None)
    if isinstance(right, QuantConstant) and right.ints.ndim > 2:
        single = right.ints.size == math.prod(right.ints.shape[-2:]) and right.scale.size == 1
        require(single, "the weights differ from batch to batch")
        args = [args[0], replace(right, ints=right.ints.reshape(right.ints.shape[-2:]))]
    args = _narrow_weights(context, node, args, 0)
    weights = constant_weights(args[:2], 1, 1)
    return _dense(context, node, args[:2], weights.laid(weights.ints.T))


def _constant_left(context: Context, node: FileNode, args: Args) -> Pending:
    """A constant matrix times an activation: the product of both transposed, which no byte moves
    for."""
    weights = constant_weights(args, 0, 0)
    ints = weights.ints
    x = context.activation(args[1])
    matrix = ints.ndim > 1 and ints.size == math.prod(ints.shape[-2:])
    require(matrix and len(x.shape) > 1, "the left operand differs from batch to batch")
    perm = [*range(len(x.shape) - 2), len(x.shape) - 1, len(x.shape) - 2]
    shape, laid = _transposed(x.shape, laid_out(x), perm)
    turned = Activation(x.tensor, shape, arrangement(shape, laid)[0], x.dtype)
    pending = _dense(context, node, [Real(turned)], weights.laid(ints.reshape(ints.shape[-2:])))
    memory = present(pending.memory, "the result cannot be stored")
    laid = explicit(pending.shape, pending.order).reshape(memory)
    shape, laid = _transposed(pending.shape, laid, perm)
    return replace(pending, shape=shape, order=arrangement(shape, laid)[0], rebias=None)


def _transposed(
    shape: tuple[int, ...], laid: np.ndarray, perm: list[int]
) -> tuple[tuple[int, ...], np.ndarray]:
    """A file's shape and the row-major places of the elements in memory, after a Transpose."""
    index = file_index(shape).transpose(perm)
    places = np.empty(index.size, np.int64)
    places[index.ravel()] = np.arange(index.size)
    return index.shape, places[laid]


def _narrow_weights(context: Context, node: FileNode, args: Args, axis: int) -> Args:
    """Weights that do not fit int8 as several one after the other along the input's axis, and the
    input as many times."""
    parts = narrowed(args[1] if len(args) > 1 else None)
    if len(parts) < 2 or args[0] is None or parts[0].ints.ndim != 2:
        return args
    x = context.activation(args[0])
    index = np.concatenate([file_index(x.shape)] * len(parts), axis=-1)
    inner = replace(node, outputs=(f"{node.outputs[0]}/copies",))
    copies = context.activation(context.moved(inner, x, index))
    weights = replace(parts[0], ints=np.concatenate([part.ints for part in parts], axis=axis))
    return [Real(copies), weights, *args[2:]]


def _product(context: Context, node: FileNode, a: Activation, b: Activation) -> Pending:
    """Products of the matrices that the last two axes are."""
    require(min(len(a.shape), len(b.shape)) >= 2, f"cannot multiply {a.shape} and {b.shape}")
    lines, depth, columns = a.shape[-2], a.shape[-1], b.shape[-1]
    unfit = f"cannot multiply {list(a.shape)} and {list(b.shape)}"
    try:
        lead = np.broadcast_shapes(a.shape[:-2], b.shape[:-2])
    except ValueError as error:
        raise UnsupportedError(unfit, "use equal batches") from error
    require(b.shape[-2] == depth, unfit)
    batch = math.prod(lead)
    first, second = (
        np.broadcast_to(file_index(x.shape), (*lead, *x.shape[-2:])).reshape(batch, *x.shape[-2:])
        for x in (a, b)
    )
    left = context.arranged(a, first)
    at_hand = np.array_equal(laid_out(b).ravel(), second.ravel())
    right = context.arranged(b, second if at_hand else second.transpose(0, 2, 1))
    shape = (*lead, lines, columns)
    laid = file_index(shape).reshape(batch, lines, columns)

    def make(out: Tensor) -> Op:
        requant = float_scale(a, np.array([b.tensor.scale], np.float32), out, 1)
        return MatMul(requant, not at_hand)

    return result_of(node, a, (left, right), make, (shape, laid))


def _dense(context: Context, node: FileNode, args: Args, weights: Weights) -> Pending:
    """weights (N, K). Where the input is a flattened image, whose bytes lie channels last,
    the columns are permuted to match."""
    ints, scales = weights.ints, weights.scales
    require(ints.ndim == 2, f"the weights have {ints.ndim} dimensions")
    x = context.activation(args[0])
    count, depth = ints.shape
    fits = bool(x.shape) and x.shape[-1] == depth
    require(fits, f"the input is {list(x.shape)} and its weights are {depth} x {count}")
    if math.prod(x.shape[:-1]) == 1 and x.tensor.shape[2] == depth:
        # One row, whose elements may lie in another order: that of a flattened image.
        ints = ints[:, explicit(x.shape, x.order)]
        laid = file_index((*x.shape[:-1], count)).reshape(1, 1, count)
    else:
        lined = lines(x)
        x = Activation(context.arranged(x, lined), x.shape, lined.ravel(), x.dtype)
        laid = file_index((*x.shape[:-1], count)).reshape(*lined.shape[:2], count)
    weights = weights.laid(np.ascontiguousarray(ints))
    biases = bias_of(args, 2, x, scales, count, own_scale=False)
    form = (*x.shape[:-1], count), laid
    pending = _dense_pending(node, x, weights, biases, form)
    if len(args) > 2 and args[2] is not None:
        return pending

    def rebias(real: np.ndarray, name: str) -> Pending:
        biases = quantise_bias(real, np.float32(x.tensor.scale) * scales, count)
        return replace(_dense_pending(node, x, weights, biases, form), name=name)

    return replace(pending, rebias=rebias)


def _dense_pending(
    node: FileNode,
    x: Activation,
    weights: Weights,
    biases: np.ndarray,
    form: tuple[FileShape, np.ndarray],
) -> Pending:
    def make(out: Tensor) -> Op:
        requant = float_scale(x, weights.scales, out, len(weights.ints))
        return FullyConnected(weights.ints, biases, requant, weights.bits)

    return result_of(node, x, (x.tensor,), make, form)
