# SPDX-License-Identifier: Apache-2.0
"""Import rules for normalisations, each of which is one LayerNorm of the graph: the elements that
are normalised together become the channels of a pixel."""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np

from ...graph import Op, Tensor
from ...ops.layer_norm import LayerNorm
from ...ops.rms_norm import RmsNorm, fits
from ..common import KEEP_QUANTISATION, axis_of, present, require
from ..movement import file_index
from . import values
from .context import Context, rule
from .file import FileNode


@dataclass(frozen=True, eq=False)
class _Factors:
    """float64 gain and offset, one for every `run` neighbours in memory; the real epsilon, and the
    scale that the input is read with."""

    gain: np.ndarray
    offset: np.ndarray
    epsilon: float
    scale: float
    centred: bool = True
    run: int = 1


def _normalised(
    context: Context, node: FileNode, x: values.Activation, laid: np.ndarray, factors: _Factors
) -> values.Pending:
    """x as `laid`, (H, W, C) of row-major places, with the C elements of each pixel normalised."""
    require(
        len(node.outputs) == 1 or not any(node.outputs[1:]), "further outputs are not supported"
    )
    finite = bool(np.isfinite(factors.gain).all() and np.isfinite(factors.offset).all())
    epsilon = factors.epsilon
    require(finite and math.isfinite(epsilon) and epsilon >= 0, "a factor is not finite")
    count = laid.shape[2]
    require(count < 1 << 16, f"{count} elements are normalised; the maximum is {(1 << 16) - 1}")
    tensor = context.arranged(x, laid)
    largest = max(float(np.abs(factors.gain).max()), float(np.abs(factors.offset).max()), 1e-30)

    def make(out: Tensor) -> Op:
        if (exact := _exact(factors, count, out.scale)) is not None:
            return exact
        bits = min(22, 29 - math.ceil(math.log2(largest / out.scale)))
        require(bits >= 1, "the factors are far above its output's scale", KEEP_QUANTISATION)
        unit = 2.0**bits / out.scale
        spread, fraction = _fixed(epsilon * count * count / factors.scale**2, count)
        return LayerNorm(
            np.rint(factors.gain * unit).astype(np.int32),
            np.rint(factors.offset * unit).astype(np.int32),
            bits,
            spread,
            factors.centred,
            factors.run,
            fraction,
        )

    natural = _bounds(factors, count)
    return values.result_of(node, x, (tensor,), make, (x.shape, laid), natural=natural)


def _exact(factors: _Factors, count: int, scale: float) -> RmsNorm | None:
    """The norm as float32 computes it, if the order of its sum makes no difference: of integers, or
    of those times a power of two; scale: of the output."""
    if factors.centred or factors.run != 1 or factors.offset.any():
        return None
    gain = factors.gain.astype(np.float32)
    epsilon = factors.epsilon / factors.scale**2
    exact = math.frexp(factors.scale)[0] == 0.5 and fits(count, gain, epsilon, scale)
    return RmsNorm(gain, epsilon) if exact else None


def _bounds(factors: _Factors, count: int) -> tuple[float, int]:
    """Scale and zero point that hold every result: no normalised element is above the root of
    their count."""
    reach = np.abs(factors.gain) * math.sqrt(count)
    largest = float((reach + np.abs(factors.offset)).max())
    return max(largest, 1e-30) / 127, 0


def _fixed(epsilon: float, count: int) -> tuple[int, int]:
    """An epsilon in units of an integer variance of `count` bytes, and its even number of
    fractional bits: as many as leave the sum of both below 2**62."""
    # The variance of bytes is at least one where it is not zero, and below (256 * count)**2.
    most = math.ceil(math.log2(max(256.0 * count * 256.0 * count, epsilon + 1)))
    fraction = 0 if epsilon == 0 else max(min(16, 60 - most) // 2 * 2, 0)
    return min(round(epsilon * 2.0**fraction), 1 << 60), fraction


def _lines(x: values.Activation, axis: int) -> np.ndarray:
    """(H, W, C) of row-major places with the axes from `axis` on as the channels."""
    count = math.prod(x.shape[axis:])
    rank = len(x.shape)
    rows = file_index(x.shape).reshape(
        values.matrices(x.shape) if axis == rank - 1 else (-1, 1, count)
    )
    return values.laid_out(x) if _is_line(values.laid_out(x), count) else rows


def _is_line(laid: np.ndarray, count: int) -> bool:
    """Whether each pixel holds `count` neighbours of the file."""
    steps = np.diff(laid, axis=2)
    return laid.shape[2] == count and bool(
        (steps == 1).all() and (laid[:, :, 0] % count == 0).all()
    )


def _epsilon(node: FileNode, default: float = 1e-5) -> float:
    return float(node.attributes.get("epsilon", default))


def _factor(
    context: Context, args: values.Args, place: int, shape: tuple[int, ...], default: float
) -> np.ndarray:
    """A constant operand, or `default` if it is absent, float64 of `shape`."""
    array = context.constant(args, place, "scale or offset")
    if array is None:
        return np.full(shape, default)
    require(array.ndim <= len(shape), f"the factors have the shape {list(array.shape)}")
    return np.broadcast_to(array.astype(np.float64), shape)


@rule(
    "LayerNormalization",
    "RMSNormalization",
    "SimplifiedLayerNormalization",
    constraints="constant factors; at most 65,535 elements per group; one output",
)
def _layer_normalization(context: Context, node: FileNode, args: values.Args) -> values.Value:
    given = args[0]
    x = given.activation if isinstance(given, values.Rescaled) else context.activation(given)
    axis = axis_of(int(node.attributes.get("axis", -1)), len(x.shape))
    shape = x.shape[axis:]
    gain, offset = _factor(context, args, 1, shape, 1), _factor(context, args, 2, shape, 0)
    centred = node.op == "LayerNormalization"
    scale = given.scale if isinstance(given, values.Rescaled) else x.tensor.scale
    factors = _Factors(gain.ravel(), offset.ravel(), _epsilon(node), scale, centred)
    return _normalised(context, node, x, _lines(x, axis), factors)


@rule(
    "GroupNormalization",
    "InstanceNormalization",
    constraints="3-D or more, batch 1; constant factors; at most 65,535 elements per group; one "
    "output",
)
def _group_normalization(context: Context, node: FileNode, args: values.Args) -> values.Value:
    """(1, C, ...) with all elements of a group of channels normalised, or of a channel."""
    x = context.activation(args[0])
    require(len(x.shape) > 2 and x.shape[0] == 1, f"unsupported input shape {list(x.shape)}")
    channels, run = x.shape[1], math.prod(x.shape[2:])
    groups = int(node.attributes.get("num_groups", 0))
    if node.op == "InstanceNormalization":
        groups = channels
    fits = groups > 0 and channels % groups == 0
    require(fits, f"cannot form {groups} groups from {list(x.shape)}")
    gain, offset = (context.constant(args, place, "scale") for place in (1, 2))
    unfit = f"the factors do not match {channels} channels"
    gain, offset = present(gain, unfit), present(offset, unfit)
    require(gain.size == offset.size and gain.size in (groups, channels), unfit)
    # GroupNormalization had a factor for each group up to opset 20.
    gain, offset = (
        np.repeat(array.ravel(), channels // array.size).astype(np.float64)
        for array in (gain, offset)
    )
    factors = _Factors(gain, offset, _epsilon(node), x.tensor.scale, True, run)
    return _normalised(context, node, x, file_index(x.shape).reshape(groups, 1, -1), factors)


@rule("LpNormalization", constraints="order 2; at most 65,535 elements")
def _lp_normalization(context: Context, node: FileNode, args: values.Args) -> values.Value:
    x = context.activation(args[0])
    axis = axis_of(int(node.attributes.get("axis", -1)), len(x.shape))
    order = int(node.attributes.get("p", 2))
    require(order == 2, f"unsupported norm of order {order}", "use order 2")
    count = x.shape[axis]
    at_hand = x.order is None and values.is_image(x.shape) and axis == 1
    turned = np.moveaxis(file_index(x.shape), axis, -1)
    rows = values.laid_out(x) if at_hand else turned.reshape(values.matrices(turned.shape))
    gain = np.full(count, 1 / math.sqrt(count))
    return _normalised(
        context, node, x, rows, _Factors(gain, np.zeros(count), 0.0, x.tensor.scale, False)
    )
