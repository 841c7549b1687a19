# SPDX-License-Identifier: Apache-2.0
"""Files of single operators with one thing changed, each under a name that says what."""

from __future__ import annotations

from collections.abc import Callable, Iterator

import numpy as np
import onnx
from builders import (
    onnx_exports,
    onnx_functions,
    onnx_models,
    onnx_norms,
    onnx_ops,
    onnx_options,
    onnx_qoperators,
)
from builders.onnx_models import OnnxModel, single
from onnx import AttributeProto, helper, numpy_helper

Models = dict[str, Callable[[], onnx.ModelProto]]


def _rows(opset: int, table: dict[str, tuple]) -> Models:
    return {
        f"{name} ({opset})": lambda row=row: single(OnnxModel(opset=opset), *row)
        for name, row in table.items()
    }


def sound_onnx() -> Models:
    """By name, what makes a sound file."""
    found = _rows(13, onnx_models.CASES)
    for table in (onnx_ops.CASES, onnx_norms.CASES, onnx_exports.CASES):
        found |= _rows(17, table)
    for name, (opset, *row) in onnx_options.CASES.items():
        found |= _rows(opset, {name: row})
    for name, case in onnx_functions.CASES.items():
        found[f"{name} (function)"] = lambda case=case: case.model(np.int8)
    for name, row in onnx_qoperators.CASES.items():
        found[f"{name} (QOperator)"] = lambda row=row: onnx_qoperators.single(*row)
    for op, given in onnx_options.INDICES:
        name = f"{op} {' '.join(f'{key}={value}' for key, value in given.items())}".strip()
        found[name] = lambda op=op, given=given: onnx_options.index_of_extreme(op, **given)
    return found


def _constants(values: np.ndarray) -> Iterator[tuple[str, np.ndarray]]:
    """What stands in a constant's place."""
    yield "with a dimension more", values[None]
    yield "twice", np.concatenate([values, values]) if values.ndim else np.stack([values, values])
    yield "empty", values.reshape(-1)[:0]
    yield "a step more", values + values.dtype.type(1)
    yield "a hundred more", (values + values.dtype.type(100)).astype(values.dtype)
    yield "negative", np.negative(values.astype(np.float64)).astype(values.dtype)
    yield "zero", np.zeros_like(values)
    if values.ndim > 1:
        yield "transposed", np.ascontiguousarray(values.swapaxes(0, -1))
    if values.dtype.kind == "f":
        yield "no number", np.full_like(values, np.nan)
        yield "huge", np.full_like(values, 3e38)
    else:
        yield "in float", values.astype(np.float32)


def _attributes(attribute: AttributeProto) -> Iterator[object]:
    match attribute.type:
        case AttributeProto.INT:
            yield from (attribute.i + 1, attribute.i - 1, 0, 9, -9)
        case AttributeProto.INTS:
            ints = list(attribute.ints)
            yield from (ints[:-1] or [1, 1], [*ints, 1], [n + 1 for n in ints], ints[::-1])
            yield from ([-1, *ints[1:]], [n * 100 for n in ints])
        case AttributeProto.FLOAT:
            yield from (-attribute.f, float("nan"))
        case AttributeProto.STRING:
            yield "nonsense"


SOUND = sound_onnx()
# Attributes that a file may have, and that importers take some values of only.
ADDED: dict[str, object] = {
    **{"auto_pad": "SAME_UPPER", "axis": 7, "group": 3, "kernel_shape": [2, 2], "mode": "cubic"},
    **{"keepdims": 0, "transA": 1, "alpha": 2.0, "beta": 2.0, "perm": [1, 0, 2, 3], "to": 7},
    **{"output_shape": [9, 9], "output_padding": [1, 1], "antialias": 1, "batch_dims": 1},
    **{"training_mode": 1, "block_size": 2, "p": 1, "storage_order": 1, "pads": [9, 9, 9, 9]},
    **{"coordinate_transformation_mode": "tf_crop_and_resize", "nearest_mode": "nonsense"},
    **{"noop_with_empty_axes": 1, "axes": [0], "direction": "reverse", "auto": 1},
}


def changes(case: str) -> Iterator[tuple[str, onnx.ModelProto]]:
    """The model of a case with one thing changed, and what."""
    model = SOUND[case]()
    for number, node in enumerate(model.graph.node):
        who = f"{node.op_type} {number}"
        yield from _of_inputs(model, number, who)
        yield from _of_attributes(model, number, who)
    for place, port in enumerate(model.graph.input):
        dims = [d.dim_value for d in port.type.tensor_type.shape.dim]
        for shape in ([*dims, 1], dims[1:], [3, *dims[1:]], [1, 1, *dims], [0] * len(dims)):
            other = _copy(model)
            kind = port.type.tensor_type.elem_type
            info = helper.make_tensor_value_info(port.name, kind, shape)
            other.graph.input[place].CopyFrom(info)
            yield f"input {place} of shape {shape}", other
        for name in ("INT8", "UINT8", "INT32", "FLOAT16"):
            other = _copy(model)
            kind = getattr(onnx.TensorProto, name)
            info = helper.make_tensor_value_info(port.name, kind, dims)
            other.graph.input[place].CopyFrom(info)
            yield f"input {place} of {name}", other
    for node in model.graph.node:
        for name in node.output:
            other = _copy(model)
            other.graph.output[0].name = name
            yield f"the output of {node.op_type} as the model's", other


def _copy(model: onnx.ModelProto) -> onnx.ModelProto:
    other = onnx.ModelProto()
    other.CopyFrom(model)
    return other


def _with(model: onnx.ModelProto, number: int, place: int, values: np.ndarray) -> onnx.ModelProto:
    """Constants in place of a node's input."""
    other = _copy(model)
    other.graph.initializer.append(numpy_helper.from_array(values, "changed"))
    other.graph.node[number].input[place] = "changed"
    return other


def _of_inputs(
    model: onnx.ModelProto, number: int, who: str
) -> Iterator[tuple[str, onnx.ModelProto]]:
    constants = {tensor.name: tensor for tensor in model.graph.initializer}
    for place, name in enumerate(model.graph.node[number].input):
        other = _copy(model)
        other.graph.node[number].input[place] = ""
        yield f"{who}: input {place} left out", other
        other = _copy(model)
        other.graph.node[number].input.append(name)
        yield f"{who}: input {place} once more", other
        if name in constants:
            other = _copy(model)
            other.graph.node[number].input[place] = model.graph.input[0].name
            yield f"{who}: input {place} the model's", other
            for what, values in _constants(numpy_helper.to_array(constants[name])):
                yield f"{who}: input {place} {what}", _with(model, number, place, values)
        else:
            floats = np.ones((1, 2), np.float32)
            yield f"{who}: input {place} a constant", _with(model, number, place, floats)
    other = _copy(model)
    other.graph.node[number].output.append("further")
    yield f"{who}: a further output", other


def _of_attributes(
    model: onnx.ModelProto, number: int, who: str
) -> Iterator[tuple[str, onnx.ModelProto]]:
    node = model.graph.node[number]
    values = [(a.name, value) for a in node.attribute for value in _attributes(a)]
    if node.op_type not in ("QuantizeLinear", "DequantizeLinear"):
        values += list(ADDED.items())
    for name, value in values:
        other = _copy(model)
        same = other.graph.node[number]
        for there in [a for a in same.attribute if a.name == name]:
            same.attribute.remove(there)
        same.attribute.append(helper.make_attribute(name, value))
        yield f"{who}: {name} = {value}", other
