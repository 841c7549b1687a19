# SPDX-License-Identifier: Apache-2.0
"""Writes of an inference as an emulated board makes them, to whatever it writes."""

from __future__ import annotations

import tempfile
from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path

import numpy as np
from vmcu_bench.cycles.model import board, check_outputs
from vmcu_bench.image.elf import OBJECT, Elf, Symbol
from vmcu_bench.runners.base import RunnerError
from vmcu_bench.runners.compiled import MODEL_NAME
from vmcu_bench.runners.counting import ARENA, GUARD_BYTES, CountingRunner, markers_of, trace_of
from vmcu_bench.runners.qemu import RAM_START
from vmcu_bench.runners.samples import make_samples
from vmcu_tools.emit import emit
from vmcu_tools.plan.plan import Plan

from .pool import folded
from .tasks import TICK_CYCLES, WORD, Task

# All that the board has: the stack begins at the end.
RAM_BYTES = 4 << 20
# runners/image/main.c: the context.
CONTEXT_SYMBOL, CONTEXT_STRUCT = "context", "vmcu_context"
# The bytes of a worker's place that no job writes: room for an MPU guard at any of its alignments,
# the thread's own frames, and a little to spare. As benchmarks/endurance has it, see src/main.c
# there.
BESIDE_JOB = 264


@dataclass(frozen=True)
class Stored:
    """A piece of memory at a fixed address: stores to its most written byte."""

    name: str
    bytes: int
    stores: int


@dataclass(frozen=True, eq=False)
class StoreTrace:
    """One inference. pool: int64 (pool_bytes), stores to each byte, and one for each byte of an
    input that the application delivers. stack: int64, stores to each word from the lowest that the
    inference used to the caller's frame. context: its members. variables: every other object that
    was stored to."""

    target: str
    pool: np.ndarray
    stack: np.ndarray
    context: tuple[Stored, ...]
    variables: tuple[Stored, ...]
    instructions: int

    def task(self, name: str) -> Task:
        """The inference as a job of a worker, whose stack moves."""
        writes = (0.0,) * (BESIDE_JOB // WORD) + tuple(float(count) for count in self.stack)
        return Task(name, WORD * len(writes), self.instructions / TICK_CYCLES, writes)


def record(plan: Plan, target: str, seed: int = 0) -> StoreTrace:
    """Runs one inference on a random input. RunnerError where its outputs are wrong."""
    machine = board(target).suited(plan)
    ram = RAM_BYTES if machine.ram is None else machine.ram
    sample = make_samples(plan.graph, 1, 0, seed)[0]
    with tempfile.TemporaryDirectory(prefix="vmcu-") as text:
        folder = Path(text)
        image = machine.build(emit(plan, MODEL_NAME).all_files, MODEL_NAME, folder)
        markers = replace(markers_of(image, MODEL_NAME), trace_bytes=ram)
        counting = CountingRunner.of(machine, markers)
        results, counts = counting.count(folder, lambda t: t.execute(image, plan, [sample]))
        stores = trace_of(folder, ram)
        elf = Elf(image)
    check_outputs(plan, sample, results[0], target)
    arena, context = elf.find(ARENA), elf.find(CONTEXT_SYMBOL)
    if arena is None or context is None or markers.stack is None:
        raise RunnerError(f"{image.name} lacks {ARENA} or {CONTEXT_SYMBOL}")
    start = arena.address + GUARD_BYTES - machine.ram_start
    pool = folded(stores[start : start + plan.ram_bytes], plan)
    if not plan.input_streamed:
        for port in plan.graph.held:
            base = plan.placements[port.tensor].base
            delivered = np.arange(base, base + plan.graph.tensors[port.tensor].bytes)
            pool[delivered % plan.pool_bytes] += 1
    end = markers.stack - machine.ram_start
    words = stores[end & -WORD :].reshape(-1, WORD).max(1)
    used = np.flatnonzero(words)
    stack = words[used[0] : used[-1] + 1]
    known = (arena, context)
    return StoreTrace(
        target,
        pool,
        stack,
        members(stores, elf, context, machine.ram_start),
        variables(stores[:end], elf, known, machine.ram_start),
        sum(count.instructions for count in counts),
    )


def _stored(stores: np.ndarray, name: str, start: int, count: int) -> Stored:
    return Stored(name, count, int(stores[start : start + count].max()))


def members(
    stores: np.ndarray, elf: Elf, context: Symbol, ram_start: int = RAM_START
) -> tuple[Stored, ...]:
    """Stores to the members of a context. stores: int64, by byte of RAM, which has addresses from
    `ram_start` on."""
    fields = elf.fields_of(CONTEXT_STRUCT)
    if not fields:
        raise RunnerError(f"{elf.path.name} does not say what is in a context")
    return tuple(
        _stored(stores, name, context.address + offset - ram_start, count)
        for name, offset, count in fields
    )


def variables(
    stores: np.ndarray, elf: Elf, known: Sequence[Symbol], ram_start: int = RAM_START
) -> tuple[Stored, ...]:
    """Lists the other stores, by symbol. RunnerError where a store belongs to none, so that
    nothing is left out. stores: int64, by byte of RAM from `ram_start` on, without a stack
    behind it."""
    stored, left = [], stores > 0
    for symbol in elf.symbols:
        start = symbol.address - ram_start
        if symbol.kind != OBJECT or not 0 <= start < stores.size:
            continue
        mine = _stored(stores, symbol.name, start, symbol.size)
        left[start : start + symbol.size] = False
        if symbol not in known and mine.stores:
            stored.append(mine)
    if left.any():
        where = ram_start + int(np.flatnonzero(left)[0])
        raise RunnerError(f"{elf.path.name} stores to {where:#x}, which has no name")
    return tuple(stored)
