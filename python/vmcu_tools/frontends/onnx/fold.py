# SPDX-License-Identifier: Apache-2.0
"""Constant folding for the shape arithmetic that exporters leave in a graph."""

from __future__ import annotations

import math

import numpy as np
import onnx
from onnx.reference import ReferenceEvaluator

from ..common import PARSE_ERRORS, UnsupportedError, require
from .context import Context
from .file import FileNode
from .values import (
    Args,
    BlockedConstant,
    Constant,
    Curve,
    QuantConstant,
    Real,
    Rescaled,
    Value,
    operand,
)

# Evaluated when all inputs are constant. Weights pass DequantizeLinear and are not touched here.
FOLDED: tuple[str, ...] = ("Add", "Cast", "Concat", "Constant", "ConstantOfShape", "Div", "Gather")
FOLDED += ("Identity", "Clip", "Mul", "Reshape", "Slice", "Squeeze", "Sub", "Transpose")
FOLDED += ("Unsqueeze", "Equal", "Expand", "Greater", "Less", "Not", "Range", "ReduceProd")
FOLDED += ("Sqrt", "Trilu", "Where", "Mod", "Flatten", "Neg", "Abs", "And", "Or")
FOLDED += ("GreaterOrEqual", "LessOrEqual", "Min", "Max", "Pow", "Floor", "Ceil", "ScatterND")
FOLDED += ("Tile", "ReduceSum", "ReduceMax", "GatherND")
# Elements of one result, and of all of a file.
_MAX_FILLED, _MAX_FOLDED = 1 << 24, 1 << 26


def folds(node: FileNode) -> bool:
    """Whether the operator is one that may turn out constant."""
    return node.op == "Shape" or node.op in FOLDED


def fold(context: Context, node: FileNode, args: Args) -> Value | None:
    """The node's value if it is a constant, else None."""
    if node.op == "Shape":
        return _shape(node, args)
    constant = all(arg is None or isinstance(arg, Constant) for arg in args)
    if node.op not in FOLDED or not constant:
        return None
    arrays = {
        name: arg.array
        for name, arg in zip(node.inputs, args, strict=True)
        if isinstance(arg, Constant)
    }
    _limit(node, [arg.array for arg in args if isinstance(arg, Constant)])
    try:
        value = evaluate(node.proto, arrays, context.model.opset)
    except (*PARSE_ERRORS, RuntimeError) as error:
        raise UnsupportedError(f"the constant value cannot be computed: {error}") from error
    context.folded += value.size
    require(context.folded <= _MAX_FOLDED, "its constants and those before it are too large")
    return Constant(value)


def _limit(node: FileNode, arrays: list[np.ndarray]) -> None:
    """Refuses operators that would make a large array of small ones."""
    if node.op == "ConstantOfShape":
        sizes = [int(v) for v in arrays[0].ravel()] if arrays else []
    elif node.op == "Range":
        start, end, step = (float(array.ravel()[0]) for array in arrays)
        sizes = [math.ceil(max((end - start) / step, 0))]
    elif node.op in ("Expand", "Tile"):
        sizes = [arrays[0].size, *(int(v) for v in arrays[1].ravel())]
    elif node.op == "ScatterND":
        sizes = [arrays[0].size]
    elif node.op == "Concat":
        sizes = [sum(array.size for array in arrays)]
    elif node.op in ("Gather", "GatherND"):
        sizes = [array.size for array in arrays]
    else:
        # Broadcasting at its worst.
        sizes = [max((a.shape[-i] for a in arrays if a.ndim >= i), default=1) for i in range(1, 9)]
        small = math.prod(sizes) <= sum(array.size for array in arrays)
        sizes = [1] if small else sizes
    count = math.prod(sizes)
    require(0 <= count <= _MAX_FILLED, f"its constants would have {count} elements")


def evaluate(proto: onnx.NodeProto, arrays: dict[str, np.ndarray], opset: int) -> np.ndarray:
    inputs = [
        onnx.helper.make_tensor_value_info(
            name, onnx.helper.np_dtype_to_tensor_dtype(array.dtype), array.shape
        )
        for name, array in arrays.items()
    ]
    output = onnx.helper.make_empty_tensor_value_info(proto.output[0])
    graph = onnx.helper.make_graph([proto], "fold", inputs, [output])
    model = onnx.helper.make_model(graph, opset_imports=[onnx.helper.make_opsetid("", opset)])
    (evaluated,) = ReferenceEvaluator(model).run(None, arrays)
    return np.asarray(evaluated)


def _shape(node: FileNode, args: Args) -> Constant:
    value = operand(args[0])
    if isinstance(value, Constant):
        shape = value.array.shape
    elif isinstance(value, (QuantConstant, BlockedConstant)):
        shape = value.ints.shape
    else:
        shape = (value.activation if isinstance(value, (Real, Rescaled, Curve)) else value).shape
    end = node.attributes.get("end", len(shape))
    return Constant(np.array(shape[node.attributes.get("start", 0) : end], np.int64))
