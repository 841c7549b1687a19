# SPDX-License-Identifier: Apache-2.0
"""The arithmetic of ONNX Runtime's sums and products, on x86: which run in integers, and how."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace

import numpy as np

from ...graph import Tensor
from ...ops.binary import Binary
from ...quant import INT8_MAX, INT8_MIN, FloatProduct, FloatSum
from .. import tables
from ..common import KEEP_QUANTISATION, fixed_point, fixed_sum, require
from .context import Context
from .file import FileNode
from .input_scales import consumers
from .values import Activation, Args, Constant, QuantConstant, Real

_FOLD = (
    "run onnxruntime.quantization.shape_inference.quant_pre_process before quantising; it merges "
    "constants into the layer before"
)


@dataclass(frozen=True)
class Operator:
    """Add, Sub, Mul, Div, PRelu, Min or Max, its second operand first if `swapped`. ONNX Runtime
    computes with the int8 values plus `offset`: on x86 it converts int8 between QuantizeLinear and
    DequantizeLinear to uint8, but not a QOperator's operands."""

    op: str
    offset: int
    swapped: bool = False

    @staticmethod
    def of(node: FileNode, x: Activation, swapped: bool = False) -> Operator:
        unsigned = x.dtype == "uint8" or not node.qoperator
        return Operator(node.op, 128 if unsigned else 0, swapped)

    def sum(self, x: Tensor, operand: tuple[float, int], out: Tensor) -> FloatSum | None:
        """The sum of x and an operand, given its scale and zero point, unless factors are
        absurd."""
        scale, zero = operand
        scales, zeros = (x.scale, scale, out.scale), (x.zero_point, zero, out.zero_point)
        total = FloatSum.of(scales, zeros, self.offset)
        return total if total.usable else None


def binary_op(operator: Operator, x: Tensor, operand: tuple[float, int], out: Tensor) -> Binary:
    """The operator between x and an operand, given its scale and zero point."""
    op, swapped, (scale, zero) = operator.op, operator.swapped, operand
    if op == "Add":
        total = operator.sum(x, operand, out)
        if total is not None:
            return Binary("float_sum", sum=total)
    if op in ("Add", "Sub"):
        kind = "sum" if op == "Add" else "reversed" if swapped else "difference"
        return Binary(kind, **vars(fixed_sum(x.scale, scale, out.scale)))
    if op == "Mul":
        factor = np.float32(x.scale) * np.float32(scale) / np.float32(out.scale)
        require(bool(np.isfinite(factor)), "the scales are out of range", KEEP_QUANTISATION)
        return Binary("float_product", product=FloatProduct(float(factor), operator.offset))
    product = np.float64(x.scale) * np.float64(scale) / np.float64(out.scale)
    ratios = (np.float64(side) / np.float64(out.scale) for side in (x.scale, scale))
    a, b = (fixed_point(ratio) for ratio in ratios)
    if op == "PRelu":
        require(not swapped, "the slopes are not constant and the input is")
        return Binary("prelu", a=a, out=fixed_point(product))
    require(op in ("Min", "Max"), f"{op} of two activations is not supported")
    kind = "minimum" if op == "Min" else "maximum"
    same = {(x.scale, x.zero_point), (scale, zero)} == {(out.scale, out.zero_point)}
    return Binary(kind) if same else Binary(kind, a=a, b=b)


def as_int8(value: Constant | QuantConstant) -> QuantConstant:
    """A constant operand with one int8 scale; a float one is quantised here."""
    if isinstance(value, QuantConstant):
        require(value.is_int8, "the constant operand is not int8 with one scale", _FOLD)
        if value.ints.dtype == np.int8:
            return value
        ints = (value.ints.astype(np.int16) - 128).astype(np.int8)
        return replace(value, ints=ints, zero_point=value.zero_point.astype(np.int16) - 128)
    real = value.real()
    reach = float(np.abs(real).max()) if real.size else 0.0
    require(bool(np.isfinite(reach)), "the constant operand is not a number")
    scale = np.array([reach / 127 if reach > 0 else 1.0], np.float32)
    ints = np.clip(np.rint(real / scale), INT8_MIN, INT8_MAX).astype(np.int8)
    return QuantConstant(ints, scale, np.zeros(1, np.int64), 0)


def table_of_integers(
    context: Context, node: FileNode, args: Args
) -> Callable[[Tensor], np.ndarray | None] | None:
    """Curve.integers of a sum or a product of a dequantised activation with itself or with a
    number. Between DequantizeLinear and QuantizeLinear, ONNX Runtime fuses uint8 operands only, and
    does not convert int8 constants to uint8."""
    x = next((arg.activation for arg in args if isinstance(arg, Real)), None)
    known = all(isinstance(arg, (Real, QuantConstant)) for arg in args)
    if x is None or not known or node.op not in ("Add", "Mul"):
        return None
    constants = [arg for arg in args if isinstance(arg, QuantConstant)]
    unsigned = all(constant.ints.dtype == np.uint8 for constant in constants)
    if not node.qoperator and not (unsigned and _becomes_unsigned(context, x.tensor.name, x.dtype)):
        return None
    operator = Operator.of(node, x)
    sides = [as_int8(arg) if isinstance(arg, QuantConstant) else None for arg in args]
    if any(isinstance(arg, Real) and arg.activation is not x for arg in args):
        return None

    def of_output(out: Tensor) -> np.ndarray | None:
        if not node.qoperator and not _becomes_unsigned(context, out.name, x.dtype):
            return None
        q = np.arange(INT8_MIN, INT8_MAX + 1)
        values = [q if s is None else np.full_like(q, int(s.ints.ravel()[0])) for s in sides]
        own = x.tensor.scale, x.tensor.zero_point
        pairs = [own if s is None else (float(s.scale[0]), int(s.zero_point[0])) for s in sides]
        first = replace(x.tensor, scale=pairs[0][0], zero_point=pairs[0][1])
        op = binary_op(operator, first, pairs[1], out)
        if op.sum is not None:
            return op.sum.apply(*values)
        if op.product is not None:
            product = (values[0] - pairs[0][1]) * (values[1] - pairs[1][1])
            return op.product.apply(product, out.zero_point)
        real = [(v - z) * s for v, (s, z) in zip(values, pairs, strict=True)]
        return tables.quantised(sum(real[1:], real[0]).astype(np.float32), out)

    return of_output


def _becomes_unsigned(context: Context, name: str, dtype: str) -> bool:
    """Whether ONNX Runtime computes with a quantised tensor as uint8 on x86: it converts int8 where
    one DequantizeLinear with one reader is all that reads the tensor."""
    if dtype == "uint8":
        return True
    read = consumers(context.model, name, ())
    if [node.op for node in read] != ["DequantizeLinear"] or read[0].inputs[0] != name:
        return False
    real = read[0].outputs[0]
    shown = [value.name for value in context.model.outputs]
    return name not in shown and len(consumers(context.model, real, ())) + shown.count(real) == 1
