# SPDX-License-Identifier: Apache-2.0
"""Values and shapes of a node of constants, by onnx's reference evaluator and shape inference."""

from __future__ import annotations

import functools
import math
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager

import numpy as np
import onnx
from onnx import helper, numpy_helper

from ..common import PARSE_ERRORS, UnsupportedError, require

# Elements of one result.
_MAX_FILLED = 1 << 24
# Operators that need much more time or memory than their result, that draw random numbers or have
# a graph of their own, and those that quantise, which have rules.
_NOT_FOLDED = {"DequantizeLinear", "QuantizeLinear", "QLinearConv", "QLinearMatMul"}
_NOT_FOLDED |= {"DynamicQuantizeLinear", "ConvInteger", "MatMulInteger", "DFT", "STFT"}
_NOT_FOLDED |= {"Conv", "ConvTranspose", "DeformConv", "Einsum", "GRU", "LSTM", "RNN", "Attention"}
_NOT_FOLDED |= {"MaxPool", "AveragePool", "LpPool", "MaxRoiPool", "MaxUnpool", "Col2Im"}
_NOT_FOLDED |= {"RandomNormal", "RandomNormalLike", "RandomUniform", "RandomUniformLike"}
_NOT_FOLDED |= {"Bernoulli", "Multinomial", "Dropout", "If", "Loop", "Scan", "SequenceMap"}
_NOT_FOLDED |= {"GridSample", "RoiAlign", "NonMaxSuppression", "Resize", "Upsample", "AffineGrid"}
# Of larger operands, the size of a result does not depend on the values.
_SHAPE_ELEMENTS = 1024


@functools.cache
def folds(op: str) -> bool:
    """Whether an operator is evaluated where all its inputs are constant."""
    return op not in _NOT_FOLDED and onnx.defs.has(op)


def evaluate(
    proto: onnx.NodeProto, arrays: Mapping[str, np.ndarray], opset: int
) -> list[np.ndarray]:
    """The values of a node of constants; 0 for outputs without a name. Raises UnsupportedError if
    they are too large."""
    # Loads slowly, and most files have no use for it.
    from onnx.reference import ReferenceEvaluator

    small = {name: array for name, array in arrays.items() if array.size <= _SHAPE_ELEMENTS}
    inputs = [
        helper.make_tensor_value_info(
            name, helper.np_dtype_to_tensor_dtype(array.dtype), array.shape
        )
        for name, array in arrays.items()
        if name not in small
    ]
    model = inferred(proto, inputs, small, opset, typed=True)
    most = sum(array.size for array in arrays.values())
    for value in model.graph.output:
        kind = value.type.tensor_type
        # A size that depends on values, as that of NonZero, is at most that of the operands.
        sizes = [d.dim_value if d.HasField("dim_value") else most for d in kind.shape.dim]
        if not kind.HasField("shape"):
            raise ValueError("the size of the result is unknown")
        count = math.prod(sizes)
        require(0 <= count <= _MAX_FILLED, f"the result would have {count} elements")
    given = {name: array for name, array in arrays.items() if name not in small}
    values = iter(ReferenceEvaluator(model).run(None, given))
    return [np.asarray(next(values) if name else 0) for name in proto.output]


@contextmanager
def operands_checked() -> Iterator[None]:
    """Turns every error of onnx that a node's operands can provoke into an UnsupportedError."""
    try:
        yield
    except (*PARSE_ERRORS, RuntimeError) as error:
        plain = isinstance(error, (LookupError, ValueError))
        words = str(error).rstrip(".") if plain else "one is missing or of a wrong type"
        raise UnsupportedError(f"the operands do not fit: {words}") from error


def inferred(
    proto: onnx.NodeProto,
    inputs: Sequence[onnx.ValueInfoProto],
    arrays: Mapping[str, np.ndarray],
    opset: int,
    typed: bool = False,
) -> onnx.ModelProto:
    """A model of one node, with the shapes of its results as far as onnx infers them. Raises
    ValueError where onnx rejects its operands; typed: for their types, too."""
    outputs = [helper.make_empty_tensor_value_info(name) for name in proto.output if name]
    constants = [numpy_helper.from_array(array, name) for name, array in arrays.items()]
    graph = helper.make_graph([proto], "node", inputs, outputs, constants)
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", opset)])
    try:
        return onnx.shape_inference.infer_shapes(model, typed, strict_mode=True, data_prop=True)
    except onnx.shape_inference.InferenceError as error:
        raise ValueError(str(error).strip().rpartition("] ")[2]) from error
