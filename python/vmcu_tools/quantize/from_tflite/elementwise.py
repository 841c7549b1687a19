# SPDX-License-Identifier: Apache-2.0
"""Functions of elements, comparisons, reductions and normalisations."""

from __future__ import annotations

import numpy as np
import tflite
from onnx import TensorProto

from ...frontends.common import require
from ...frontends.tflite.file import FileOp
from .writer import Writer, rule

_UNARY = {
    **{name: name.capitalize() for name in ("ABS", "CEIL", "COS", "ELU", "EXP", "FLOOR", "LOG")},
    **{name: name.capitalize() for name in ("NEG", "RELU", "ROUND", "SIGN", "SIN", "SQRT", "TANH")},
    "HARD_SWISH": "HardSwish",
    "LOGICAL_NOT": "Not",
    "LOGISTIC": "Sigmoid",
}
_BINARY = {
    "ADD": ("Add", tflite.AddOptions),
    "SUB": ("Sub", tflite.SubOptions),
    "MUL": ("Mul", tflite.MulOptions),
    "DIV": ("Div", tflite.DivOptions),
    "MAXIMUM": ("Max", None),
    "MINIMUM": ("Min", None),
    "POW": ("Pow", None),
    "PRELU": ("PRelu", None),
    "EQUAL": ("Equal", None),
    "GREATER": ("Greater", None),
    "GREATER_EQUAL": ("GreaterOrEqual", None),
    "LESS": ("Less", None),
    "LESS_EQUAL": ("LessOrEqual", None),
    "LOGICAL_AND": ("And", None),
    "LOGICAL_OR": ("Or", None),
}
_REDUCTIONS = {
    "MEAN": "ReduceMean",
    "SUM": "ReduceSum",
    "REDUCE_MAX": "ReduceMax",
    "REDUCE_MIN": "ReduceMin",
    "REDUCE_PROD": "ReduceProd",
}
_CASTS = {
    "FLOAT16": TensorProto.FLOAT,
    "FLOAT32": TensorProto.FLOAT,
    "INT32": TensorProto.INT32,
    "INT64": TensorProto.INT64,
    "BOOL": TensorProto.BOOL,
}


@rule(*_UNARY)
def _unary(w: Writer, op: FileOp) -> str:
    return w.add(_UNARY[op.op], [w.read(op.inputs[0])])


@rule(*_BINARY)
def _binary(w: Writer, op: FileOp) -> str:
    kind, options = _BINARY[op.op]
    value = w.add(kind, [w.read(index) for index in op.inputs])
    if options is None or op.table is None:
        return value
    return w.activated(value, op.options(options).FusedActivationFunction())


@rule("NOT_EQUAL")
def _not_equal(w: Writer, op: FileOp) -> str:
    return w.add("Not", [w.add("Equal", [w.read(index) for index in op.inputs])])


@rule("SQUARED_DIFFERENCE", "SQUARE")
def _square(w: Writer, op: FileOp) -> str:
    values = [w.read(index) for index in op.inputs]
    value = values[0] if op.op == "SQUARE" else w.add("Sub", values)
    return w.add("Mul", [value, value])


@rule("FLOOR_DIV")
def _floor_div(w: Writer, op: FileOp) -> str:
    require(w.tensor(op.inputs[0]).type == "FLOAT32", "it divides integers")
    return w.add("Floor", [w.add("Div", [w.read(index) for index in op.inputs])])


@rule("RSQRT")
def _rsqrt(w: Writer, op: FileOp) -> str:
    return w.add("Reciprocal", [w.add("Sqrt", [w.read(op.inputs[0])])])


@rule("RELU6", "RELU_N1_TO_1", "RELU_0_TO_1")
def _clip(w: Writer, op: FileOp) -> str:
    limits = {"RELU6": (0, 6), "RELU_N1_TO_1": (-1, 1), "RELU_0_TO_1": (0, 1)}
    return w.clipped(w.read(op.inputs[0]), *limits[op.op])


@rule("LEAKY_RELU")
def _leaky_relu(w: Writer, op: FileOp) -> str:
    alpha = op.options(tflite.LeakyReluOptions).Alpha()
    return w.add("LeakyRelu", [w.read(op.inputs[0])], alpha=alpha)


@rule("GELU")
def _gelu(w: Writer, op: FileOp) -> str:
    x = w.read(op.inputs[0])
    if op.table is not None and op.options(tflite.GeluOptions).Approximate():
        cube = w.add("Mul", [w.add("Mul", [x, x]), x])
        inner = w.add("Add", [x, w.add("Mul", [cube, w.number(0.044715)])])
        curve = w.add("Tanh", [w.add("Mul", [inner, w.number(np.sqrt(2 / np.pi))])])
    else:
        curve = w.add("Erf", [w.add("Div", [x, w.number(np.sqrt(2))])])
    grown = w.add("Mul", [x, w.add("Add", [curve, w.number(1)])])
    return w.add("Mul", [grown, w.number(0.5)])


@rule("SOFTMAX", "LOG_SOFTMAX")
def _softmax(w: Writer, op: FileOp) -> str:
    x = w.read(op.inputs[0])
    if op.op == "LOG_SOFTMAX":
        return w.add("LogSoftmax", [x], axis=-1)
    beta = op.options(tflite.SoftmaxOptions).Beta()
    x = x if beta == 1 else w.add("Mul", [x, w.number(beta)])
    return w.add("Softmax", [x], axis=-1)


@rule("L2_NORMALIZATION")
def _l2_normalization(w: Writer, op: FileOp) -> str:
    activation = op.options(tflite.L2NormOptions).FusedActivationFunction()
    value = w.add("LpNormalization", [w.read(op.inputs[0])], axis=-1, p=2)
    return w.activated(value, activation)


@rule(*_REDUCTIONS)
def _reduce(w: Writer, op: FileOp) -> str:
    rank = len(w.shape(op.inputs[0]))
    axes = sorted({axis % rank for axis in w.importer.integers(op, 1, "axes")}) if rank else []
    x = w.read(op.inputs[0])
    if not axes:
        return x
    keep = int(op.options(tflite.ReducerOptions).KeepDims())
    if op.op == "SUM":
        return w.add("ReduceSum", [x, w.integers(axes, "axes")], keepdims=keep)
    return w.add(_REDUCTIONS[op.op], [x], axes=axes, keepdims=keep)


@rule("ARG_MAX", "ARG_MIN")
def _arg(w: Writer, op: FileOp) -> str:
    axis = w.importer.integers(op, 1, "axis")[0]
    kind = "ArgMax" if op.op == "ARG_MAX" else "ArgMin"
    value = w.add(kind, [w.read(op.inputs[0])], axis=axis, keepdims=0)
    type_ = w.tensor(op.outputs[0]).type
    return value if type_ == "INT64" else w.add("Cast", [value], to=_CASTS[type_])


@rule("CUMSUM")
def _cumsum(w: Writer, op: FileOp) -> str:
    options = op.options(tflite.CumsumOptions)
    axis = w.constant(np.array(w.importer.integers(op, 1, "axis")[0], np.int64), "axis")
    flags = {"exclusive": int(options.Exclusive()), "reverse": int(options.Reverse())}
    return w.add("CumSum", [w.read(op.inputs[0]), axis], **flags)


@rule("SELECT", "SELECT_V2")
def _select(w: Writer, op: FileOp) -> str:
    condition, shape = w.read(op.inputs[0]), w.shape(op.inputs[0])
    rank = len(w.shape(op.inputs[1]))
    if op.op == "SELECT" and len(shape) == 1 < rank:
        # A condition for each row of the first axis.
        condition = w.reshaped(condition, [*shape, *[1] * (rank - 1)])
    return w.add("Where", [condition, w.read(op.inputs[1]), w.read(op.inputs[2])])


@rule("CAST")
def _cast(w: Writer, op: FileOp) -> str:
    type_ = w.tensor(op.outputs[0]).type
    require(type_ in _CASTS, f"a cast to {type_.lower()}")
    return w.add("Cast", [w.read(op.inputs[0])], to=_CASTS[type_])


@rule("QUANTIZE", "DEQUANTIZE")
def _same(w: Writer, op: FileOp) -> str:
    """Float16 and quantised constants become float32 where they are read."""
    index = op.inputs[0]
    if op.op == "DEQUANTIZE" and w.array(index) is not None:
        w.sources[op.outputs[0]] = index
    return w.read(index)
