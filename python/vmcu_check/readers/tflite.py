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

from ..plans import LiveSpan, MemoryPlan, PlanFileError, PlannedBuffer
from .flatbuffer import FlatTable, damaged

IDENTIFIER = b"TFL3"
KEY = "OfflineMemoryAllocation"
UNPLANNED = -1
# Version, number of the subgraph, number of tensors.
HEADER_WORDS = 3
ALIGNMENT = 16
# Bits of an element by TensorType, 0 for those without a fixed size.
ITEM_BITS = (32, 16, 32, 8, 64, 0, 8, 16, 64, 8, 64, 128, 64, 32, 0, 32, 16, 4)
# IF, WHILE and CALL_ONCE: the number of fields of their options that name subgraphs.
CALLS = {118: 2, 119: 2, 129: 1}
NPU = "ethos-u"
# Its inputs that are memory: scratch and fast scratch.
NPU_MEMORY = slice(2, 4)
MOST_STEPS = 1_000_000


class _Walk:
    """Runs the subgraphs. `lives`: first and last step by subgraph, tensor and run."""

    def __init__(self, model: FlatTable):
        self.codes, self.graphs = model.tables(1), model.tables(2)
        self.operators = [graph.tables(3) for graph in self.graphs]
        self.steps: list[str] = []
        self.lives: dict[tuple[int, int], list[list[int]]] = {}
        self.scratch: set[tuple[int, int]] = set()

    def run(self, number: int, callers: tuple[int, ...] = ()) -> None:
        """One run of a subgraph."""
        is_known = 0 <= number < len(self.graphs)
        if not is_known or number in callers or len(self.steps) > MOST_STEPS:
            raise damaged()
        where = f"subgraph {number} " if number else ""
        graph, start = self.graphs[number], len(self.steps)
        self.steps.append(f"{where}inputs")
        lives = {tensor: [start, start] for tensor in graph.numbers(1)}

        def use(tensors: list[int], first: int, last: int) -> None:
            for tensor in tensors:
                lives.setdefault(tensor, [first, first])[1] = last

        for at, operator in enumerate(self.operators[number]):
            inputs, outputs, kind = (
                operator.numbers(1),
                operator.numbers(2),
                operator.number(0, "I"),
            )
            if kind >= len(self.codes):
                raise damaged()
            code, read, end = self.codes[kind], len(self.steps), len(self.steps)
            self.steps.append(f"{where}operator {at}")
            if code.text(1) == NPU:
                end += 1
                self.steps.append(f"{where}operator {at} end")
                self.scratch |= {(number, tensor) for tensor in inputs[NPU_MEMORY]}
                del inputs[NPU_MEMORY]
            use(outputs, end, end)
            fields = CALLS.get(max(code.number(0, "b"), code.number(3)), 0)
            options = operator.table(4)
            for field in range(fields if options else 0):
                self.run(options.number(field) if options else 0, (*callers, number))
                read = end = len(self.steps) - 1
            use(inputs, start, read)
            use(outputs, end, end)
        use(graph.numbers(2), start, len(self.steps) - 1)
        for tensor, life in lives.items():
            self.lives.setdefault((number, tensor), []).append(life)


def _offsets(model: FlatTable, buffers: list[FlatTable]) -> list[int]:
    """Offsets by tensor, those of all subgraphs behind each other."""
    for entry in model.tables(6):
        number = entry.number(1, "I")
        if entry.text(0) == KEY:
            data = bytes(buffers[number].numbers(0, "B")) if number < len(buffers) else b""
            words = [word for (word,) in struct.iter_unpack("<i", data[: len(data) // 4 * 4])]
            if len(words) < HEADER_WORDS or len(words) - HEADER_WORDS != words[2]:
                raise PlanFileError(f"metadata '{KEY}' is damaged", "write the plan again")
            return words[HEADER_WORDS:]
    reason = f"no memory plan: the file has no metadata '{KEY}'"
    raise PlanFileError(reason, "write one with `vmcu place MODEL.tflite --output FILE`")


def _bytes(tensor: FlatTable, name: str) -> int:
    shape, kind = tensor.numbers(0), tensor.number(1, "B")
    if kind >= len(ITEM_BITS) or not ITEM_BITS[kind] or any(extent < 0 for extent in shape):
        raise PlanFileError(f"tensor '{name}' has no fixed size", "convert with fixed shapes")
    return -(-math.prod(shape) * ITEM_BITS[kind] // 8)


def read(data: bytes) -> MemoryPlan:
    """Returns the plan; PlanFileError."""
    model = FlatTable(data)
    buffers, walk = model.tables(4), _Walk(model)
    offsets = _offsets(model, buffers)
    walk.run(0)
    tensors = [(n, t) for n, graph in enumerate(walk.graphs) for t in enumerate(graph.tables(0))]
    if len(offsets) != len(tensors):
        reason = f"metadata '{KEY}' has {len(offsets)} tensors, the file has {len(tensors)}"
        raise PlanFileError(reason, "write the plan again")
    planned, unplanned, notes = [], 0, []
    for (graph, (number, tensor)), offset in zip(tensors, offsets, strict=True):
        name = (tensor.text(3) or f"tensor {number}") + (f" (subgraph {graph})" if graph else "")
        stored = tensor.number(2, "I")
        if stored >= len(buffers) or offset < UNPLANNED:
            raise damaged()
        lives = walk.lives.get((graph, number), [])
        if buffers[stored].vector(0) or buffers[stored].number(2, "Q") or tensor.number(5, "b"):
            continue
        if (graph, number) in walk.scratch:
            notes.append(
                f"the {_bytes(tensor, name):,} bytes of '{name}' are not checked: their plan is in "
                f"the command stream of {NPU}"
            )
        elif offset == UNPLANNED:
            unplanned += bool(lives) and _bytes(tensor, name) > 0
        else:
            end = offset + _bytes(tensor, name)
            spans = tuple(LiveSpan(first, last + 1, offset, end) for first, last in lives)
            planned.append(PlannedBuffer(name, "arena", spans, ALIGNMENT))
    if unplanned:
        notes.append(f"{unplanned} tensors are not checked: the interpreter chooses their offsets")
    if not planned:
        raise PlanFileError(f"no memory plan: '{KEY}' has no offset", "plan the tensors first")
    is_partial = bool(walk.scratch)
    return MemoryPlan(KEY, tuple(planned), tuple(walk.steps), tuple(notes), is_partial)
