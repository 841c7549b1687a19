# SPDX-License-Identifier: Apache-2.0
"""The memory plans in an ExecuTorch program, .pte: one for each method.

An instruction is a step. A tensor is alive from the first instruction that has it to the last,
inputs from the start, outputs to the end. All that is alive in a part of a loop and outside of it
is alive in all of the loop. Two kinds of tensors are read before any instruction writes them:

- a view has offset and size of a tensor that was written: both are one buffer, so that an overlap
  with exactly these bytes is not found; an argument of a delegate may be one if that tensor is
  still alive
- a state keeps its bytes between calls: it is always alive
"""

from __future__ import annotations

import math
from dataclasses import dataclass, field
from itertools import chain

from ..plans import LiveSpan, MemoryPlan, PlanFileError, PlannedBuffer
from .flatbuffer import FlatTable, damaged, root

IDENTIFIER = b"ET"
ALIGNMENT = 16
# Bytes of an element by ScalarType.
ITEM_BYTES = {
    **dict.fromkeys((0, 1, 11, 12, 13, 16, 17, 23, 24, 25, 26), 1),
    **dict.fromkeys((2, 5, 15, 22, 27), 2),
    **dict.fromkeys((3, 6, 8, 14, 28), 4),
    **dict.fromkeys((4, 7, 9, 29), 8),
    10: 16,
}
# Numbers of the unions KernelTypes and InstructionArguments.
TENSOR, TENSOR_LISTS = 5, (10, 11)
KERNEL, DELEGATE, MOVE, JUMP = 1, 2, 3, 4
NAMES = {DELEGATE: "delegate", MOVE: "move", JUMP: "jump"}
# An operator whose last argument is an index; it writes a part of the first.
COPY_INDEX = "executorch_prim::et_copy_index"


@dataclass
class _Life:
    """The first and last step of a tensor; place: memory, first byte, end."""

    place: tuple[int, int, int]
    first: int = -1
    last: int = -1
    names: list[str] = field(default_factory=list)

    def use(self, step: int) -> None:
        self.first, self.last = step if self.first < 0 else self.first, max(self.last, step)


class _Method:
    """Runs a method. `lives` by value, only of those that the plan has."""

    def __init__(self, plan: FlatTable):
        self.name, self.values = plan.text(0), plan.tables(2)
        self.operators = {n: one.text(0) for n, one in enumerate(plan.tables(6))}
        self.lives: dict[int, _Life] = {}
        self.states: set[int] = set()
        self.stored: dict[tuple[int, int, int], list[_Life]] = {}
        self.maybe_views: list[tuple[int, _Life]] = []
        self.loops: list[tuple[int, int]] = []
        for number, value in enumerate(self.values):
            self._plan(number, value)
        self.steps = ["inputs"]
        self._write(plan.numbers(3), 0)
        for one in plan.tables(5):
            start = len(self.steps)
            for instruction in one.tables(2):
                self._run(instruction, start)
        for number in plan.numbers(4):
            self._read(self._tensors(number), len(self.steps))
        self.steps.append("outputs")
        self._extend()

    def _plan(self, number: int, value: FlatTable) -> None:
        tensor = value.table(1) if value.number(0, "B") == TENSOR else None
        place = tensor.table(6) if tensor else None
        if tensor and place:
            sizes, kind = tensor.numbers(2), tensor.number(0, "b")
            if kind not in ITEM_BYTES or any(size < 0 for size in sizes):
                raise damaged()
            low = place.number(1, "I") | place.number(2, "I") << 32
            end = low + math.prod(sizes) * ITEM_BYTES[kind]
            self.lives[number] = _Life((place.number(0, "I"), low, end))
            # It has a value before the first call.
            self.states |= {number} if tensor.number(5, "I") else set()

    def _tensors(self, number: int) -> list[int]:
        """A value, or those of a list of tensors."""
        if not 0 <= number < len(self.values):
            raise damaged()
        value = self.values[number]
        items = value.table(1) if value.number(0, "B") in TENSOR_LISTS else None
        return items.numbers(0) if items else [number]

    def _write(self, numbers: list[int], step: int) -> None:
        for number in numbers:
            if life := self.lives.get(number):
                if life.first < 0:
                    self.stored.setdefault(life.place, []).append(life)
                    life.names.append(f"value {number} ({self.steps[step].rpartition(' ')[2]})")
                life.use(step)

    def _read(self, numbers: list[int], step: int) -> None:
        for number in numbers:
            if life := self.lives.get(number):
                if life.first < 0 and number not in self.states:
                    if life.place in self.stored:
                        life = self.lives[number] = self.stored[life.place][-1]
                        life.names.append(f"value {number}")
                    else:
                        self.states.add(number)
                life.use(step)

    def _run(self, instruction: FlatTable, start: int) -> None:
        """One instruction; start: the step of the first one of its chain."""
        kind, call, step = instruction.number(0, "B"), instruction.table(1), len(self.steps)
        if call is None:
            raise damaged()
        name = NAMES.get(kind, self.operators.get(call.number(0), "") if kind == KERNEL else "")
        self.steps.append(f"instruction {step - start} {name}")
        reads, writes = list[int](), list[int]()
        if kind in (MOVE, JUMP):
            reads = self._tensors(call.number(0))
            writes = self._tensors(call.number(1)) if kind == MOVE else []
            if kind == JUMP and start + call.number(1) <= step:
                self.loops.append((start + call.number(1), step))
        elif kind in (KERNEL, DELEGATE):
            arguments = [self._tensors(argument) for argument in call.numbers(1)]
            reads = list(chain.from_iterable(arguments))
            if kind == DELEGATE:
                writes = [n for n in reads if n in self.lives and self.lives[n].first < 0]
                lists = ((n, self.stored.get(self.lives[n].place, [])) for n in writes)
                self.maybe_views += [(n, before[-1]) for n, before in lists if before]
            elif arguments:
                writes = arguments[0 if name.startswith(COPY_INDEX) else -1]
            # Of an operator such as add_, the result is an input.
            if not name.endswith("_"):
                reads = [number for number in reads if number not in writes]
        self._read(reads, step)
        self._write(writes, step)

    def _extend(self) -> None:
        """Lives of views, of states, and of what is alive in a part of a loop and outside."""
        end = len(self.steps) - 1
        for number, base in self.maybe_views:
            view = self.lives[number]
            if base is not view and base.last >= view.first:
                base.use(view.last)
                base.names += view.names
                self.lives = {n: base if one is view else one for n, one in self.lives.items()}
        for number in self.states:
            life = self.lives[number]
            life.first, life.last = 0, end
            life.names = life.names or [f"value {number} (state)"]
        for start, stop in sorted(self.loops, reverse=True):
            for life in self.lives.values():
                is_outside = life.first < start or life.last > stop
                if is_outside and life.first <= stop and life.last >= start:
                    life.first, life.last = min(life.first, start), max(life.last, stop)

    def buffers(self, base: int) -> list[PlannedBuffer]:
        """The buffers; base: the number of the first step."""
        buffers = []
        for life in {id(one): one for one in self.lives.values() if one.first >= 0}.values():
            memory, low, high = life.place
            span = LiveSpan(base + life.first, base + life.last + 1, low, high)
            names = f"{self.name}: {', '.join(life.names)}"
            buffers.append(PlannedBuffer(names, f"{self.name} memory {memory}", (span,), ALIGNMENT))
        return buffers


def read(data: bytes) -> MemoryPlan:
    """Returns the plans; PlanFileError."""
    buffers, steps = list[PlannedBuffer](), list[str]()
    for plan in root(data).tables(1):
        method = _Method(plan)
        buffers += method.buffers(len(steps))
        steps += [f"{method.name} {step}" for step in method.steps]
    if not buffers:
        reason = "no memory plan: no tensor has an offset"
        raise PlanFileError(reason, "export with a memory planning pass")
    return MemoryPlan("ExecuTorch", tuple(buffers), tuple(steps))
