# SPDX-License-Identifier: Apache-2.0
"""Float and Boolean expressions of one int8 tensor, between DEQUANTIZE and QUANTIZE.

TensorFlow's converter leaves operators that it has no int8 kernel for in float. As long as all
that they compute depends on single elements of one int8 tensor, 256 values say everything: the
expression is worked out for each of them, and QUANTIZE, or SELECT, turns it into one table.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import tflite

from ...graph import Op, Tensor
from ...ops.binary import Binary
from ...ops.lookup import Lookup
from ...ops.requantize import Requantize
from ...ops.softmax import Softmax
from ...quant import INT8_MIN, FixedPoint
from ..common import KEEP_QUANTISATION, UnsupportedError, fixed_point, require
from ..movement import file_index
from ..softmax import log_range, log_softmax, onnx_table
from ..tables import BYTES, in_double, real_values
from . import wide
from .arrays import MOVERS
from .file import FileOp
from .fold import COMPARISONS
from .ops import ACTIVATIONS, RULES, SEVERAL_OUTPUTS, Derived, Importer, rule
from .tables import gelu, quantised_away

_ONE_TENSOR = "several tensors are combined in float or by a condition"
_KEEP_INT8 = "write it with operators that have int8 kernels; `vmcu inspect --operators` lists them"

_IN_FLOAT = (
    f"{KEEP_QUANTISATION} Where the converter leaves it in float all the same, as it does behind a "
    "function without an int8 kernel, put that function behind it"
)

FloatFunction = Callable[..., np.ndarray]
_double = in_double
# A bound of the time for a file with many conditions.
_LONGEST_CHAIN = 64


def _clipped(low: float, high: float) -> FloatFunction:
    return lambda x: np.clip(x, np.float32(low), np.float32(high))


def _logistic(x: np.ndarray) -> np.ndarray:
    """TensorFlow Lite, kernels/internal/reference/logistic.h."""
    grown = _double(np.exp)(np.minimum(-x, 80))
    usual = np.float32(1) / (np.float32(1) + grown)
    low = np.where(x < np.float32(-9), _double(np.exp)(np.minimum(x, 0)), usual)
    return np.where(x > np.float32(16.619047164916992188), np.float32(1), low)


def _hard_swish(x: np.ndarray) -> np.ndarray:
    return x * np.clip(x + np.float32(3), np.float32(0), np.float32(6)) / np.float32(6)


# float32 (256,) to float32 (256,), TensorFlow Lite Micro's float kernels.
_UNARY: dict[str, FloatFunction] = {
    "ABS": np.abs,
    "CEIL": np.ceil,
    "COS": _double(np.cos),
    "ELU": lambda x: np.where(x < 0, _double(np.expm1)(np.minimum(x, 0)), x),
    "EXP": _double(np.exp),
    "FLOOR": np.floor,
    "GELU": gelu,
    "HARD_SWISH": _hard_swish,
    "LOG": _double(np.log),
    "LOGICAL_NOT": np.logical_not,
    "LOGISTIC": _logistic,
    "NEG": np.negative,
    "RELU": _clipped(0, np.inf),
    "RELU6": _clipped(0, 6),
    "RELU_N1_TO_1": _clipped(-1, 1),
    "ROUND": np.rint,
    "RSQRT": lambda x: np.float32(1) / np.sqrt(x),
    "SIGN": np.sign,
    "SIN": _double(np.sin),
    "SQRT": np.sqrt,
    "SQUARE": np.square,
    "TANH": _double(np.tanh),
    "ZEROS_LIKE": np.zeros_like,
}
_BINARY: dict[str, tuple[FloatFunction, type | None]] = {
    "ADD": (np.add, tflite.AddOptions),
    "DIV": (np.divide, tflite.DivOptions),
    "FLOOR_DIV": (lambda a, b: np.floor(a / b), None),
    "LOGICAL_AND": (np.logical_and, None),
    "LOGICAL_OR": (np.logical_or, None),
    "MAXIMUM": (np.maximum, None),
    "MINIMUM": (np.minimum, None),
    "MUL": (np.multiply, tflite.MulOptions),
    "POW": (lambda a, b: _double(lambda x: np.power(x, np.float64(b)))(a), None),
    "PRELU": (lambda a, b: np.where(a >= 0, a, a * b), None),
    "SQUARED_DIFFERENCE": (lambda a, b: np.square(a - b), None),
    "SUB": (np.subtract, tflite.SubOptions),
    **{name: (function, None) for name, function in COMPARISONS.items()},
}
_SELECTS = ("SELECT", "SELECT_V2")
_SOFTMAX = ("SOFTMAX", "LOG_SOFTMAX")
TABULATED = frozenset({*_UNARY, *_BINARY, *_SELECTS, "LEAKY_RELU"})


def is_float(importer: Importer, op: FileOp) -> bool:
    """Whether an operator reads or writes other types than int8."""
    if op.op in TABULATED and op.op not in RULES:
        return True
    return any(i in importer.derived for i in op.inputs) and op.op != "QUANTIZE"


def float_operator(importer: Importer, op: FileOp) -> None:
    """The rule of all operators for which is_float() holds."""
    if op.op in _SELECTS:
        _select(importer, op)
    elif op.op in COMPARISONS and not any(i in importer.derived for i in op.inputs):
        _compare(importer, op)
    elif op.op in MOVERS:
        _move(importer, op)
    elif op.op in _SOFTMAX:
        _float_softmax(importer, op)
    elif op.op in SEVERAL_OUTPUTS:
        RULES[op.op](importer, op)
    else:
        _compute(importer, op)


def _arguments(
    importer: Importer, op: FileOp, constant: Callable[[Importer, FileOp, int], Any]
) -> tuple[Tensor, list[Any]]:
    """The tensor that all inputs are functions of, and for each the result of `constant` or its
    256 values."""
    places = [place for place, i in enumerate(op.inputs) if i >= 0]
    varying = [p for p in places if not importer.is_constant(op.inputs[p])]
    shape = importer.shape(op.outputs[0])
    source, values = _together(importer, [op.inputs[p] for p in varying], shape)
    by_place = dict(zip(varying, values, strict=True))
    return source, [by_place[p] if p in by_place else constant(importer, op, p) for p in places]


def _of_types(importer: Importer, op: FileOp, *kinds: str) -> None:
    for i in op.inputs:
        kind = importer.model.tensors[i].type if i >= 0 else kinds[0]
        reason = f"on {kind.lower()} it is not supported"
        require(kind in kinds, reason, KEEP_QUANTISATION)


def _compute(importer: Importer, op: FileOp) -> None:
    function = _function(op)
    _of_types(importer, op, "FLOAT32", "BOOL")
    source, given = _arguments(importer, op, _scalar)
    with np.errstate(all="ignore"):
        result = np.broadcast_to(function(*given), BYTES.shape)
    kind = np.bool_ if result.dtype == np.bool_ else np.float32
    importer.derived[op.outputs[0]] = Derived(source, result.astype(kind))


def _float_softmax(importer: Importer, op: FileOp) -> None:
    """A float softmax of dequantised values at the model's end, as int8 of a scale of its own."""
    derived, index = importer.derived[op.inputs[0]], op.outputs[0]
    last = index in importer.model.outputs and not any(
        index in o.inputs for o in importer.model.ops
    )
    require(last and derived.plain, "computes in float in the middle of the model", _IN_FLOAT)
    x, name = derived.source, importer.model.tensors[index].name
    kind: Op
    if op.op == "SOFTMAX":
        scale, zero = 1 / 256, INT8_MIN
        beta = op.options(tflite.SoftmaxOptions).Beta()
        kind = Softmax(onnx_table(beta * x.scale), True, scale)
    else:
        scale, zero = log_range(x.scale, x.shape[2])
        kind = log_softmax(x.scale, scale)
    # The name in the file is that of the float values.
    out = importer.builder.add_tensor(Tensor(f"{name}/int8", x.shape, scale, zero))
    importer.builder.add_node(name, kind, [x.name], out.name)
    importer.derived[index] = Derived(out, real_values(out), plain=True)


def _function(op: FileOp) -> FloatFunction:
    if op.op == "LEAKY_RELU":
        alpha = np.float32(op.options(tflite.LeakyReluOptions).Alpha())
        return lambda x: np.where(x > 0, x, x * alpha)
    if op.op == "GELU" and op.table is not None and op.options(tflite.GeluOptions).Approximate():
        raise UnsupportedError("the float form with tanh is not supported", _KEEP_INT8)
    if op.op in _UNARY:
        return _UNARY[op.op]
    known = op.op in _BINARY
    require(known, "computes in float in the middle of the model", _IN_FLOAT)
    function, options = _BINARY[op.op]
    if options is None or op.table is None:
        return function
    low, high = _limits(op.options(options))
    return lambda a, b: np.clip(function(a, b), np.float32(low), np.float32(high))


def _limits(options: Any) -> tuple[float, float]:
    activation = options.FusedActivationFunction()
    require(activation in ACTIVATIONS, f"fused activation {activation} is not supported")
    return ACTIVATIONS[activation]


def _constant_of(*kinds: str) -> Callable[[Importer, FileOp, int], Any]:
    def one(importer: Importer, op: FileOp, place: int) -> Any:
        constant = importer.constant(op, place, kinds, "constants")
        differ = "the constants differ from element to element, in float or by a condition"
        require(constant.values.size == 1, differ, _KEEP_INT8)
        return constant.values.ravel()[0]

    return one


_scalar = _constant_of("FLOAT32", "BOOL")


def _together(
    importer: Importer, indices: list[int], shape: tuple[int, ...]
) -> tuple[Tensor, list[np.ndarray]]:
    """The tensor that all of some tensors are functions of, and each one's 256 values."""
    require(len(indices) > 0, "all its inputs are constant", "fold them")
    same = all(importer.shape(i) == shape for i in indices)
    require(same, "a tensor is repeated along an axis, in float or by a condition", _KEEP_INT8)
    chains = [_chain(importer, i) for i in indices]
    for name in chains[0]:
        if all(name in chain for chain in chains):
            source = importer.builder.tensors[name]
            return source, [chain[name] for chain in chains]
    raise UnsupportedError(_ONE_TENSOR, _KEEP_INT8)


def _chain(importer: Importer, index: int) -> dict[str, np.ndarray]:
    """Maps each tensor that a tensor is a function of, nearest first, to the values for each of
    its bytes: the tensor itself, and the inputs of tables, factors and single constants in
    front."""
    if index in importer.derived:
        derived = importer.derived[index]
        x, values = derived.source, derived.values
    else:
        x, values = importer.activation(index), BYTES.astype(np.int8)
    chain = {x.name: values}
    tensors = importer.builder.tensors
    for _ in range(_LONGEST_CHAIN):
        node = importer.builder.producers.get(x.name)
        if node is None or len(node.inputs) != 1:
            break
        before = tensors[node.inputs[0]]
        if x.name not in importer.tables:
            importer.tables[x.name] = table_of(node.op, before, x)
        table = importer.tables[x.name]
        if table is None or before.shape != x.shape:
            break
        values = values[table.astype(np.int64) - INT8_MIN]
        x = before
        chain[x.name] = values
    return chain


def table_of(op: Op, x: Tensor, out: Tensor) -> np.ndarray | None:
    """Tabulates an operator for each of 256 values, int8, if it looks at one element alone."""
    if isinstance(op, Lookup):
        return op.table
    if isinstance(op, Requantize):
        values = BYTES if op.requant is None else _scaled(op.requant, BYTES - x.zero_point, out)
        return np.clip(values, op.act_min, op.act_max).astype(np.int8)
    if not isinstance(op, Binary) or op.constant is None or op.constant.size != 1:
        return None
    a = BYTES - x.zero_point
    b = op.constant.astype(np.int64).ravel()[0] - op.constant_zero
    if op.kind == "product":
        assert op.out is not None
        values = _scaled(op.out, a * b, out)
    elif op.kind in ("sum", "difference", "reversed"):
        assert op.a is not None and op.b is not None and op.out is not None
        a, b = op.a.apply(a << op.left_shift), op.b.apply(b << op.left_shift)
        joined = {"sum": a + b, "difference": a - b, "reversed": b - a}
        values = _scaled(op.out, joined[op.kind], out)
    elif op.kind in ("minimum", "maximum") and op.a is None:
        both = BYTES, op.constant.astype(np.int64).ravel()[0]
        values = np.minimum(*both) if op.kind == "minimum" else np.maximum(*both)
    else:
        return None
    return np.clip(values, op.act_min, op.act_max).astype(np.int8)


def _scaled(factor: FixedPoint, values: np.ndarray, out: Tensor) -> np.ndarray:
    return factor.apply(values) + out.zero_point


def _compare(importer: Importer, op: FileOp) -> None:
    """int8 operands in a common scale. TensorFlow Lite, micro/kernels/comparisons.cc, and
    kernels/internal/reference/comparisons.h, ComparisonWithScaling."""
    _of_types(importer, op, "INT8")
    source, given = _arguments(importer, op, _constant_of("INT8"))
    sides = []
    for q, i in zip(given, op.inputs, strict=True):
        tensor = importer.model.tensors[i]
        one = len(tensor.scales) == len(tensor.zero_points) == 1
        require(one, "the constants have no scale, or several", KEEP_QUANTISATION)
        centred = np.asarray(q, np.int64) - tensor.zero_points[0]
        sides.append(fixed_point(np.float64(tensor.scales[0]), 0).apply(centred << 8))
    result = np.broadcast_to(COMPARISONS[op.op](*sides), BYTES.shape)
    importer.derived[op.outputs[0]] = Derived(source, result)


def _select(importer: Importer, op: FileOp) -> None:
    """TensorFlow Lite takes int8 values without regard to scales."""
    require(len(op.inputs) == 3, f"{len(op.inputs)} inputs instead of three")
    index = op.outputs[0]
    real = importer.model.tensors[index].type == "FLOAT32"
    kinds = ("BOOL", "FLOAT32" if real else "INT8")
    _of_types(importer, op, *kinds)
    conditional = importer.model.tensors[op.inputs[0]].type == "BOOL"
    require(conditional, "the condition is not Boolean", KEEP_QUANTISATION)
    source, given = _arguments(importer, op, _constant_of(*kinds))
    values = np.broadcast_to(np.where(*given), BYTES.shape)
    if real:
        importer.derived[index] = Derived(source, values.astype(np.float32))
        return
    out = importer.activation(index)
    importer.emit(op, Lookup(values.astype(np.int8)), [source], out.shape)


def _move(importer: Importer, op: FileOp) -> None:
    """Elements of the int8 tensor move in place of the values computed from them."""
    derived = importer.derived[op.inputs[0]]
    places = file_index(importer.shape(op.inputs[0]))
    others = [
        importer.constant(op, place, ("INT32", "INT64"), "parameters").data
        for place in range(1, len(op.inputs))
    ]
    importer.move_derived(op, derived, MOVERS[op.op](op, places, *others))


@rule(
    "DEQUANTIZE",
    constraints="before a model output, or before float operators on single elements of one int8 "
    "tensor",
)
def _dequantize(importer: Importer, op: FileOp) -> None:
    x = importer.activation(op.inputs[0])
    values = real_values(x)
    importer.derived[op.outputs[0]] = Derived(x, values, plain=True)


@rule(
    "QUANTIZE",
    constraints="of a model input, of an int8, uint8 or int16 tensor, or after float operators on "
    "single elements of one int8 tensor; int16 and int32 only at the model's ends",
)
def _quantize(importer: Importer, op: FileOp) -> None:
    if wide.is_wide(importer.model, (*op.inputs, *op.outputs)):
        wide.requantised(importer, op)
        return
    out = importer.activation(op.outputs[0])
    derived = importer.derived.get(op.inputs[0])
    if derived is not None:
        table = Lookup(quantised_away(derived.values, out))
        importer.emit(op, table, [derived.source], out.shape)
        return
    x = importer.activation(op.inputs[0])
    factor = fixed_point(np.float64(x.scale) / np.float64(out.scale))
    importer.emit(op, Requantize(factor), [x], out.shape)
