# SPDX-License-Identifier: Apache-2.0
"""The proof of the emitted C: it is read back and replayed before it leaves the house."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from typing import Any

import numpy as np

from ..machine import between, kernels, rotation, tables, workers
from ..machine.decoded import Claims, Decoded, decode
from ..machine.kernel_params import Row, kernel_params
from ..machine.mcu import VirtualMcu
from ..machine.tables import expect
from ..machine.weights import WeightsBuffer, read_arrays
from ..ops import Layer, ProgramLayer, kernel_of
from ..ops.values import ENUMERATORS, Array, Struct, StructArray, Value
from ..plan.plan import Plan

# A macro that gives a number its type.
_TYPED = re.compile(r"U?INT\d+_C\((-?\d+)\)")


def prove(files: Mapping[str, str], name: str, plan: Plan, weights: bytes = b"") -> Decoded:
    """Reads the files of model `name` back and replays an inference call by call, by their tables
    and with the kernels run on their constants.

    plan: whose graph, and which node each layer stands for; nothing else is taken from it. weights:
    the weights file, if the plan has one. Raises
    PlanError where a byte would be lost or overwritten, or computed otherwise than the graph means.
    """
    return prove_objects(tables.read(files, name), name, plan, weights)


def prove_objects(objects: tables.Objects, name: str, plan: Plan, weights: bytes = b"") -> Decoded:
    """prove() of tables in whatever form, as the objects that they are."""
    decoded = decode(objects, name, plan.graph, Claims.of(plan))
    buffers = WeightsBuffer(objects, name, weights, len(decoded.plan.stages))
    numbers = (number for number, steps in enumerate(decoded.plan.stages) for _ in steps)
    proven: set[kernels.Case] = set()
    for layer, row, stage in zip(decoded.layers, decoded.rows, numbers, strict=True):
        _check_kernel(decoded, objects, layer, row, proven, buffers.at(stage))
    if decoded.plan.rotation is None:
        VirtualMcu(decoded.plan, decoded.calls).prove()
    else:
        rotation.prove(decoded.plan, decoded.calls)
    if decoded.plan.team is not None:
        workers.prove(decoded.plan, decoded.calls)
    return decoded


def _check_kernel(
    decoded: Decoded,
    objects: tables.Objects,
    layer: Layer[Any],
    row: Row,
    proven: set[kernels.Case],
    buffer: bytes,
) -> None:
    """A layer's entry point and parameters are those of its node. proven: cases of programs that
    have been run. buffer: the weights buffer while the layer runs."""
    who = f"layer '{layer.node.name}'"
    wanted = kernel_of(decoded.plan.graph, layer)
    expect(row.kernel == wanted.symbol, f"{who} runs {row.kernel}")
    params = kernel_params(objects, row)
    if wanted.params is None:
        return
    params = read_arrays(wanted.params, params, buffer)
    expect(objects.types.get(row.params) == wanted.params.type, f"{who} has other parameters")
    expect(_same(wanted.params, params), f"{who} has other parameters")
    if isinstance(layer, ProgramLayer) and not layer.sums:
        _check_program(layer, params, proven)
    for member, part in layer.parts.items():
        within = params[member]
        assert isinstance(within, dict)
        _check_program(part, within, proven)
    if layer.parts:
        rotates = decoded.plan.rotation is not None
        between.check(layer.node.name, params, layer.out.shape, layer.scratch_bytes, rotates)


def _check_program(
    layer: ProgramLayer[Any], params: Mapping[str, Any], proven: set[kernels.Case]
) -> None:
    """The kernel of a layer, run on the parameters that were found for it."""
    stream = params.get("stream", np.zeros(0, np.uint32))
    assert isinstance(stream, np.ndarray)
    fields = dict.fromkeys(layer.binding.fields, 0) | dict(_flat(params))
    fields.pop("stream", None)
    kernels.check(layer, fields, stream.tobytes(), proven)


def _flat(members: Mapping[str, Any], head: str = "") -> Iterator[tuple[str, Any]]:
    """The members of structs within structs by their path."""
    for member, value in members.items():
        if isinstance(value, dict):
            yield from _flat(value, f"{head}{member}.")
        else:
            yield f"{head}{member}", value


def _same(wanted: Value, actual: object) -> bool:
    """True if the value that was read back is the wanted one; missing values are 0."""
    if isinstance(wanted, Struct):
        if isinstance(actual, int) and actual == 0:
            actual = {}
        if not isinstance(actual, dict):
            return False
        members = {**dict.fromkeys(actual, 0), **wanted.fields}
        return all(_same(value, actual.get(member, 0)) for member, value in members.items())
    if isinstance(wanted, StructArray):
        if not isinstance(actual, list) or len(wanted.items) != len(actual):
            return False
        return all(_same(*pair) for pair in zip(wanted.items, actual, strict=True))
    if isinstance(wanted, Array):
        if not isinstance(actual, np.ndarray) or actual.dtype != wanted.values.dtype:
            return False
        return np.array_equal(actual, np.ravel(wanted.values))
    return _text(wanted) == _text(actual)


def _text(scalar: object) -> str:
    """A number or a name, alike however C has it written."""
    text = str(int(scalar) if isinstance(scalar, bool) else scalar)
    typed = _TYPED.fullmatch(text)
    number = ENUMERATORS.get(text, typed[1] if typed else text)
    return "0" if text == "NULL" else str(number)
