# SPDX-License-Identifier: Apache-2.0
"""Import rules for QOperator models.

QLinearX(x, x_scale, x_zero_point, ..., y_scale, y_zero_point) means X between DequantizeLinear
and QuantizeLinear, so each rule takes its inputs apart accordingly and leaves X to its own rule.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from ..common import UnsupportedError, present, require
from .context import Context, outputs, rule
from .file import FileNode
from .quantize import dequantise, quantisation
from .values import Args, Constant, QuantConstant, Real, Value, operand


@dataclass(frozen=True)
class _Form:
    """The layout of a QOperator's inputs: (value, scale, zero point) triples start at
    `operands`, at all places behind the result's if there are none; the output's scale and zero
    point at `result`; `axis` is that of the weights' scales by attributes."""

    op: str
    operands: tuple[int, ...]
    result: int
    bias: int | None = None
    axis: Callable[[Mapping[str, Any]], int] = lambda given: 1

    def starts(self, count: int) -> Sequence[int]:
        """The places of the operands among so many inputs."""
        return self.operands or range(self.result + 2, count, 3)


FORMS = {
    "QLinearConv": _Form("Conv", (0, 3), 6, bias=8, axis=lambda given: 0),
    "QLinearMatMul": _Form("MatMul", (0, 3), 6),
    "com.microsoft.QLinearAdd": _Form("Add", (0, 3), 6),
    "com.microsoft.QGemm": _Form(
        "Gemm", (0, 3), 7, bias=6, axis=lambda given: 0 if given.get("transB") else 1
    ),
    "com.microsoft.QLinearConcat": _Form("Concat", (), 0),
    "com.microsoft.QLinearAveragePool": _Form("AveragePool", (0,), 3),
    "com.microsoft.QLinearGlobalAveragePool": _Form("GlobalAveragePool", (0,), 3),
    "com.microsoft.QLinearLeakyRelu": _Form("LeakyRelu", (0,), 3),
    "com.microsoft.QLinearMul": _Form("Mul", (0, 3), 6),
    "com.microsoft.QLinearSigmoid": _Form("Sigmoid", (0,), 3),
    "com.microsoft.QLinearSoftmax": _Form("Softmax", (0,), 3),
}


@rule(*FORMS, constraints={op: f"as {form.op}; no channels_last" for op, form in FORMS.items()})
def _qlinear(context: Context, node: FileNode, args: Args) -> Value:
    form = FORMS[node.op]
    require(not node.attributes.get("channels_last"), "channels-last layout is not supported")
    starts, axis = form.starts(len(args)), form.axis(node.attributes)
    require(bool(starts), "an operand is missing")
    args = [*args, *[None] * 9]
    operands = [_operand(context, args, start, axis) for start in starts]
    bias = None if form.bias is None else args[form.bias]
    if bias is not None:
        operands.append(_bias(bias, operands))
    scale, zero_point = (context.constant(args, form.result + n, "scale") for n in (0, 1))
    value, zero, dtype = quantisation(scale, zero_point)
    name = node.outputs[0]
    # The float result never exists; it must not be mistaken for the int8 one.
    inner = replace(node, op=form.op, outputs=(f"{name}/float",), qoperator=True)
    return context.quantise(outputs(context, inner, operands)[0], value, zero, name, dtype)


def _operand(context: Context, args: Args, start: int, axis: int) -> Value:
    value = operand(args[start], "an operand is missing")
    scale = present(context.constant(args, start + 1, "scale"), "a scale is missing")
    return dequantise(value, scale, context.constant(args, start + 2, "zero point"), axis)


def _bias(value: Value, operands: list[Value]) -> Value:
    """int32 biases have no scale of their own: it is that of the product."""
    x, weights = operands
    if not isinstance(value, Constant):
        raise UnsupportedError("the biases are not constant", "freeze the model")
    if not (isinstance(x, Real) and isinstance(weights, QuantConstant)):
        raise UnsupportedError("the weights are not constant")
    product = np.float32(x.activation.tensor.scale) * weights.scale
    return QuantConstant(value.array, product, np.zeros(1, np.int64), 0)
