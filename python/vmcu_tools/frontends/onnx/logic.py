# SPDX-License-Identifier: Apache-2.0
"""Import rules for comparisons, truth values and Where. Truth is 1 and 0 in float: between layers
it is always a function of one activation, so that it ends in that activation's table."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

import numpy as np
import onnx

from ...graph import Op, Tensor
from ...ops.binary import Binary
from ...ops.requantize import Requantize
from ..common import UnsupportedError, fixed_point, present, require
from . import values
from .context import Context, rule
from .elementwise import FLOAT, curve, one_curve, plus_constant
from .file import FileNode
from .functions import UNARY

_COMPARE: dict[str, Callable[[np.ndarray, np.ndarray], np.ndarray]] = {
    "Greater": np.greater,
    "GreaterOrEqual": np.greater_equal,
    "Less": np.less,
    "LessOrEqual": np.less_equal,
    "Equal": np.equal,
    "And": np.logical_and,
    "Or": np.logical_or,
    "Xor": np.logical_xor,
}
# All operators that work on each element on its own: of one activation they make a function.
FUNCTIONS = frozenset({*UNARY, *FLOAT, *_COMPARE, "Cast", "Clip", "Not", "Relu", "Where"})
_ONE = "compare within a function of one tensor only"


@rule(
    *_COMPARE, constraints="operands must be functions of the same int8 tensor, or scalar constants"
)
def _compare(context: Context, node: FileNode, args: values.Args) -> values.Value:
    constants = [values.constant_of(arg) for arg in args]
    compared = one_curve(context, args, constants, lambda a, b: _COMPARE[node.op](a, b))
    return present(
        compared, "comparing two activations, or one with an array, is not supported", _ONE
    )


@rule("Not", constraints="operand must be a function of one int8 tensor")
def _not(context: Context, node: FileNode, args: values.Args) -> values.Value:
    constants = [values.constant_of(arg) for arg in args]
    curve = one_curve(context, args, constants, np.logical_not)
    return present(curve, "the input is not a function of one activation", _ONE)


@rule(
    "Where",
    constraints="operands must be functions of the same int8 tensor, or scalar constants; "
    "otherwise a constant condition and one constant operand that does not change the shape",
)
def _where(context: Context, node: FileNode, args: values.Args) -> values.Value:
    require(len(args) == 3, f"{len(args)} inputs are not supported")
    constants = [values.constant_of(arg) for arg in args]
    curve = one_curve(context, args, constants, _chosen)
    if curve is not None:
        return curve
    condition, first, second = constants
    condition = present(condition, "the condition is computed from another activation", _ONE)
    if first is None and second is not None:
        mask = np.not_equal(condition, 0)
        return _masked(context, node, context.activation(args[1]), mask, second)
    if first is not None and second is None:
        mask = np.equal(condition, 0)
        return _masked(context, node, context.activation(args[2]), mask, first)
    raise UnsupportedError("a choice between two activations is not supported", _ONE)


def _chosen(condition: np.ndarray, first: np.ndarray, second: np.ndarray) -> np.ndarray:
    return np.where(np.not_equal(condition, 0), first, second)


@rule("Trilu", constraints="constant diagonal")
def _triangle(context: Context, node: FileNode, args: values.Args) -> values.Value:
    x = context.activation(args[0])
    shift = context.constant(args, 1, "diagonal")
    k = 0 if shift is None else int(shift.ravel()[0])
    keep = np.triu if node.attributes.get("upper", 1) else np.tril
    mask = keep(np.ones(x.shape, np.bool_), k)
    return _masked(context, node, x, mask, np.zeros(1))


@rule("Cast", constraints="an int8 or uint8 tensor: to its own type only")
def _cast(context: Context, node: FileNode, args: values.Args) -> values.Value:
    value = values.operand(args[0])
    kind = onnx.helper.tensor_dtype_to_np_dtype(int(node.attributes.get("to", 1)))
    if isinstance(value, values.Activation):
        # PyTorch's exporter says it of every quantised tensor.
        require(kind == value.dtype, f"cannot cast {value.dtype} to {kind}")
        return value
    if isinstance(value, values.Indices):
        require(kind in (np.int32, np.int64), f"cannot cast {value.dtype} to {kind}")
        return replace(value, dtype=str(kind))
    if not isinstance(value, values.Curve) and kind.kind == "f":
        return value
    x = curve(context, value)
    if kind.kind == "f":
        return x
    return replace(x, real=(x.real != 0 if kind.kind == "b" else np.trunc(x.real)))


def _masked(
    context: Context, node: FileNode, x: values.Activation, mask: np.ndarray, other: np.ndarray
) -> values.Pending:
    """x where `mask` is true, else the constant: x times 0 or 1, plus the constant or 0."""
    shape = np.broadcast_shapes(x.shape, mask.shape, other.shape)
    require(shape == x.shape, f"the constants change the shape {list(x.shape)} to {list(shape)}")
    laid = values.laid_out(x)
    kept = np.broadcast_to(mask, shape).ravel()[laid]
    real = np.where(kept, 0, np.broadcast_to(other, shape).ravel()[laid]).astype(np.float32)
    require(bool(np.isfinite(real).all()), "the constant is not a number", "use a finite one")
    name = f"{node.outputs[0]}/kept"
    unit = fixed_point(np.float64(1))
    op = Binary("product", out=unit, constant=kept.astype(np.int8))
    cut = context.builder.add_tensor(replace(x.tensor, name=name))
    context.builder.add_node(node.name, op, [x.tensor.name], name)

    def make(out: Tensor) -> Op:
        same = (out.scale, out.zero_point) == (cut.scale, cut.zero_point)
        if same and not real.any():
            return Requantize(None)
        return plus_constant(cut, real, out)

    return values.result_of(node, x, (cut,), make, (x.shape, laid))
