# SPDX-License-Identifier: Apache-2.0
"""A float .tflite file as a float32 ONNX model: reads it, applies the rules, checks the result.

Layers with windows are written between two transpositions, since ONNX has channels first.
onnxruntime removes those between layers before it quantises the model.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from pathlib import Path

import numpy as np
import onnx
from onnx import helper

from ...errors import Problem, UserError
from ...frontends import common
from ...frontends.tflite.file import FileModel, FileOp, FileTensor, subgraphs
from ...frontends.tflite.fold import fold
from ...frontends.tflite.ops import Importer
from ...frontends.tflite.states import keeps_state, read
from ...graph import Tensor
from ...paths import import_modules
from ...runtimes import one_line
from ..kept import KeptWeights
from ..preparation import OPSET
from .writer import RULES, Writer

# Fills RULES.
import_modules(__package__)

_IR_VERSION = 8
_TYPES = {
    "FLOAT32": np.float32,
    "FLOAT16": np.float32,
    "INT32": np.int32,
    "INT64": np.int64,
    "BOOL": np.bool_,
}
# Operators whose int8 results are constants' rows, or are dequantised at once.
_HANDING_ON = ("GATHER", "EMBEDDING_LOOKUP", "QUANTIZE")
_NO_RULE = "`vmcu quantize` cannot read this operation from a .tflite file"
_REPLACE = "replace it, or export the float model as .onnx"


@dataclass(frozen=True)
class Converted:
    """A float32 model, and the weights by name whose int8 values a quantiser should keep."""

    model: onnx.ModelProto
    kept: dict[str, KeptWeights]


def convert(path: Path) -> Converted:
    """The float32 model of a float .tflite file, with the file's names and shapes, and the
    quantisation of weights that the file has in int8 or int4. Raises UserError with all problems of
    the file."""
    common.check_file_size(path, path.stat().st_size)
    graphs, count = subgraphs(path)
    if count > 1 and keeps_state(graphs[0]):
        hint = "give states as inputs and outputs, or export the float model as .onnx"
        raise UserError(Problem("the model keeps state in variables", hint, str(path)))
    read_model = read(path) if count > 1 else graphs[0]
    if _is_quantised(read_model):
        reason = "the model is already quantised"
        hint = "give it to `vmcu build` as it is, without calibration data"
        raise UserError(Problem(reason, hint, str(path)))
    with common.parsing(str(path)):
        builder = common.GraphBuilder(str(path))
        writer = _written(fold(read_model).model, builder)
        if builder.problems:
            raise UserError(*builder.problems)
        model = _assembled(writer, path.stem)
    _check(model, writer.model, str(path))
    return Converted(model, {n: k for n, k in writer.kept.items() if n in writer.constants})


def _is_quantised(model: FileModel) -> bool:
    """Whether an operator computes quantised activations."""

    def quantised(index: int) -> bool:
        tensor = model.tensors[index]
        return tensor.type in ("INT8", "UINT8", "INT16") and tensor.scales.size > 0

    computed = [i for op in model.ops if op.op not in _HANDING_ON for i in op.outputs]
    return any(i >= 0 and quantised(i) for i in (*computed, *model.inputs))


class _NoActivations:
    """The int8 tensors of an Importer that reads constants only."""

    def __call__(self, index: int) -> Tensor:
        raise AssertionError(f"tensor {index} is not int8")

    def pass_over(self, outputs: tuple[int, ...]) -> None:
        return


def _written(model: FileModel, builder: common.GraphBuilder) -> Writer:
    """The nodes of all operators; problems are added to `builder`."""
    writer = Writer(model, Importer(model, builder, _NoActivations()))
    failed: set[int] = set()
    for index in model.inputs:
        writer.values[index] = model.tensors[index].name
        _try(builder, model.tensors[index].name, "", partial(_port, writer, index))
    for op in model.ops:
        if op in writer.done:
            continue
        name = model.tensors[op.outputs[0]].name if op.outputs else ""
        fed = failed.isdisjoint(op.inputs)
        if fed or op.op not in RULES:
            fed = _try(builder, name, op.op, partial(_convert, writer, op))
        if not fed:
            failed.update(op.outputs)
    for index in dict.fromkeys(model.outputs):
        if index in failed:
            continue
        _try(builder, model.tensors[index].name, "", partial(_name_output, writer, index))
    return writer


def _try(builder: common.GraphBuilder, name: str, op: str, step: Callable[[], object]) -> bool:
    """Whether a step succeeds; if not, its problem is added."""
    try:
        step()
        return True
    except common.UnsupportedError as error:
        builder.problem(error.reason, error.remedy, name, op)
    except common.PARSE_ERRORS as error:
        builder.problem(common.unexpected(error), common.REPORT_DEFECT, name, op)
    return False


def _convert(writer: Writer, op: FileOp) -> None:
    common.require(op.op in RULES, _NO_RULE, _REPLACE)
    op.check_options()
    common.require(bool(op.outputs) and min(op.outputs) >= 0, "it has no output")
    known = not any(index in writer.values for index in op.outputs)
    common.require(known, f"tensor '{writer.tensor(op.outputs[0]).name}' is computed twice")
    writer.convert(op)


def _port(writer: Writer, index: int) -> onnx.ValueInfoProto:
    """An input or output of the model."""
    tensor = writer.tensor(index)
    quantised = tensor.scales.size > 0
    kind = np.float32 if quantised else _TYPES.get(tensor.type)
    common.require(kind is not None, f"it is of type {tensor.type.lower()}", "use float32")
    shape = writer.shape(index)
    return helper.make_tensor_value_info(
        tensor.name, helper.np_dtype_to_tensor_dtype(np.dtype(kind)), shape
    )


def _name_output(writer: Writer, index: int) -> None:
    """Gives an output the file's name where it is the same as another tensor."""
    name = _port(writer, index).name
    value = writer.read(index)
    common.require(
        name not in writer.constants, "the output is a constant", "use it without a model"
    )
    if value != name:
        writer.nodes.append(helper.make_node("Identity", [value], [name], name))


def _assembled(writer: Writer, name: str) -> onnx.ModelProto:
    graph = helper.make_graph(
        writer.nodes,
        name,
        [_port(writer, index) for index in writer.model.inputs],
        [_port(writer, index) for index in writer.model.outputs],
        list(writer.constants.values()),
    )
    opsets = [helper.make_opsetid("", OPSET)]
    return helper.make_model(
        graph, opset_imports=opsets, ir_version=_IR_VERSION, producer_name="vmcu"
    )


def _check(model: onnx.ModelProto, file_model: FileModel, file: str) -> None:
    """Raises UserError where onnx rejects the model, or computes other shapes than the file has."""
    try:
        onnx.checker.check_model(model)
        whole = onnx.shape_inference.infer_shapes(model, strict_mode=True, data_prop=True)
    except Exception as error:  # onnx's errors have no base of their own
        reason = f"its parts contradict each other: {one_line(error)}"
        raise UserError(Problem(reason, common.REPORT_DEFECT, file)) from error
    named = {tensor.name: tensor for tensor in file_model.tensors}
    problems = []
    for value in whole.graph.value_info:
        sizes = [d.dim_value for d in value.type.tensor_type.shape.dim]
        tensor = named.get(value.name)
        if tensor is not None and _differs(tensor, sizes):
            reason = f"the output is {list(tensor.shape)} in the file but computes {sizes}"
            problems.append(Problem(reason, common.ASK_EXPORTER, file, value.name))
    if problems:
        raise UserError(*problems)


def _differs(tensor: FileTensor, sizes: list[int]) -> bool:
    return not tensor.dynamic and 0 not in sizes and list(tensor.shape) != sizes
