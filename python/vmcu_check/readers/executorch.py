# SPDX-License-Identifier: Apache-2.0
"""The memory plans in an ExecuTorch program, .pte: one for each method.

An instruction is a step. A tensor is alive from the first instruction that has it to the last,
inputs from the start, outputs to the end. All that is alive in a part of a loop and outside of it
is alive in all of the loop. Two kinds of tensors are read before any instruction writes them:

- a view has offset and size of a tensor that was written: both are one buffer
- a state keeps its bytes between calls: it is always alive
"""

from __future__ import annotations

import math
from dataclasses import dataclass, field

from ..plans import MemoryPlan, PlanFileError, PlannedBuffer, Span
from .flatbuffer import Table, damaged, root

IDENTIFIER = b"ET"
ALIGNMENT = 16
# Bytes of an element by ScalarType.
BYTES = {
    **{0: 1, 1: 1, 2: 2, 3: 4, 4: 8, 5: 2, 6: 4, 7: 8, 8: 4, 9: 8, 10: 16, 11: 1, 12: 1, 13: 1},
    **{14: 4, 15: 2, 16: 1, 17: 1, 22: 2, 23: 1, 24: 1, 25: 1, 26: 1, 27: 2, 28: 4, 29: 8},
}
# Numbers of the unions KernelTypes and InstructionArguments.
TENSOR, TENSOR_LISTS = 5, (10, 11)
KERNEL, DELEGATE, MOVE, JUMP = 1, 2, 3, 4
# An operator whose last argument is an index; it writes a part of the first.
COPY_INDEX = "executorch_prim::et_copy_index"


@dataclass
class _Life:
    """The first and last step of a tensor in bytes [low, high) of a memory."""

    memory: int
    low: int
    high: int
    first: int = -1
    last: int = -1
    names: list[str] = field(default_factory=list)

    def use(self, step: int) -> None:
        self.first = step if self.first < 0 else self.first
        self.last = max(self.last, step)


class _Method:
    """Runs a method. `lives` by value, only of those that the plan has."""

    def __init__(self, plan: Table):
        self.name = plan.text(0)
        self.values = plan.tables(2)
        self.operators = [f"{one.text(0)}.{one.text(1)}".rstrip(".") for one in plan.tables(6)]
        self.lives: dict[int, _Life] = {}
        self.states: set[int] = set()
        self.stored: dict[tuple[int, int, int], list[_Life]] = {}
        for number, value in enumerate(self.values):
            self._plan(number, value)
        self.steps, self.loops = ["inputs"], list[tuple[int, int]]()
        for number in plan.numbers(3):
            self._write([number], 0)
        for chain in plan.tables(5):
            start = len(self.steps)
            for at, instruction in enumerate(chain.tables(2)):
                self._run(instruction, start, start + at)
        for number in plan.numbers(4):
            self._read(self._tensors(number), len(self.steps))
        self.steps.append("outputs")
        self._extend()

    def _plan(self, number: int, value: Table) -> None:
        tensor = value.table(1) if value.number(0, "B") == TENSOR else None
        place = tensor.table(6) if tensor else None
        if tensor is None or place is None:
            return
        sizes, kind = tensor.numbers(2), tensor.number(0, "b")
        if kind not in BYTES or any(size < 0 for size in sizes):
            raise damaged()
        low = place.number(1, "I") | place.number(2, "I") << 32
        life = _Life(place.number(0, "I"), low, low + math.prod(sizes) * BYTES[kind])
        self.lives[number] = life
        # It has a value before the first call.
        if tensor.number(5, "I"):
            self.states.add(number)

    def _tensors(self, number: int) -> list[int]:
        """A value, or those of a list of tensors."""
        if not 0 <= number < len(self.values):
            raise damaged()
        value = self.values[number]
        items = value.table(1) if value.number(0, "B") in TENSOR_LISTS else None
        return items.numbers(0) if items else [number]

    def _write(self, numbers: list[int], step: int) -> None:
        for number in numbers:
            life = self.lives.get(number)
            if life is None:
                continue
            if life.first < 0:
                self.stored.setdefault((life.memory, life.low, life.high), []).append(life)
                life.names.append(f"value {number} ({self.steps[step].rpartition(' ')[2]})")
            life.use(step)

    def _read(self, numbers: list[int], step: int) -> None:
        for number in numbers:
            life = self.lives.get(number)
            if life is None:
                continue
            if life.first < 0 and number not in self.states:
                before = self.stored.get((life.memory, life.low, life.high))
                if before:
                    life = self.lives[number] = before[-1]
                    life.names.append(f"value {number}")
                else:
                    self.states.add(number)
            life.use(step)

    def _delegate(self, numbers: list[int], step: int) -> None:
        """The arguments of a delegate: a tensor without an earlier use is an output, or a view of
        one that is alive."""
        for number in numbers:
            life = self.lives.get(number)
            if life and life.first < 0:
                before = self.stored.get((life.memory, life.low, life.high))
                if not before or before[-1].last < step:
                    self._write([number], step)
                    continue
            self._read([number], step)

    def _run(self, instruction: Table, start: int, step: int) -> None:
        """One instruction; start: the step of the first one of its chain."""
        kind, call = instruction.number(0, "B"), instruction.table(1)
        if call is None:
            raise damaged()
        if kind == MOVE:
            self.steps.append(f"instruction {step - start} move")
            self._read(self._tensors(call.number(0)), step)
            self._write(self._tensors(call.number(1)), step)
        elif kind == JUMP:
            self.steps.append(f"instruction {step - start} jump")
            self._read(self._tensors(call.number(0)), step)
            if start + call.number(1) <= step:
                self.loops.append((start + call.number(1), step))
        elif kind in (KERNEL, DELEGATE):
            code, arguments = call.number(0), [self._tensors(a) for a in call.numbers(1)]
            name = "delegate" if kind == DELEGATE else dict(enumerate(self.operators)).get(code, "")
            self.steps.append(f"instruction {step - start} {name}")
            if kind == DELEGATE:
                self._delegate([t for group in arguments for t in group], step)
                return
            results = arguments[0 if name.startswith(COPY_INDEX) else -1] if arguments else []
            kept = [] if name.partition(".")[0].endswith("_") else results
            self._read([t for group in arguments for t in group if t not in kept], step)
            self._write(results, step)
        else:
            self.steps.append(f"instruction {step - start}")

    def _extend(self) -> None:
        """Lives of states, and of what is alive in a part of a loop and outside."""
        end = len(self.steps) - 1
        for number in self.states:
            life = self.lives[number]
            life.first, life.last = 0, end
            life.names = life.names or [f"value {number} (state)"]
        for start, stop in sorted(self.loops, reverse=True):
            for life in self.lives.values():
                outside = life.first < start or life.last > stop
                if outside and life.first <= stop and life.last >= start:
                    life.first, life.last = min(life.first, start), max(life.last, stop)

    def buffers(self, base: int) -> list[PlannedBuffer]:
        """The buffers; base: the number of the first step."""
        lives = {id(life): life for life in self.lives.values() if life.first >= 0}
        return [
            PlannedBuffer(
                f"{self.name}: {', '.join(life.names)}",
                f"{self.name} memory {life.memory}",
                (Span(base + life.first, base + life.last + 1, life.low, life.high),),
                ALIGNMENT,
            )
            for life in lives.values()
        ]


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
