# SPDX-License-Identifier: Apache-2.0
"""Writes of an inference as an emulated board makes them, to its pool and to its stack."""

from __future__ import annotations

import tempfile
from dataclasses import dataclass, replace
from pathlib import Path

import numpy as np

from ..bench.model import board, check_outputs
from ..elf import Elf
from ..emit import emit
from ..plan import Plan
from ..samples import make_samples
from ..targets.base import TargetError
from ..targets.compiled import MODEL_NAME
from ..targets.counting import RAM_START, CountingTarget, markers_of, trace_of
from .pool import folded
from .tasks import TICK_CYCLES, WORD, Task

# All that the board has: the stack begins at the end.
RAM_BYTES = 4 << 20
# targets/image/main.c: the pool's array, and the guards around it.
POOL_SYMBOL, GUARD_BYTES = "arena", 64


@dataclass(frozen=True, eq=False)
class Trace:
    """One inference. pool: int64 (pool_bytes), stores to each byte, and one for each byte of an
    input that the application delivers. stack: int64, stores to each word from the lowest that the
    inference used to the caller's frame."""

    target: str
    pool: np.ndarray
    stack: np.ndarray
    instructions: int

    def task(self, name: str) -> Task:
        """The inference as a task whose stack moves."""
        writes = tuple(float(count) for count in self.stack)
        return Task(name, WORD * len(writes), self.instructions / TICK_CYCLES, writes)


def record(plan: Plan, target: str, seed: int = 0) -> Trace:
    """Runs one inference on a random input. TargetError where its outputs are wrong."""
    machine = board(target).suited(plan)
    ram = RAM_BYTES if machine.ram is None else machine.ram
    sample = make_samples(plan.graph, 1, 0, seed)[0]
    with tempfile.TemporaryDirectory(prefix="vmcu-") as text:
        folder = Path(text)
        image = machine.build(emit(plan, MODEL_NAME).files, MODEL_NAME, folder)
        markers = replace(markers_of(image, MODEL_NAME), trace_bytes=ram)
        counting = CountingTarget.of(machine, markers)
        results, counts = counting.count(folder, lambda t: t.execute(image, plan, [sample]))
        stores = trace_of(folder, ram)
        arena = Elf(image).find(POOL_SYMBOL)
    check_outputs(plan, sample, results[0], target)
    if arena is None or markers.stack is None:
        raise TargetError(f"{image.name} has no {POOL_SYMBOL}")
    start = arena.address + GUARD_BYTES - RAM_START
    pool = folded(stores[start : start + plan.ram_bytes], plan)
    if not plan.input_streamed:
        for port in plan.graph.inputs:
            base = plan.placements[port.tensor].base
            delivered = np.arange(base, base + plan.graph.tensors[port.tensor].bytes)
            pool[delivered % plan.pool_bytes] += 1
    words = stores[markers.stack - RAM_START & -WORD :].reshape(-1, WORD).max(1)
    used = np.flatnonzero(words)
    stack = words[used[0] : used[-1] + 1]
    return Trace(target, pool, stack, sum(count.instructions for count in counts))
