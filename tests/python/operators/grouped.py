# SPDX-License-Identifier: Apache-2.0
"""Fully connected layers with a scale for each group of weights."""

from __future__ import annotations

import math
from typing import Any

import ml_dtypes
import numpy as np
from builders.onnx_models import Layer, OnnxModel
from random_builder import Builder
from random_onnx import OperatorNetwork
from vmcu_tools.graph import Tensor
from vmcu_tools.ops.grouped import COARSE, FINE, GroupedDense
from vmcu_tools.quant import FloatScale


def layer(b: Builder) -> Tensor:
    groups, size = b.pick(1, 2, 5), b.pick(16, 32)
    x, cout = b.input((b.pick(1, 3), b.pick(1, 2, 4), groups * size)), b.pick(1, 3, 4, 10)
    fine = bool(b.rng.random() < 0.4)
    most = FINE if fine else COARSE
    weights = b.rng.integers(-8, 8, (cout, groups * size)).astype(np.int8)
    multipliers = b.rng.integers(0, most + 1, (cout, groups))
    typical = 60.0 / (75 * 4 * (most / (256 if fine else 1)) * np.sqrt(groups * size))
    scale = typical * np.exp(b.rng.uniform(-1.5, 1.5, cout))
    requant = FloatScale(scale.astype(np.float32))
    zeros, bits = None, b.pick(4, 4, 8)
    if bits == 8:
        weights = b.rng.integers(-128, 128, weights.shape).astype(np.int8)
        requant = FloatScale((scale / 16).astype(np.float32))
    if bits == 8 or b.rng.random() < 0.5:
        zeros = b.rng.integers(-128, 129, (cout, groups)) * bits // 8
    op = GroupedDense(weights, multipliers, b.bias(cout), requant, fine, zeros, bits, **b.limits())
    return b.node(op, [x], (*x.shape[:2], cout))


def scales(rng: np.random.Generator, shape: tuple[int, int], exact: bool) -> np.ndarray:
    """float32 (N, groups), by channel multiples of a unit or not."""
    if not exact:
        return rng.uniform(0.001, 0.02, shape).astype(np.float32)
    multiples = rng.integers(1, COARSE + 1, shape)
    multiples[:, 0] = COARSE
    unit = rng.uniform(0.01, 0.02, (shape[0], 1)).astype(np.float32) / COARSE
    return (multiples * unit).astype(np.float32)


def packed(weights: np.ndarray) -> np.ndarray:
    """Of 0 .. 15 (N, n), n even, two to a byte, the first one in the lower half."""
    found: np.ndarray = (weights[:, 0::2] | weights[:, 1::2] << 4).astype(np.uint8)
    return found


def n_bits(depth: int, count: int, block: int, **more: Any) -> Layer:
    """MatMulNBits. bits: 4 or 8; exact: of scales; zeros: "" or a dtype of zero points; bias:
    whether it has one; accuracy: its attribute accuracy_level."""

    def build(m: OnnxModel, x: str, scale: float):
        blocks, bits = -(-depth // block), more.get("bits", 4)
        weights = m.rng.integers(0, 1 << bits, (count, blocks * block))
        of_blocks = scales(m.rng, (count, blocks), more.get("exact", True))
        whole = packed(weights) if bits == 4 else weights.astype(np.uint8)
        given = [whole.reshape(count, blocks, -1), of_blocks.ravel()]
        inputs = [x, *(m.constant(array) for array in given)]
        if zeros := more.get("zeros"):
            points = m.rng.integers(0, 1 << bits, (count, blocks + blocks % 2))
            halves = zeros == "uint8" and bits == 4
            points = packed(points) if halves else points[:, :blocks]
            inputs.append(m.constant(points.astype(zeros).ravel()))
        if more.get("bias"):
            inputs += [""] * (5 - len(inputs))
            inputs.append(m.constant(m.rng.normal(size=count).astype(np.float32)))
        attributes = {"K": depth, "N": count, "block_size": block, "bits": bits}
        if "accuracy" in more:
            attributes["accuracy_level"] = more["accuracy"]
        y = m.node("MatMulNBits", inputs, "com.microsoft", **attributes)
        wide = 16 if bits == 8 else 2 if more.get("zeros") else 1
        return y, scale * 0.01 * np.sqrt(depth) * 4 * wide

    return build


def blocked(op: str, depth: int, count: int, block: int, **more: Any) -> Layer:
    """MatMul, Gemm or Conv of dequantised weights. turned: weights are (N, K), behind them a
    Transpose for MatMul; dtype: of weights, which have zero points if it is unsigned; kernel and
    window: the size and the other attributes of a convolution's window."""

    def build(m: OnnxModel, x: str, scale: float):
        turned = more.get("turned", op == "Conv")
        tail = more.get("kernel", (1, 1) if op == "Conv" else ())
        kind = np.dtype(more.get("dtype", ml_dtypes.int4))
        least, most = int(ml_dtypes.iinfo(kind).min), int(ml_dtypes.iinfo(kind).max)
        weights = m.rng.integers(least, most + 1, (count, depth, *tail))
        shape = (count, -(-depth // block), *tail)
        of_blocks = scales(m.rng, (count, math.prod(shape[1:])), more.get("exact", True))
        zeros = m.rng.integers(0, most + 1, shape) if least == 0 else np.zeros(shape)
        given = [weights.astype(kind), of_blocks.reshape(shape), zeros.astype(kind)]
        given = given if turned else [array.T for array in given]
        names = [m.constant(array) for array in given]
        axis = 1 if turned else 0
        inputs = [x, m.node("DequantizeLinear", names, axis=axis, block_size=block)]
        if op == "MatMul" and turned:
            inputs[1] = m.node("Transpose", [inputs[1]], perm=[1, 0])
        bias = m.rng.normal(size=count).astype(np.float32) if more.get("bias") else None
        if bias is not None and op != "MatMul":
            inputs.append(m.constant(bias))
        attributes = {"transB": int(turned)} if op == "Gemm" else more.get("window", {})
        y = m.node(op, inputs, **attributes)
        if bias is not None and op == "MatMul":
            y = m.node("Add", [y, m.constant(bias)])
        wide = (most - least) / 15 * (1 if least else 2)
        return y, scale * 0.01 * np.sqrt(depth * math.prod(tail)) * 4 * wide

    return build


CASES = {
    "MatMulNBits": ((1, 64), n_bits(64, 9, 32)),
    "MatMulNBits of lines": ((1, 3, 96), n_bits(96, 6, 16, exact=False, zeros="uint8", bias=True)),
    "MatMulNBits, a short last block": ((2, 48), n_bits(48, 5, 32, zeros="float32")),
    "MatMulNBits, 8 bits": ((2, 75), n_bits(75, 5, 16, bits=8)),
    "MatMulNBits, 8 bits, zero points": ((1, 64), n_bits(64, 6, 32, bits=8, zeros="uint8")),
}


def drawn(n: OperatorNetwork, domain: str, op: str) -> list[str]:
    depth, block = n.pick(32, 48, 61, 128), n.pick(16, 32, 64)
    more = {"exact": n.coin(), "zeros": n.of("", "uint8"), "bias": n.coin(), "bits": n.pick(4, 8)}
    shape = (n.pick(1, 3), depth)
    x = n.input(shape)
    return [n_bits(depth, n.pick(1, 4, 7), block, **more)(n.m, x, n.scale_of(x))[0]]


DRAWERS = {"com.microsoft.MatMulNBits": drawn}
