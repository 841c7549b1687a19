# SPDX-License-Identifier: Apache-2.0
"""The memory plan in a .tflite file: metadata OfflineMemoryAllocation, also of Vela.

Lifetimes are those of TensorFlow Lite Micro's interpreter: an operator is a step, its inputs and
outputs are alive in it, and subgraphs run between the start and the end of the operator that calls
them. An operator of the Ethos-U reads its inputs at its start and has its outputs at its end: the
plan of the time between is in its command stream, as is that of its scratch tensors.
"""

from __future__ import annotations

import math
import struct

from ..plans import MemoryPlan, PlanFileError, PlannedBuffer, Span
from .flatbuffer import Table, damaged, root

IDENTIFIER = b"TFL3"
KEY = "OfflineMemoryAllocation"
NO_PLAN = f"no memory plan: the file has no metadata '{KEY}'"
UNPLANNED = -1
# Version, number of the subgraph, number of tensors.
HEADER_WORDS = 3
ALIGNMENT = 16
# Bits of an element by TensorType.
BITS = {
    **{0: 32, 1: 16, 2: 32, 3: 8, 4: 64, 6: 8, 7: 16, 8: 64, 9: 8, 10: 64},
    **{11: 128, 12: 64, 13: 32, 15: 32, 16: 16, 17: 4},
}
# IF, WHILE and CALL_ONCE: the number of fields of their options that name subgraphs.
CALLS = {118: 2, 119: 2, 129: 1}
NPU = "ethos-u"
# Its inputs that are memory: scratch and fast scratch.
NPU_MEMORY = slice(2, 4)
MOST_STEPS = 1_000_000


class _Walk:
    """Runs the subgraphs. `lives`: first and last step by subgraph, tensor and run."""

    def __init__(self, model: Table):
        self.codes = model.tables(1)
        self.graphs = model.tables(2)
        self.operators = [graph.tables(3) for graph in self.graphs]
        self.steps: list[str] = []
        self.lives: dict[tuple[int, int], list[list[int]]] = {}
        self.scratch: dict[tuple[int, int], None] = {}

    def step(self, name: str) -> int:
        """Adds a step and returns its number."""
        if len(self.steps) == MOST_STEPS:
            raise damaged()
        self.steps.append(name)
        return len(self.steps) - 1

    def run(self, number: int, callers: tuple[int, ...] = ()) -> None:
        """One run of a subgraph."""
        if not 0 <= number < len(self.graphs) or number in callers:
            raise damaged()
        where = f"subgraph {number} " if number else ""
        graph, start = self.graphs[number], self.step(f"{where}inputs")
        lives = {tensor: [start, start] for tensor in graph.numbers(1)}
        for at, operator in enumerate(self.operators[number]):
            inputs, outputs = operator.numbers(1), operator.numbers(2)
            code = operator.number(0, "I")
            if code >= len(self.codes):
                raise damaged()
            begin = self.step(f"{where}operator {at}")
            end = begin
            if self.codes[code].text(1) == NPU:
                end = self.step(f"{where}operator {at} end")
                self.scratch |= {(number, t): None for t in inputs[NPU_MEMORY]}
                del inputs[NPU_MEMORY]
            self._mark(lives, outputs, end)
            for called in self._called(operator, self.codes[code]):
                self.run(called, (*callers, number))
                end = begin = len(self.steps) - 1
            for tensor in inputs:
                lives.setdefault(tensor, [start, begin])[1] = begin
            self._mark(lives, outputs, end)
        self._mark(lives, graph.numbers(2), len(self.steps) - 1)
        for tensor, life in lives.items():
            self.lives.setdefault((number, tensor), []).append(life)

    @staticmethod
    def _mark(lives: dict[int, list[int]], tensors: list[int], step: int) -> None:
        for tensor in tensors:
            lives.setdefault(tensor, [step, step])[1] = step

    @staticmethod
    def _called(operator: Table, code: Table) -> list[int]:
        fields = CALLS.get(max(code.number(0, "b"), code.number(3)), 0)
        options = operator.table(4) if fields else None
        return [options.number(field) for field in range(fields)] if options else []


def _offsets(model: Table, buffers: list[Table]) -> list[int]:
    """Offsets by tensor, those of all subgraphs behind each other."""
    for entry in model.tables(6):
        if entry.text(0) == KEY:
            number = entry.number(1, "I")
            data = bytes(buffers[number].numbers(0, "B")) if number < len(buffers) else b""
            words = [word for (word,) in struct.iter_unpack("<i", data[: len(data) // 4 * 4])]
            if len(words) < HEADER_WORDS or len(words) - HEADER_WORDS != words[2]:
                raise PlanFileError(f"metadata '{KEY}' is damaged", "write the plan again")
            return words[HEADER_WORDS:]
    raise PlanFileError(NO_PLAN, "write one with `vmcu place MODEL.tflite --output FILE`")


def _bytes(tensor: Table, name: str) -> int:
    shape, kind = tensor.numbers(0), tensor.number(1, "b")
    if kind not in BITS or any(extent < 0 for extent in shape):
        raise PlanFileError(f"tensor '{name}' has no fixed size", "convert with fixed shapes")
    return -(-math.prod(shape) * BITS[kind] // 8)


def read(data: bytes) -> MemoryPlan:
    """Returns the plan; PlanFileError."""
    model = root(data)
    buffers = model.tables(4)
    offsets = _offsets(model, buffers)
    walk = _Walk(model)
    walk.run(0)
    tensors = [(n, t) for n, graph in enumerate(walk.graphs) for t in enumerate(graph.tables(0))]
    if len(offsets) != len(tensors):
        reason = f"metadata '{KEY}' has {len(offsets)} tensors, the file has {len(tensors)}"
        raise PlanFileError(reason, "write the plan again")
    planned, unplanned, notes = [], 0, []
    for (graph, (number, tensor)), offset in zip(tensors, offsets, strict=True):
        name = (tensor.text(3) or f"tensor {number}") + (f" (subgraph {graph})" if graph else "")
        stored = tensor.number(2, "I")
        if stored >= len(buffers):
            raise damaged()
        if buffers[stored].length(0) or buffers[stored].number(2, "Q") or tensor.number(5, "b"):
            continue
        if (graph, number) in walk.scratch:
            notes.append(
                f"the {_bytes(tensor, name):,} bytes of '{name}' are not checked: their plan is in "
                f"the command stream of {NPU}"
            )
        elif offset >= 0:
            end = offset + _bytes(tensor, name)
            lives = walk.lives.get((graph, number), [])
            spans = tuple(Span(first, last + 1, offset, end) for first, last in lives)
            planned.append(PlannedBuffer(name, "arena", spans, ALIGNMENT))
        elif offset != UNPLANNED:
            raise PlanFileError(f"tensor '{name}' is at offset {offset}", "write the plan again")
        else:
            unplanned += (graph, number) in walk.lives
    if unplanned:
        notes.append(f"{unplanned} tensors are not checked: the interpreter chooses their offsets")
    if not planned:
        raise PlanFileError(f"no memory plan: '{KEY}' has no offset", "plan the tensors first")
    is_partial = bool(walk.scratch)
    return MemoryPlan(KEY, tuple(planned), tuple(walk.steps), tuple(notes), is_partial)
