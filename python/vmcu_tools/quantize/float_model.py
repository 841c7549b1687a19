# SPDX-License-Identifier: Apache-2.0
"""Reads any file of a network as a float32 ONNX model."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import onnx
from onnx import TensorProto, numpy_helper

from ..errors import Problem, UserError
from ..frontends import format_of
from ..frontends.onnx.file import load_proto
from ..frontends.onnx.importer import load
from ..frontends.onnx.in_float import check_float
from .dequantised import dequantise
from .fixed_inputs import fix_inputs
from .kept import KeptWeights
from .number_tables import tabulate

_HALVES = (TensorProto.FLOAT16, TensorProto.BFLOAT16)


@dataclass(frozen=True, eq=False)
class FloatFile:
    """proto: float32; source: the file, for messages; kept: by name, the quantisation of weights
    that were integers in the file. label: what its int8 form says of its calibration."""

    proto: onnx.ModelProto
    source: Path
    kept: Mapping[str, KeptWeights]
    label: str = ""


def read_float(
    source: Path | FloatFile,
    constants: Sequence[str] = (),
    largest: Callable[[str], int | None] = lambda name: None,
) -> FloatFile:
    """Reads a .tflite or .onnx file in float32 or float16, or with operators that quantise, as a
    float32 model. Returns one that is read already. constants: as fix_inputs() has them; largest:
    the largest number of an integer input; None where it is not known.

    Raises UserError with all operators and inputs that are not supported once it is quantised, and
    for a file that `vmcu build` compiles as it is."""
    if isinstance(source, FloatFile):
        return source
    if format_of(source) == "tflite":
        from .from_tflite import convert

        converted = convert(source)
        model, kept = converted.model, converted.kept
    else:
        kept = {}
        model = load_proto(source)
        if any(node.op_type == "QuantizeLinear" for node in model.graph.node):
            _refuse_int8(source)
    fix_inputs(model, constants, str(source))
    _widen(model)
    for name, scale in dequantise(model, str(source)).items():
        kept[name] = KeptWeights(np.array([scale], np.float32), np.zeros(1, np.int64))
    tabulate(model, largest)
    check_float(model, str(source))
    return FloatFile(model, source, kept)


def _refuse_int8(source: Path) -> None:
    try:
        load(source)
    except UserError:
        return
    reason = "the model is already quantised, and `vmcu build` compiles it as it is"
    raise UserError(Problem(reason, "leave out the calibration data", str(source)))


def _widen(model: onnx.ModelProto) -> None:
    """Makes float32 of all that is float16 or bfloat16."""
    graph = model.graph
    tensors = [*graph.initializer, *(a.t for n in graph.node for a in n.attribute if a.t.data_type)]
    for tensor in tensors:
        if tensor.data_type in _HALVES:
            array = numpy_helper.to_array(tensor).astype(np.float32)
            tensor.CopyFrom(numpy_helper.from_array(array, tensor.name))
    for value in (*graph.input, *graph.output):
        if value.type.tensor_type.elem_type in _HALVES:
            value.type.tensor_type.elem_type = TensorProto.FLOAT
    for node in graph.node:
        for attribute in node.attribute:
            if attribute.name in ("to", "dtype") and attribute.i in _HALVES:
                attribute.i = TensorProto.FLOAT
    # Types of inner values, which onnx infers again.
    del graph.value_info[:]
