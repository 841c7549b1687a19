# SPDX-License-Identifier: Apache-2.0
"""Samples in the file's own form, as image/values.c reads and writes them."""

from __future__ import annotations

import itertools
from collections.abc import Sequence

import numpy as np
from vmcu_tools.graph import Port
from vmcu_tools.plan.plan import Plan

from .base import RunnerError
from .borders import UINT8_OFFSET, to_memory

# enum value_form
BYTES, FLOAT, UINT8 = range(3)
FORMS = {"float32": FLOAT, "uint8": UINT8, "int8": UINT8}
FORMS |= dict.fromkeys(("int16", "int32", "int64"), BYTES)
ITEM_BYTES = {BYTES: 1, FLOAT: 4, UINT8: 1}


def forms_of(plan: Plan) -> tuple[list[int], list[int]]:
    """Returns the form of each input's and each output's values. int8 goes as uint8, 128 above:
    memory needs no conversion of int8, only another order of axes. An input that the pool does not
    hold whole is converted here."""
    inputs = [FORMS[port.dtype] for port in plan.graph.inputs]
    alone = plan.input_streamed or plan.graph.elsewhere
    return [BYTES] if alone else inputs, [FORMS[p.dtype] for p in plan.graph.outputs]


def most_bytes(plan: Plan) -> int:
    """The largest input or output, as values."""
    ports = (*plan.graph.inputs, *plan.graph.outputs)
    forms = itertools.chain(*forms_of(plan))
    sizes = [plan.graph.tensors[port.tensor].bytes for port in ports]
    return max(size * ITEM_BYTES[form] for size, form in zip(sizes, forms, strict=True))


def packed(plan: Plan, samples: Sequence[Sequence[np.ndarray]]) -> bytes:
    """INPUT_FILE: the ports' forms, and every sample's inputs in port order."""
    inputs, outputs = forms_of(plan)
    data = bytearray([*inputs, *outputs])
    for sample in samples:
        for port, form, values in zip(plan.graph.inputs, inputs, sample, strict=True):
            if form == FLOAT:
                values = values.astype("<f4")
            elif form == BYTES:
                values = to_memory(values, plan.graph, port)
            elif values.dtype == np.int8:
                values = (values.astype(np.int16) + UINT8_OFFSET).astype(np.uint8)
            data += values.tobytes()
    return bytes(data)


def unpacked(data: bytes, plan: Plan, samples: int, target: str) -> list[list[np.ndarray]]:
    """The outputs of all samples in OUTPUT_FILE, each in port order and in the file's form."""
    _, forms = forms_of(plan)
    ports = list(zip(plan.graph.outputs, forms, strict=True))
    sizes = [plan.graph.tensors[port.tensor].bytes * ITEM_BYTES[form] for port, form in ports]
    if len(data) != samples * sum(sizes):
        raise RunnerError(f"{target}: {len(data)} bytes of output, not {samples * sum(sizes)}")
    ends = np.cumsum([size for _ in range(samples) for size in sizes])
    parts = iter(np.split(np.frombuffer(data, np.uint8), ends[:-1]))
    return [[_values(next(parts), port) for port, _ in ports] for _ in range(samples)]


def _values(part: np.ndarray, port: Port) -> np.ndarray:
    if port.dtype == "float32":
        values = part.view("<f4")
    elif port.dtype == "uint8":
        values = part
    elif port.dtype == "int8":
        values = (part.astype(np.int16) - UINT8_OFFSET).astype(np.int8)
    else:
        values = part.view(f"<i{port.element_bytes}").astype(port.dtype)
    return values.reshape(port.file_shape)
