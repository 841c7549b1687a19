# SPDX-License-Identifier: Apache-2.0
"""Single operators of .tflite files with one thing changed, each under a name that says what."""

from __future__ import annotations

import copy
import math
from collections.abc import Iterator

import numpy as np
from builders import tflite_models, tflite_ops, tflite_options, tflite_tables, tflite_wide
from builders.tflite_models import TfliteModel, schema

SOUND = {
    **tflite_models.CASES,
    **tflite_ops.CASES,
    **tflite_options.CASES,
    **tflite_tables.CASES,
    **tflite_wide.CASES,
}
Changed = Iterator[tuple[str, TfliteModel]]
_NAMES = {number: name for name, number in vars(schema.BuiltinOperator).items() if name.isupper()}


def changes(case: str) -> Changed:
    """The model of a case with one thing changed, and what; inputs and outputs are its graph's."""
    m = TfliteModel(2)
    m.graph.inputs, m.graph.outputs = map(list, SOUND[case](m))
    for number, op in enumerate(m.graph.operators):
        name = f"{_NAMES[m.model.operatorCodes[op.opcodeIndex].builtinCode]} {number}"
        yield from _of_operands(m, number, name)
        yield from _of_options(m, number, name)
        for place, tensor in enumerate([*op.inputs, *op.outputs]):
            if tensor >= 0:
                yield from _of_tensor(m, tensor, f"{name}: tensor {place}")


def _of_operands(m: TfliteModel, number: int, name: str) -> Changed:
    for place, tensor in enumerate(m.graph.operators[number].inputs):
        other = copy.deepcopy(m)
        other.graph.operators[number].inputs[place] = -1
        yield f"{name}: input {place} left out", other
        other = copy.deepcopy(m)
        other.graph.operators[number].inputs.append(tensor)
        yield f"{name}: input {place} once more", other
        other = copy.deepcopy(m)
        other.graph.operators[number].inputs[place] = m.graph.inputs[0]
        yield f"{name}: input {place} the model's", other
        other = copy.deepcopy(m)
        other.graph.operators[number].inputs.pop()
        yield f"{name}: an input less", other


def _of_options(m: TfliteModel, number: int, name: str) -> Changed:
    options = m.graph.operators[number].builtinOptions
    for option, value in sorted(vars(options).items()) if options is not None else ():
        values: list[object] = []
        if isinstance(value, bool):
            values = [not value]
        elif isinstance(value, int):
            values = [0, 1, 2, 3, 4, 100, -1]
        elif isinstance(value, float):
            values = [-value, value + 1, float("nan")]
        for another in values:
            other = copy.deepcopy(m)
            setattr(other.graph.operators[number].builtinOptions, option, another)
            yield f"{name}: {option} = {another}", other
    other = copy.deepcopy(m)
    other.graph.operators[number].builtinOptions = None
    yield f"{name}: no options", other


def _of_tensor(m: TfliteModel, tensor: int, name: str) -> Changed:
    shape = [int(size) for size in m.graph.tensors[tensor].shape]
    shapes = ([*shape, 1], shape[1:], [1, *shape], [3, *shape[1:]], [n + 1 for n in shape], [])
    for changed in shapes:
        other = copy.deepcopy(m)
        other.graph.tensors[tensor].shape = changed
        yield f"{name} of shape {changed}", other
    data = m.model.buffers[m.graph.tensors[tensor].buffer].data
    for changed in () if data is None else (*shapes, shape[::-1], [n + n % 2 + 1 for n in shape]):
        other = copy.deepcopy(m)
        filled = len(data) * math.prod(changed) // max(math.prod(shape), 1)
        other.graph.tensors[tensor].shape = changed
        other.model.buffers[other.graph.tensors[tensor].buffer].data = np.resize(data, filled)
        yield f"{name} of shape {changed}, filled", other
    for kind in ("FLOAT32", "INT32", "INT64", "UINT8", "INT16", "BOOL"):
        other = copy.deepcopy(m)
        other.graph.tensors[tensor].type = getattr(schema.TensorType, kind)
        yield f"{name} of {kind}", other
    if m.graph.tensors[tensor].quantization is None:
        return
    other = copy.deepcopy(m)
    other.graph.tensors[tensor].quantization = None
    yield f"{name} without a scale", other
    for scale in (0.0, 1e-30, 3e38, 0.123):
        other = copy.deepcopy(m)
        found = other.graph.tensors[tensor].quantization
        found.scale = np.full_like(found.scale, scale)
        yield f"{name} of scale {scale}", other
    other = copy.deepcopy(m)
    found = other.graph.tensors[tensor].quantization
    found.scale = np.repeat(found.scale, 2)
    yield f"{name} with twice the scales", other
    for zero in (-128, 5, 300):
        other = copy.deepcopy(m)
        found = other.graph.tensors[tensor].quantization
        found.zeroPoint = np.full_like(found.zeroPoint, zero)
        yield f"{name} of zero point {zero}", other
    buffer = m.graph.tensors[tensor].buffer
    if buffer:
        yield from _of_data(m, buffer, name)


def _of_data(m: TfliteModel, buffer: int, name: str) -> Changed:
    data = m.model.buffers[buffer].data
    ways = {
        "empty": data[:0],
        "inverted": ~data,
        "zero": np.zeros_like(data),
        "cut short": data[: len(data) // 2],
        "all bits": np.full_like(data, 255),
    }
    for what, changed in ways.items():
        other = copy.deepcopy(m)
        other.model.buffers[buffer].data = changed
        yield f"{name} {what}", other
