# SPDX-License-Identifier: Apache-2.0
"""Constant folding of the parts of a file that depend on shapes alone, before any rule looks at it.

A model that is converted with its batch left open, as Keras does unless told otherwise, asks for
its tensors' shapes while it runs and reshapes by them. With a batch of one all of this is known:
the operators disappear, their results become constants, and shapes that the converter did not
know are worked out.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass, replace

import numpy as np
import tflite

from ..common import (
    MAX_MOVED_ELEMENTS,
    MAX_TENSOR_BYTES,
    PARSE_ERRORS,
    UnsupportedError,
    axis_of,
    require,
)
from .arrays import MOVERS, limit, numbers
from .file import FileModel, FileOp, FileTensor
from .shapes import broadcast

# The errors of constants that make no sense together. Nothing is folded then, and the rule of the
# operator, or of one that reads it, reports the fault.
_NONSENSE = (UnsupportedError, *PARSE_ERRORS)
_WHOLE = ("INT32", "INT64", "BOOL")

COMPARISONS = {"EQUAL": np.equal, "GREATER": np.greater, "GREATER_EQUAL": np.greater_equal}
COMPARISONS |= {"LESS": np.less, "LESS_EQUAL": np.less_equal, "NOT_EQUAL": np.not_equal}

Fold = Callable[..., np.ndarray]


@dataclass(frozen=True, eq=False)
class Folded:
    """The model without the operators at `dropped`, and the tensors that are not as in the file:
    `constants` that the dropped ones computed, and those with another shape."""

    model: FileModel
    dropped: tuple[int, ...]
    constants: tuple[int, ...]
    reshaped: tuple[int, ...]


@dataclass
class _Budget:
    """Elements that may be looked at or made, so that a small file cannot keep a computer busy."""

    left: int = MAX_MOVED_ELEMENTS

    def allows(self, elements: int) -> bool:
        self.left -= elements
        return self.left >= 0


def fold(model: FileModel) -> Folded:
    """Never raises: operators that cannot be folded stay as they are in the file."""
    tensors, ops = list(model.tensors), []
    dropped: list[int] = []
    constants: set[int] = set()
    reshaped: set[int] = set()
    budget = _Budget()
    for number, op in enumerate(model.ops):
        values = _values(op, tensors, budget)
        if values is not None:
            index = op.outputs[0]
            dtype = np.int32 if tensors[index].type == "INT32" else values.dtype
            values = np.array(values, dtype)
            tensors[index] = replace(tensors[index], shape=values.shape, dynamic=False, data=values)
            dropped.append(number)
            constants.add(index)
            continue
        ops.append(op)
        shape = _shape(op, tensors, reshaped, budget)
        if shape is not None:
            index = op.outputs[0]
            if shape != tensors[index].shape:
                reshaped.add(index)
            tensors[index] = replace(tensors[index], shape=shape, dynamic=False)
    result = replace(model, tensors=tuple(tensors), ops=tuple(ops))
    return Folded(result, tuple(dropped), tuple(constants), tuple(reshaped))


def _values(op: FileOp, tensors: list[FileTensor], budget: _Budget) -> np.ndarray | None:
    """Computes an operator on constants, None if it is none of those that are folded."""
    if len(op.outputs) != 1 or op.outputs[0] < 0:
        return None
    given = [tensors[i] for i in op.inputs if i >= 0]
    if op.op == "SHAPE" and len(given) == 1 and not given[0].dynamic:
        return np.array(given[0].shape, np.int32)
    whole = tensors[op.outputs[0]].type in _WHOLE
    if not whole and op.op != "FILL":
        return None
    if not given or any(tensor.data is None for tensor in given):
        return None
    if not budget.allows(sum(tensor.values.size for tensor in given)):
        return None
    return _try(op, [tensor.values for tensor in given], budget)


def _try(op: FileOp, arrays: list[np.ndarray], budget: _Budget) -> np.ndarray | None:
    function = _NUMBERS.get(op.op) or MOVERS.get(op.op)
    if function is None:
        return None
    try:
        result = function(op, *arrays)
    except _NONSENSE:
        return None
    return result if budget.allows(result.size) else None


def _shape(
    op: FileOp, tensors: list[FileTensor], reshaped: set[int], budget: _Budget
) -> tuple[int, ...] | None:
    """The shape of an operator's only output, where the file's is not known or not to be trusted,
    as that of an input was not."""
    if len(op.outputs) != 1 or op.outputs[0] < 0:
        return None
    known = not tensors[op.outputs[0]].dynamic and reshaped.isdisjoint(op.inputs)
    if known and op.op != "RESHAPE":
        return None
    given = [tensors[i] for i in op.inputs if i >= 0]
    if not given or any(tensor.dynamic for tensor in given):
        return None
    # Arrays that have a shape and take no memory.
    arrays = [
        np.broadcast_to(np.int8(0), tensor.shape) if tensor.data is None else tensor.data
        for tensor in given
    ]
    if max(math.prod(tensor.shape) for tensor in given) > MAX_TENSOR_BYTES:
        return None
    function = _SHAPES.get(op.op)
    try:
        if function is not None:
            return function(op, *(array.shape for array in arrays))
    except _NONSENSE:
        return None
    moved = _try(op, arrays, budget) if op.op in MOVERS or op.op in _JOINERS else None
    return None if moved is None else moved.shape


def _joining(function: Callable[..., np.ndarray], options: type) -> Fold:
    def join(op: FileOp, *parts: np.ndarray) -> np.ndarray:
        limit(sum(part.size for part in parts))
        return function(parts, op.options(options).Axis())

    return join


def _filled(op: FileOp, shape: np.ndarray, value: np.ndarray) -> np.ndarray:
    limit(math.prod(numbers(shape)))
    return np.full(numbers(shape), value.ravel()[0], value.dtype)


def _ranged(op: FileOp, start: np.ndarray, end: np.ndarray, step: np.ndarray) -> np.ndarray:
    bounds = [numbers(v)[0] for v in (start, end, step)]
    values = range(*bounds)
    limit(len(values))
    return np.array(values, start.dtype)


def _whole_arithmetic(function: Callable[[np.ndarray, np.ndarray], np.ndarray]) -> Fold:
    def fold_two(op: FileOp, a: np.ndarray, b: np.ndarray) -> np.ndarray:
        limit(math.prod(np.broadcast_shapes(a.shape, b.shape)))
        require(a.dtype.itemsize > 2 and a.dtype.kind == "i", "the numbers are not whole")
        return function(a.astype(np.int64), b.astype(np.int64))

    return fold_two


def _whole_reduction(function: Callable[..., np.ndarray]) -> Fold:
    def fold_axes(op: FileOp, x: np.ndarray, axes: np.ndarray) -> np.ndarray:
        keep = bool(op.options(tflite.ReducerOptions).KeepDims())
        gone = tuple(axis_of(a, x.ndim) for a in numbers(axes))
        return np.asarray(function(x.astype(np.int64), axis=gone, keepdims=keep))

    return fold_axes


def _floor_divided(a: np.ndarray, b: np.ndarray) -> np.ndarray:
    require(bool(b.all()), "division by zero")
    quotient: np.ndarray = a // b
    return quotient


def _divided(a: np.ndarray, b: np.ndarray) -> np.ndarray:
    """Towards zero, as C divides."""
    quotient: np.ndarray = np.sign(a) * np.sign(b) * _floor_divided(np.abs(a), np.abs(b))
    return quotient


_JOINERS = {
    "CONCATENATION": _joining(np.concatenate, tflite.ConcatenationOptions),
    "PACK": _joining(np.stack, tflite.PackOptions),
}
_NUMBERS: dict[str, Fold] = {
    **_JOINERS,
    "FILL": _filled,
    "RANGE": _ranged,
    "CAST": lambda op, x: x,
    "ADD": _whole_arithmetic(np.add),
    "SUB": _whole_arithmetic(np.subtract),
    "MUL": _whole_arithmetic(np.multiply),
    "DIV": _whole_arithmetic(_divided),
    "FLOOR_DIV": _whole_arithmetic(_floor_divided),
    "MAXIMUM": _whole_arithmetic(np.maximum),
    "MINIMUM": _whole_arithmetic(np.minimum),
    "REDUCE_PROD": _whole_reduction(np.prod),
    "REDUCE_MAX": _whole_reduction(np.max),
    "REDUCE_MIN": _whole_reduction(np.min),
    "SUM": _whole_reduction(np.sum),
    **{name: _whole_arithmetic(function) for name, function in COMPARISONS.items()},
    "BROADCAST_ARGS": lambda op, a, b: np.array(broadcast(tuple(numbers(a)), tuple(numbers(b)))),
}


FOLDED = frozenset({*_NUMBERS, "SHAPE"})


def _dense_shape(
    op: FileOp, x: tuple[int, ...], weights: tuple[int, ...], *_: tuple[int, ...]
) -> tuple[int, ...]:
    count, depth = weights
    if op.options(tflite.FullyConnectedOptions).KeepNumDims():
        return (*x[:-1], count)
    require(depth > 0 and math.prod(x) % depth == 0, "the input is not a multiple of its depth")
    return math.prod(x) // depth, count


def _matmul_shape(op: FileOp, a: tuple[int, ...], b: tuple[int, ...]) -> tuple[int, ...]:
    options = op.options(tflite.BatchMatMulOptions)
    lines = a[-1] if options.AdjX() else a[-2]
    columns = b[-2] if options.AdjY() else b[-1]
    return (*broadcast(a[:-2], b[:-2]), lines, columns)


def _broadcast(op: FileOp, *shapes: tuple[int, ...]) -> tuple[int, ...]:
    return np.broadcast_shapes(*shapes)


_ELEMENTWISE = (
    *("ABS", "CEIL", "COS", "ELU", "EXP", "FLOOR", "GELU", "HARD_SWISH", "LEAKY_RELU", "LOG"),
    *("LOGISTIC", "NEG", "RELU", "RELU6", "RELU_N1_TO_1", "ROUND", "RSQRT", "SIN", "SQRT"),
    *("SQUARE", "TANH", "DEQUANTIZE", "QUANTIZE", "L2_NORMALIZATION", "LOG_SOFTMAX", "SOFTMAX"),
    *("ADD", "DIV", "MAXIMUM", "MINIMUM", "MUL", "POW", "PRELU", "SQUARED_DIFFERENCE", "SUB"),
    *("EQUAL", "GREATER", "GREATER_EQUAL", "LESS", "LESS_EQUAL", "NOT_EQUAL"),
)
_SHAPES: dict[str, Callable[..., tuple[int, ...]]] = {
    **dict.fromkeys(_ELEMENTWISE, _broadcast),
    "FULLY_CONNECTED": _dense_shape,
    "BATCH_MATMUL": _matmul_shape,
}
