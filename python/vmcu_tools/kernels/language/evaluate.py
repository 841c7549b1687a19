# SPDX-License-Identifier: Apache-2.0
"""Runs a program in Python: the meaning of a kernel, and a log of the pool bytes it touches.

Slow and simple on purpose: it executes the same statements that become C, on the same flash
stream that is emitted, one output row at a time.
"""

from __future__ import annotations

import operator
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np

from . import ir
from .expr import Int, evaluate
from .packing import WORDS, Packing

# The contents of registers before an instruction sets them.
GARBAGE = 0x5A5A5A5A


@dataclass(frozen=True)
class Head:
    """The word before a run of steps in the flash stream, see ir.Segments: counts of fast and of
    exact steps, whether channels of the latter are apart, see kernels/pack.py, the channels left
    in the last of these, and whether another run follows. code: of all, where pixels are paired,
    see packing.PAIRED_TAPS."""

    fast: int
    exact: int
    apart: bool
    left: int
    more: bool
    code: int = 0

    MOST_FAST, MOST_EXACT = (1 << 14) - 1, (1 << 11) - 1

    @property
    def word(self) -> int:
        counts = self.fast | self.code << 14 | self.exact << 16
        return counts | self.apart << 27 | self.left << 28 | self.more << 31

    @staticmethod
    def of(word: int) -> Head:
        flags = bool(word >> 27 & 1), word >> 28 & 7, bool(word >> 31)
        return Head(word & Head.MOST_FAST, word >> 16 & Head.MOST_EXACT, *flags, word >> 14 & 3)


@dataclass(frozen=True)
class Bytes:
    """The elements of a tensor that one instruction touches: `inside`, bool, of the shape the inner
    axes span, is false in the padding; places: row, pixel and channel of the others, int64
    (3, count)."""

    inside: np.ndarray
    places: np.ndarray


@dataclass
class Machine:
    """Memory and registers while a program runs.

    names: values of everything a program may name: parameters by their C text, lets, loop
    variables. inputs: int8 (H, W, C) each; output: int8 (H, W, C). packing: the program's. log:
    (kind, tensor, row, pixel, channel) arrays in the order of execution, kind "r" or "w".
    """

    names: dict[str, int]
    inputs: Sequence[np.ndarray]
    output: np.ndarray
    stream: bytes = b""
    tile: np.ndarray = field(default_factory=lambda: np.zeros(0, np.int64))
    packing: Packing = WORDS
    cursor: int = 0
    registers: dict[str, np.ndarray] = field(default_factory=dict)
    log: list[tuple[str, int | str, np.ndarray]] = field(default_factory=list)

    def take(self, dtype: type, count: int) -> np.ndarray:
        """The next `count` constants of the flash stream, as int64 (float32 stays)."""
        size = np.dtype(dtype).itemsize * count
        values: np.ndarray = np.frombuffer(self.stream[self.cursor : self.cursor + size], dtype)
        assert len(values) == count, "the flash stream is shorter than the kernel reads"
        self.cursor += size
        return values if dtype is np.float32 else values.astype(np.int64)

    def words(self, first: int, count: int) -> np.ndarray:
        """`count` words of the flash stream, from word `first` on, as int64."""
        values: np.ndarray = np.frombuffer(self.stream[4 * first : 4 * (first + count)], np.int32)
        assert len(values) == count, "the flash stream is shorter than the kernel reads"
        return values.astype(np.int64)

    def shape(self, tensor: int | str) -> tuple[int, ...]:
        return self._data(tensor).shape

    def _data(self, tensor: int | str) -> np.ndarray:
        return self.inputs[tensor] if isinstance(tensor, int) else self.output

    def locate(self, ram: ir.Ram) -> Bytes:
        """Which elements an access covers."""
        inside, places = self._span(ram)
        return Bytes(inside, places[:, inside])

    def _span(self, ram: ir.Ram) -> tuple[np.ndarray, np.ndarray]:
        """Returns the places as Bytes has them, with those that are not inside."""
        names, limits = self.names, self.shape(ram.tensor)
        counts = tuple(evaluate(axis.count, names) for axis in ram.axes)
        starts = [evaluate(start, names) for start in (ram.row, ram.pixel, ram.channel)]
        lows, highs = [*starts], [*starts]
        along: list[Any] = [*starts]
        for number, (axis, count) in enumerate(zip(ram.axes, counts, strict=True)):
            steps = np.arange(count) * evaluate(axis.step, names)
            if count:
                lows[axis.dimension] += int(min(steps[0], steps[-1]))
                highs[axis.dimension] += int(max(steps[0], steps[-1]))
            steps = steps.reshape(-1, *[1] * (len(counts) - 1 - number))
            along[axis.dimension] = along[axis.dimension] + steps
        places = np.empty((3, *counts), np.int64)
        for dimension, its in enumerate(along):
            places[dimension] = its
        guard = limits
        if ram.guarded and ram.limit is not None:
            guard = (*limits[:2], min(limits[2], evaluate(ram.limit, names)))
        if min(lows) >= 0 and all(map(operator.lt, highs, guard)):
            return np.ones(counts, bool), places
        bounds = np.array(guard).reshape(3, *[1] * len(counts))
        inside = np.asarray(((places >= 0) & (places < bounds)).all(axis=0))
        assert ram.guarded or inside.all(), f"{ram} leaves the tensor {limits}"
        return inside, places

    def load(self, ram: ir.Ram, fill: int = 0) -> np.ndarray:
        """The bytes of an access as int64, `fill` in the padding."""
        where = self.locate(ram)
        values = np.full(where.inside.shape, fill, np.int64)
        values[where.inside] = self._data(ram.tensor)[tuple(where.places)]
        self.log.append(("r", ram.tensor, where.places))
        return values

    def store(self, ram: ir.Ram, values: np.ndarray) -> None:
        """Values to an access of the output, cut to the tensor."""
        where = self.locate(ram)
        kept = np.asarray(values).reshape(where.inside.shape)[where.inside]
        self.output[tuple(where.places)] = kept
        self.log.append(("w", ram.tensor, where.places))

    def store_blocks(self, ram: ir.Ram, values: np.ndarray) -> None:
        """Values (blocks, ...) as store() has them to an access and as many behind it, each along
        the last of its axes from where the one before ends."""
        inner, last = ram.axes[:-1], ram.axes[-1]
        blocks, *_, width = values.shape
        joined = np.moveaxis(values, 0, -2)
        joined = joined.reshape(*joined.shape[:-2], blocks * width)
        axes = (*inner, replace(last, count=Int(blocks * width)))
        inside, places = self._span(replace(ram, axes=axes))
        self.output[tuple(places[:, inside])] = joined[inside]
        for first in range(0, blocks * width, width):
            part, its = places[..., first : first + width], inside[..., first : first + width]
            self.log.append(("w", ram.tensor, part[:, its]))


def run(program: ir.Program, machine: Machine, y: int) -> None:
    """Computes output row y."""
    machine.names = with_lets(program, {**machine.names, "y": y})
    machine.cursor, machine.packing = 0, program.packing
    _body(program.body, machine)


def with_lets(program: ir.Program, names: Mapping[str, int]) -> dict[str, int]:
    """names and the values of the program's own definitions."""
    bound = dict(names)
    for let in program.lets:
        if let.value is not None:
            bound[let.name] = evaluate(let.value, bound)
    return bound


def _body(body: tuple[ir.Stmt, ...], machine: Machine) -> None:
    for stmt in body:
        _statement(stmt, machine)


def _statement(stmt: ir.Stmt, machine: Machine) -> None:
    match stmt:
        case ir.Do(instruction, operands):
            instruction.meaning(machine, *(_operand(o, machine) for o in operands))
        case ir.RegAlloc(ir.Registers(name, count)):
            machine.registers[name] = np.full(count, GARBAGE)
        case ir.Rewind():
            machine.cursor = 0
        case ir.Loop():
            _loop(stmt, machine)
        case ir.Tiles(var, extent, choices):
            at, stop = 0, evaluate(extent, machine.names)
            for width, body in choices:
                while at + width <= stop:
                    machine.names[var.text] = at
                    _body(body, machine)
                    at += width
        case ir.Spans(var, span, extent, widths, body):
            at, stop = 0, evaluate(extent, machine.names)
            for width in widths:
                while at + width <= stop:
                    machine.names[var.text], machine.names[span.text] = at, width
                    _body(body, machine)
                    at += width
        case ir.Segments():
            _segments(stmt, machine)
        case ir.Strips(var, span, extent, width, body):
            stop, step = evaluate(extent, machine.names), evaluate(width, machine.names)
            for at in range(0, stop, step):
                machine.names[var.text] = at
                machine.names[span.text] = min(step, stop - at)
                _body(body, machine)
        case ir.RamFree() | ir.Point():
            pass


def _operand(operand: ir.Operand, machine: Machine) -> Any:
    """Registers as their array, structs as their members, expressions as their value, memory as
    it is."""
    match operand:
        case ir.Registers(name, _):
            return machine.registers[name]
        case ir.Params(name):
            head = f"p->{name}."
            values = machine.names.items()
            return {k.removeprefix(head): v for k, v in values if k.startswith(head)}
        case ir.Ram() | ir.Stream() | ir.Tile():
            return operand
    return evaluate(operand, machine.names)


def _loop(loop: ir.Loop, machine: Machine) -> None:
    at = machine.names[loop.var.text] if loop.start is None else evaluate(loop.start, machine.names)
    stop = evaluate(loop.stop, machine.names)
    while at + loop.step <= stop:
        machine.names[loop.var.text] = at
        _body(loop.body, machine)
        at += loop.step
    machine.names[loop.var.text] = at


def _segments(stmt: ir.Segments, machine: Machine) -> None:
    at, stop = 0, evaluate(stmt.extent, machine.names)
    more = True
    while more:
        head = Head.of(int(machine.take(np.uint32, 1)[0]))
        fast = [head.fast] if stmt.runs else [1] * head.fast
        for body, counts in ((stmt.fast, fast), (stmt.exact, [1] * head.exact)):
            for count in counts:
                machine.names[stmt.var.text] = at
                machine.names[ir.TAKEN.text] = min(stop - at, stmt.step * count)
                machine.names[ir.LEFT.text] = min(stop - at, stmt.step)
                machine.names[ir.APART.text] = int(head.apart)
                _body(body, machine)
                at += stmt.step * count
        more = head.more
    assert stop <= at < stop + stmt.step, "the segments do not cover the extent"
