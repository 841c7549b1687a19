# SPDX-License-Identifier: Apache-2.0
"""The memory plans in an ExecuTorch program, .pte: one for each method.

An instruction is a step. A tensor is alive from the first instruction that has it to the last,
inputs from the start, outputs to the end. All that is alive in a part of a loop and outside of it
is alive in all of the loop. Two kinds of tensors are read before any instruction writes them:

- a view has offset and size of a tensor that was written: both are one buffer, so that an overlap
  with exactly these bytes is not found
- a state keeps its bytes between calls: it is always alive

The file does not say which arguments of a delegate are its outputs. One without an earlier use is
an output, or a view if a tensor of equal offset and size is still alive.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from itertools import chain

from ..plans import LiveSpan, MemoryPlan, PlanFileError, PlannedBuffer
from .flatbuffer import FlatTable, damaged

IDENTIFIER = b"ET"
ALIGNMENT = 16
# Bytes of an element by ScalarType, 0 for those without a fixed size.
ITEM_BYTES = (
    *(1, 1, 2, 4, 8, 2, 4, 8, 4, 8, 16, 1, 1, 1, 4, 2, 1, 1),
    *(0, 0, 0, 0, 2, 1, 1, 1, 1, 2, 4, 8),
)
# Numbers of the unions KernelTypes and InstructionArguments.
TENSOR, TENSOR_LISTS = 5, (10, 11)
KERNEL, DELEGATE, MOVE, JUMP = 1, 2, 3, 4
NAMES = {DELEGATE: "delegate", MOVE: "move", JUMP: "jump"}
# An operator whose last argument is an index; it writes a part of the first.
COPY_INDEX = "executorch_prim::et_copy_index"


@dataclass
class _Life:
    """The first and last step of a tensor; place: memory, first byte, end. is_written: whether the
    first access is a write, None if unknown."""

    name: str
    place: tuple[int, int, int]
    first: int = -1
    last: int = -1
    is_written: bool | None = None


class _Method:
    """Runs a method. `lives` by value, only of those that the plan has."""

    def __init__(self, plan: FlatTable):
        self.name, self.values = plan.text(0), plan.tables(2)
        self.operators = {n: one.text(0) for n, one in enumerate(plan.tables(6))}
        self.lives = {n: life for n, v in enumerate(self.values) if (life := _planned(n, v))}
        self.loops: list[tuple[int, int]] = []
        self.steps = ["inputs"]
        self._use(plan.numbers(3), True)
        for one in plan.tables(5):
            start = len(self.steps)
            for instruction in one.tables(2):
                self._run(instruction, start)
        self.steps.append("outputs")
        for number in plan.numbers(4):
            self._use(self._tensors(number), False)

    def _tensors(self, number: int) -> list[int]:
        """A value, or those of a list of tensors."""
        if not 0 <= number < len(self.values):
            raise damaged()
        value = self.values[number]
        items = value.table(1) if value.number(0, "B") in TENSOR_LISTS else None
        return items.numbers(0) if items else [number]

    def _use(self, numbers: list[int], is_written: bool | None) -> None:
        for life in (self.lives[number] for number in numbers if number in self.lives):
            if life.first < 0:
                life.first, life.is_written = len(self.steps) - 1, is_written
                life.name += f" ({self.steps[-1].rpartition(' ')[2]})" if is_written else ""
            life.last = max(life.last, len(self.steps) - 1)

    def _run(self, instruction: FlatTable, start: int) -> None:
        """One instruction; start: the step of the first one of its chain."""
        kind, call, step = instruction.number(0, "B"), instruction.table(1), len(self.steps)
        if call is None:
            raise damaged()
        name = self.operators.get(call.number(0), "") if kind == KERNEL else NAMES.get(kind, "")
        self.steps.append(f"instruction {step - start} {name}")
        if kind in (MOVE, JUMP):
            self._use(self._tensors(call.number(0)), False)
            if kind == MOVE:
                self._use(self._tensors(call.number(1)), True)
            elif start + call.number(1) <= step:
                self.loops.append((start + call.number(1), step))
        elif kind in (KERNEL, DELEGATE):
            arguments = [self._tensors(argument) for argument in call.numbers(1)] or [[]]
            results = arguments[0 if name.startswith(COPY_INDEX) else -1]
            if kind == KERNEL and not name.endswith("_"):
                self._use([n for n in chain(*arguments) if n not in results], False)
                self._use(results, True)
            else:
                # The result of an operator such as add_ is an input.
                self._use(list(chain(*arguments)), None if kind == DELEGATE else False)

    def buffers(self, base: int) -> list[PlannedBuffer]:
        """The buffers; base: the number of the first step."""
        lives: list[_Life] = []
        latest: dict[tuple[int, int, int], _Life] = {}
        used = (life for life in self.lives.values() if life.first >= 0)
        for life in sorted(used, key=lambda life: life.first):
            before = latest.get(life.place)
            is_read = life.is_written is False
            if before and (is_read or (life.is_written is None and before.last >= life.first)):
                before.last, before.name = (
                    max(before.last, life.last),
                    f"{before.name}, {life.name}",
                )
                continue
            if is_read:
                life.first, life.last = 0, len(self.steps) - 1
            latest[life.place] = life
            lives.append(life)
        buffers = []
        for life in lives:
            for start, stop in sorted(self.loops, reverse=True):
                is_outside = life.first < start or life.last > stop
                if is_outside and life.first <= stop and life.last >= start:
                    life.first, life.last = min(life.first, start), max(life.last, stop)
            memory, low, high = life.place
            span = LiveSpan(base + life.first, base + life.last + 1, low, high)
            names = (f"{self.name}: {life.name}", f"{self.name} memory {memory}")
            buffers.append(PlannedBuffer(*names, (span,), ALIGNMENT))
        return buffers


def _planned(number: int, value: FlatTable) -> _Life | None:
    """A tensor with an offset, None for other values."""
    tensor = value.table(1) if value.number(0, "B") == TENSOR else None
    place = tensor.table(6) if tensor else None
    if tensor is None or place is None:
        return None
    sizes, kind = tensor.numbers(2), tensor.number(0, "B")
    if kind >= len(ITEM_BYTES) or not ITEM_BYTES[kind] or any(size < 0 for size in sizes):
        raise damaged()
    low = place.number(1, "I") | place.number(2, "I") << 32
    end = low + math.prod(sizes) * ITEM_BYTES[kind]
    return _Life(f"value {number}", (place.number(0, "I"), low, end))


def read(data: bytes) -> MemoryPlan:
    """Returns the plans; PlanFileError."""
    buffers, steps = list[PlannedBuffer](), list[str]()
    for plan in FlatTable(data).tables(1):
        method = _Method(plan)
        buffers += method.buffers(len(steps))
        steps += [f"{method.name} {step}" for step in method.steps]
    if not buffers:
        reason = "no memory plan: no tensor has an offset"
        raise PlanFileError(reason, "export with a memory planning pass")
    return MemoryPlan("ExecuTorch", tuple(buffers), tuple(steps))
