# SPDX-License-Identifier: Apache-2.0
"""A .tflite file as TensorFlow Lite Micro can run it, with the same results.

Micro resizes no tensor, so that the shapes which a file computes from an open batch are given to
it as a conversion with a batch of one would write them; this includes dilated convolutions, which
such a conversion has instead of SPACE_TO_BATCH_ND and BATCH_TO_SPACE_ND around an ordinary one.
Micro has no TILE, which along one axis is a GATHER, no SELECT, which is a SELECT_V2, and no int64
in ARG_MAX. Nor has it int8 kernels of EXP, GELU, LOG, SQRT and RELU_N1_TO_1: they are looked up in
the graph's own tables, so that all that stands around them can be compared.
tests/python/test_tflite_litert.py holds these tables against LiteRT.
"""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
from vmcu_tools.frontends.common import GraphBuilder, UnsupportedError
from vmcu_tools.frontends.tflite.batches import Dilated, dilated
from vmcu_tools.frontends.tflite.file import CONTROL, subgraphs
from vmcu_tools.frontends.tflite.float import table_of
from vmcu_tools.frontends.tflite.fold import Folded, fold
from vmcu_tools.frontends.tflite.ops import Importer
from vmcu_tools.frontends.tflite.states import read
from vmcu_tools.graph import Graph, Tensor
from vmcu_tools.runtimes import required

LOOKED_UP = ("EXP", "GELU", "LOG", "RELU_N1_TO_1", "SQRT")
_WITHOUT_INT64 = ("ARG_MAX", "ARG_MIN")
# Operators whose biases Micro reads in any case, and which input these are.
_BIAS = {"DEPTHWISE_CONV_2D": 2, "SVDF": 3}
_SPECIAL = ("TILE", "SELECT", "SPACE_TO_BATCH_ND", *LOOKED_UP, *_WITHOUT_INT64)


def runnable(path: Path, graph: Graph) -> bytes:
    """The file of a graph, or a rewritten one. Raises UserError for a file that cannot be read."""
    data = path.read_bytes()
    if any(op.op in CONTROL for op in subgraphs(path)[0][0].ops):
        return data
    folded = fold(read(path))
    special = any(op.op in _SPECIAL or _crashes(op.op, op.inputs) for op in folded.model.ops)
    if not (folded.dropped or folded.reshaped or special):
        return data
    schema = required(
        "tflite_micro.tensorflow.lite.micro.python.schema_py_generated",
        "tflite-micro",
        "verify .tflite models",
    )
    model = schema.ModelT.InitFromPackedBuf(data, 0)
    _fix_shapes(schema, model, folded)
    operators = model.subgraphs[0].operators
    kept = [op for i, op in enumerate(operators) if i not in folded.dropped]
    model.subgraphs[0].operators = kept
    _dilate(schema, model, folded)
    tensors, operators = folded.model.tensors, []
    for op, file_op in zip(kept, folded.model.ops, strict=True):
        if _crashes(file_op.op, op.inputs):
            op.inputs = _runnable_inputs(schema, model, file_op.op, op)
        if file_op.op == "TILE":
            _gather_instead(schema, model, op, tensors[file_op.inputs[0]].shape)
        if file_op.op == "SELECT":
            _replace(schema, model, op, "SELECT_V2", op.inputs)
        if file_op.op in _WITHOUT_INT64:
            op.builtinOptions.outputType = schema.TensorType.INT32
            model.subgraphs[0].tensors[op.outputs[0]].type = schema.TensorType.INT32
        node = graph.producer(tensors[file_op.outputs[0]].name) if file_op.outputs else None
        if file_op.op in LOOKED_UP and node is not None:
            ends = (graph.tensors[name] for name in (*node.inputs, *node.outputs))
            table = table_of(node.op, *ends)
            assert table is not None
            operators += _look_up(schema, model, op, table)
        operators.append(op)
    model.subgraphs[0].operators = operators
    builder = required("flatbuffers", "flatbuffers", "verify .tflite models").Builder(len(data))
    builder.Finish(model.Pack(builder), b"TFL3")
    return bytes(builder.Output())


def _crashes(name: str, inputs: Sequence[int]) -> bool:
    """Whether Micro reads biases that the file says are none."""
    place = _BIAS.get(name)
    return place is not None and len(inputs) > place and inputs[place] < 0


def _runnable_inputs(schema: Any, model: Any, name: str, op: Any) -> list[int]:
    """The inputs without biases, or with biases of zero where Micro requires them."""
    inputs = list(op.inputs)
    if name != "SVDF":
        return inputs[: _BIAS[name]]
    tensors = model.subgraphs[0].tensors
    time, state = tensors[inputs[2]], tensors[inputs[4]]
    inputs[3] = _constant(schema, model, np.zeros(tensors[op.outputs[0]].shape[-1], np.int32))
    tensors[inputs[3]].quantization = schema.QuantizationParametersT()
    scale = time.quantization.scale[0] * state.quantization.scale[0]
    tensors[inputs[3]].quantization.scale, tensors[inputs[3]].quantization.zeroPoint = [scale], [0]
    return inputs


def _look_up(schema: Any, model: Any, op: Any, table: np.ndarray) -> list[Any]:
    """Turns an operator into a GATHER of its table; returns those that make its indices, the
    input plus 128, in int32."""
    graph = model.subgraphs[0]
    out = graph.tensors[op.outputs[0]]
    steps: list[Any] = []
    for name, others in (("CAST", []), ("ADD", [np.array([128], np.int32)])):
        index = _constant(schema, model, np.zeros(0, np.int32))
        graph.tensors[index].shape, graph.tensors[index].buffer = list(out.shape), 0
        step = schema.OperatorT()
        x = op.inputs[0] if not steps else steps[-1].outputs[0]
        extra = [_constant(schema, model, values) for values in others]
        _replace(schema, model, step, name, [x, *extra])
        step.outputs = [index]
        steps.append(step)
    steps[1].builtinOptionsType = schema.BuiltinOptions.AddOptions
    steps[1].builtinOptions = schema.AddOptionsT()
    values = _constant(schema, model, table)
    graph.tensors[values].type = schema.TensorType.INT8
    graph.tensors[values].quantization = out.quantization
    _gather(schema, model, op, [values, steps[1].outputs[0]], 0)
    return steps


def _fix_shapes(schema: Any, model: Any, folded: Folded) -> None:
    tensors = model.subgraphs[0].tensors
    for index in folded.constants:
        tensors[index].buffer = _buffer(schema, model, np.asarray(folded.model.tensors[index].data))
    for index in (*folded.constants, *folded.reshaped):
        tensors[index].shape = list(folded.model.tensors[index].shape)
        tensors[index].shapeSignature = None


def _buffer(schema: Any, model: Any, values: np.ndarray) -> int:
    buffer = schema.BufferT()
    buffer.data = np.frombuffer(values.tobytes(), np.uint8)
    model.buffers.append(buffer)
    return len(model.buffers) - 1


class _NoActivations:
    """A stand-in for an Importer that only reads the file."""

    def __call__(self, index: int) -> Tensor:
        raise AssertionError(index)

    def pass_over(self, outputs: tuple[int, ...]) -> None:
        raise AssertionError(outputs)


def _dilate(schema: Any, model: Any, folded: Folded) -> None:
    """SPACE_TO_BATCH_ND becomes a PAD, and BATCH_TO_SPACE_ND a RESHAPE."""
    graph = model.subgraphs[0]
    importer = Importer(folded.model, GraphBuilder(""), _NoActivations())
    place = {op: i for i, op in enumerate(folded.model.ops)}
    for op in folded.model.ops:
        if op.op != "SPACE_TO_BATCH_ND":
            continue
        try:
            convolution = dilated(importer, op)
        except UnsupportedError:
            continue
        first = graph.operators[place[op]]
        conv = graph.operators[place[convolution.conv]].builtinOptions
        conv.dilationHFactor, conv.dilationWFactor = convolution.dilation
        top, left, bottom, right = convolution.pad
        flat = (top, bottom) if convolution.upright else (left, right)
        ndim = len(folded.model.tensors[op.inputs[0]].shape)
        spatial = [flat] if ndim == 3 else [(top, bottom), (left, right)]
        pairs = np.array([(0, 0), *spatial, (0, 0)], np.int32)
        x_shape = np.array(folded.model.tensors[op.inputs[0]].shape) + pairs.sum(axis=1)
        end_shape = np.array(folded.model.tensors[convolution.end.outputs[0]].shape)
        _replace(schema, model, first, "PAD", [first.inputs[0], _constant(schema, model, pairs)])
        graph.tensors[op.outputs[0]].shape = x_shape.tolist()
        shape = x_shape
        for follower in convolution.followers:
            if follower is convolution.conv:
                shape = end_shape
            writer = graph.operators[place[follower]]
            target = _as_rank(
                shape, len(folded.model.tensors[follower.outputs[0]].shape), convolution
            )
            graph.tensors[follower.outputs[0]].shape = target.tolist()
            if follower is not convolution.conv:
                to = _constant(schema, model, target.astype(np.int32))
                _replace(schema, model, writer, "RESHAPE", [writer.inputs[0], to])


def _as_rank(shape: np.ndarray, rank: int, convolution: Dilated) -> np.ndarray:
    """(1, L, C) as an image, or the reverse."""
    if len(shape) == rank:
        return shape
    if rank == 3:
        return shape[[0, 1 if convolution.upright else 2, 3]]
    return np.insert(shape, 2 if convolution.upright else 1, 1)


def _constant(schema: Any, model: Any, values: np.ndarray) -> int:
    tensor = schema.TensorT()
    tensor.name, tensor.type = b"", schema.TensorType.INT32
    tensor.shape = list(values.shape)
    tensor.buffer = _buffer(schema, model, values)
    model.subgraphs[0].tensors.append(tensor)
    return len(model.subgraphs[0].tensors) - 1


def _replace(schema: Any, model: Any, op: Any, name: str, inputs: list[int]) -> None:
    """Turns an operator into another one without options."""
    code = schema.OperatorCodeT()
    code.builtinCode = code.deprecatedBuiltinCode = getattr(schema.BuiltinOperator, name)
    code.version = 1
    model.operatorCodes.append(code)
    op.opcodeIndex = len(model.operatorCodes) - 1
    op.inputs = inputs
    op.builtinOptionsType, op.builtinOptions = schema.BuiltinOptions.NONE, None


def _gather_instead(schema: Any, model: Any, op: Any, shape: tuple[int, ...]) -> None:
    """Turns a TILE along one axis into a GATHER; others stay."""
    tensors = model.subgraphs[0].tensors
    times = np.frombuffer(bytes(model.buffers[tensors[op.inputs[1]].buffer].data), np.int32)
    axes = np.flatnonzero(times != 1)
    if len(axes) != 1:
        return
    axis = int(axes[0])
    picks = np.tile(np.arange(shape[axis], dtype=np.int32), times[axis])
    _gather(schema, model, op, [op.inputs[0], _constant(schema, model, picks)], axis)


def _gather(schema: Any, model: Any, op: Any, inputs: list[int], axis: int) -> None:
    _replace(schema, model, op, "GATHER", inputs)
    op.builtinOptionsType = schema.BuiltinOptions.GatherOptions
    op.builtinOptions = schema.GatherOptionsT()
    op.builtinOptions.axis = axis
