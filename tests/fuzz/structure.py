# SPDX-License-Identifier: Apache-2.0
"""Files that are well formed and mean something else: operands swapped, nodes rewired, repeated or
left out, a tensor of another type or shape, one node's attributes on another."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import flatbuffers
import numpy as np
import onnx
from tflite_micro.tensorflow.lite.micro.python import schema_py_generated as schema

MOST_CHANGES = 4


def change(rng: np.random.Generator, data: bytes, kind: str) -> bytes:
    """A changed copy of an .onnx or .tflite file that can be parsed."""
    if kind == "onnx":
        model = onnx.load_from_string(data)
        _some(rng, ONNX, model.graph)
        return model.SerializeToString()
    model = schema.ModelT.InitFromObj(schema.Model.GetRootAsModel(data, 0))
    _some(rng, TFLITE, model)
    builder = flatbuffers.Builder(1024)
    builder.Finish(model.Pack(builder), b"TFL3")
    return bytes(builder.Output())


def _some(rng: np.random.Generator, changes: tuple[Callable, ...], thing: Any) -> None:
    for _ in range(int(rng.integers(1, MOST_CHANGES + 1))):
        changes[int(rng.integers(len(changes)))](rng, thing)


def _one(rng: np.random.Generator, values: Any) -> Any:
    """One of several; IndexError if there is none."""
    if len(values) == 0:
        raise IndexError("nothing to choose from")
    return values[int(rng.integers(len(values)))]


def _exchange(rng: np.random.Generator, values: Any) -> None:
    a, b = (int(rng.integers(len(values))) for _ in range(2))
    values[a], values[b] = values[b], values[a]


def _shape(rng: np.random.Generator, sizes: list[int]) -> list[int]:
    """As many elements in another form, or a size that is not that of the data."""
    sizes = list(sizes)
    match int(rng.integers(5)):
        case 0:
            return [*sizes, 1]
        case 1:
            return [int(size) for size in rng.permutation(sizes)]
        case 2:
            return [int(np.prod(sizes))]
        case 3:
            return sizes[1:]
        case _:
            if sizes:
                sizes[int(rng.integers(len(sizes)))] = int(_one(rng, (0, 1, 2, -1, 7, 1 << 31)))
            return sizes


def _onnx_operands(rng: np.random.Generator, graph: Any) -> None:
    _exchange(rng, _one(rng, graph.node).input)


def _onnx_rewire(rng: np.random.Generator, graph: Any) -> None:
    """To any value: also a later one, a constant or none at all."""
    node = _one(rng, graph.node)
    values = ["", *(v for n in graph.node for v in n.output), *(i.name for i in graph.initializer)]
    node.input[int(rng.integers(len(node.input)))] = _one(rng, values)


def _onnx_attribute(rng: np.random.Generator, graph: Any) -> None:
    """Another node's attribute, or one less."""
    to, source = _one(rng, graph.node), _one(rng, graph.node)
    if rng.random() < 0.3:
        del to.attribute[int(rng.integers(len(to.attribute)))]
        return
    attribute = _one(rng, source.attribute)
    for old in [a for a in to.attribute if a.name == attribute.name]:
        to.attribute.remove(old)
    to.attribute.append(attribute)


def _onnx_operator(rng: np.random.Generator, graph: Any) -> None:
    _one(rng, graph.node).op_type = _one(rng, graph.node).op_type


def _onnx_initializer(rng: np.random.Generator, graph: Any) -> None:
    """Another shape, type or value of a constant."""
    tensor = _one(rng, graph.initializer)
    array = onnx.numpy_helper.to_array(tensor)
    match int(rng.integers(3)):
        case 0:
            dims = _shape(rng, tensor.dims)
            del tensor.dims[:]
            tensor.dims.extend(dims)
        case 1:
            dtype = _one(rng, (np.int8, np.uint8, np.int16, np.int32, np.int64, np.float32, bool))
            tensor.CopyFrom(onnx.numpy_helper.from_array(array.astype(dtype), tensor.name))
        case _:
            other = onnx.numpy_helper.to_array(_one(rng, graph.initializer))
            tensor.CopyFrom(onnx.numpy_helper.from_array(other, tensor.name))


def _onnx_border(rng: np.random.Generator, graph: Any) -> None:
    """An input of another shape or type, or an inner value as one more output."""
    if rng.random() < 0.5:
        graph.output.add().name = _one(rng, [v for n in graph.node for v in n.output])
        return
    kind = _one(rng, graph.input).type.tensor_type
    if rng.random() < 0.3:
        kind.elem_type = int(rng.integers(1, 17))
        return
    sizes = _shape(rng, [d.dim_value for d in kind.shape.dim])
    del kind.shape.dim[:]
    for size in sizes:
        kind.shape.dim.add().dim_value = size


def _onnx_repeat(rng: np.random.Generator, graph: Any) -> None:
    """A node twice, with outputs of its own that somebody reads, or not at all."""
    node = _one(rng, graph.node)
    if rng.random() < 0.3:
        graph.node.remove(node)
        return
    twin = graph.node.add()
    twin.CopyFrom(node)
    if rng.random() < 0.7:
        reader = _one(rng, graph.node)
        for number, name in enumerate(node.output):
            twin.output[number] = f"{name}'"
            for place, value in enumerate(reader.input):
                if value == name:
                    reader.input[place] = twin.output[number]


def _onnx_order(rng: np.random.Generator, graph: Any) -> None:
    nodes = [onnx.NodeProto.FromString(node.SerializeToString()) for node in graph.node]
    _exchange(rng, nodes)
    del graph.node[:]
    graph.node.extend(nodes)


ONNX = (
    *(_onnx_operands, _onnx_rewire, _onnx_attribute, _onnx_operator, _onnx_initializer),
    *(_onnx_border, _onnx_repeat, _onnx_order),
)


def _tflite_operands(rng: np.random.Generator, model: Any) -> None:
    _exchange(rng, _one(rng, model.subgraphs[0].operators).inputs)


def _tflite_rewire(rng: np.random.Generator, model: Any) -> None:
    graph = model.subgraphs[0]
    operator = _one(rng, graph.operators)
    ends = operator.inputs if rng.random() < 0.8 else operator.outputs
    ends[int(rng.integers(len(ends)))] = int(rng.integers(-1, len(graph.tensors)))


def _tflite_options(rng: np.random.Generator, model: Any) -> None:
    """Another operator's table of options, or none."""
    to, source = (_one(rng, model.subgraphs[0].operators) for _ in range(2))
    if rng.random() < 0.3:
        to.builtinOptions, to.builtinOptionsType = None, 0
    else:
        to.builtinOptions = source.builtinOptions
        to.builtinOptionsType = source.builtinOptionsType


def _tflite_operator(rng: np.random.Generator, model: Any) -> None:
    to, source = (_one(rng, model.subgraphs[0].operators) for _ in range(2))
    to.opcodeIndex = source.opcodeIndex


def _tflite_tensor(rng: np.random.Generator, model: Any) -> None:
    """Another type, shape, buffer or quantisation."""
    tensors = model.subgraphs[0].tensors
    tensor, other = _one(rng, tensors), _one(rng, tensors)
    match int(rng.integers(4)):
        case 0:
            tensor.type = int(rng.integers(0, 18))
        case 1:
            tensor.shape = _shape(rng, [int(size) for size in tensor.shape])
        case 2:
            tensor.buffer = other.buffer
        case _:
            tensor.quantization = other.quantization


def _tflite_quantisation(rng: np.random.Generator, model: Any) -> None:
    """Of another dimension, with fewer or more factors."""
    quantised = [t.quantization for t in model.subgraphs[0].tensors if t.quantization is not None]
    found = _one(rng, quantised)
    if rng.random() < 0.5:
        found.quantizedDimension = int(rng.integers(-1, 5))
    else:
        count = int(rng.integers(0, 9))
        found.scale = np.resize(found.scale, count).astype(np.float32)
        found.zeroPoint = np.resize(found.zeroPoint, count).astype(np.int64)


def _tflite_border(rng: np.random.Generator, model: Any) -> None:
    graph = model.subgraphs[0]
    ends = [int(i) for i in (graph.inputs if rng.random() < 0.4 else graph.outputs)]
    ends.append(int(rng.integers(len(graph.tensors))))
    if rng.random() < 0.3:
        ends.pop(0)
    if rng.random() < 0.4:
        graph.inputs = ends
    else:
        graph.outputs = ends


def _tflite_repeat(rng: np.random.Generator, model: Any) -> None:
    """An operator twice, left out, or elsewhere."""
    operators = model.subgraphs[0].operators
    at = int(rng.integers(len(operators)))
    match int(rng.integers(3)):
        case 0:
            operators.insert(at, operators[at])
        case 1:
            del operators[at]
        case _:
            _exchange(rng, operators)


TFLITE = (
    *(_tflite_operands, _tflite_rewire, _tflite_options, _tflite_operator, _tflite_tensor),
    *(_tflite_quantisation, _tflite_border, _tflite_repeat),
)
