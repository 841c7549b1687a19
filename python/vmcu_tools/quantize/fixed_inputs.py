# SPDX-License-Identifier: Apache-2.0
"""Inputs that become constants, such as an attention mask of ones."""

from __future__ import annotations

import difflib
import re
from collections.abc import Iterator, Sequence
from itertools import islice

import numpy as np
import onnx
from onnx import helper, numpy_helper

from ..errors import Problem, UserError

_RANGE = re.compile(r"(-?\d+)\.\.(-?\d+)", re.ASCII)
_FORM = "write NAME=1, NAME=0,0,1,1 or NAME=0..15, both ends included"


def fix_inputs(model: onnx.ModelProto, settings: Sequence[str], file: str) -> None:
    """Makes an initializer of each input NAME of the settings "NAME=VALUE", of one number for all
    elements or of as many as it has. Raises UserError for a setting that does not fit."""
    graph = model.graph
    constants = {tensor.name for tensor in graph.initializer}
    inputs = {value.name: value for value in graph.input if value.name not in constants}
    for setting in settings:
        name, _, text = setting.rpartition("=")
        if name not in inputs:
            close = difflib.get_close_matches(name, inputs, 1) or [*inputs]
            hint = f"its inputs are {', '.join(close)}" if name else _FORM
            raise UserError(Problem(f"--constant {setting}: no such input", hint, file))
        value = inputs.pop(name)
        graph.initializer.append(numpy_helper.from_array(_filled(value, text, file), name))
        graph.input.remove(value)


def _filled(value: onnx.ValueInfoProto, text: str, file: str) -> np.ndarray:
    kind = value.type.tensor_type
    shape = [d.dim_value for d in kind.shape.dim]
    # A symbolic batch is one.
    shape[:1] = [size or 1 for size in shape[:1]]
    if min(shape, default=1) < 1:
        reason = f"--constant: the input has the dynamic shape {shape}"
        raise UserError(Problem(reason, "export it with fixed sizes", file, value.name))
    count, dtype = int(np.prod(shape)), helper.tensor_dtype_to_np_dtype(kind.elem_type)
    try:
        numbers = np.array([*islice(_numbers(text), count + 1)], np.float64)
        with np.errstate(invalid="ignore"):
            array = numbers.astype(dtype)
    except (OverflowError, TypeError, ValueError):
        raise UserError(Problem(f"--constant: '{text}'", _FORM, file, value.name)) from None
    if dtype.kind in "biu" and not np.array_equal(array, numbers):
        raise UserError(Problem(f"--constant: '{text}' is no {dtype}", _FORM, file, value.name))
    if len(array) not in (1, count):
        reason = f"--constant: the input has {count} elements, not as many as '{text}'"
        raise UserError(Problem(reason, _FORM, file, value.name))
    return np.broadcast_to(array, count).reshape(shape)


def _numbers(text: str) -> Iterator[float]:
    for part in text.split(","):
        if ends := _RANGE.fullmatch(part.strip()):
            yield from range(int(ends[1]), int(ends[2]) + 1)
        else:
            yield float(part)
