# SPDX-License-Identifier: Apache-2.0
"""The loads and stores of an inference, by the bytes of tensors and scratch.

Of generated kernels known from the programs, access by access; those written by hand are assumed to
read their inputs once for each output row. Kernels load words where they can, so these are bytes,
not instructions: the ratio of two tensors is the same.
"""

from __future__ import annotations

import functools
from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from ..kernels.language.access import executions
from ..kernels.language.expr import evaluate
from ..kernels.language.ir import Program, Ram
from ..ops import Layer, ProgramLayer
from .plan import PROGRESS_BYTES, Plan, pool_scratch
from .schedule import stage_at

# Loads and stores of a layer's progress in a call.
NOTED = 2


@dataclass(frozen=True)
class Traffic:
    """The accesses of a layer in an inference, in bytes: of each input, of its output and of its
    scratch."""

    reads: tuple[int, ...]
    writes: int
    scratch: int


def by_region(plan: Plan) -> list[int]:
    """Bytes that are loaded and stored in an inference in each pool of a plan. Callers write inputs
    and read outputs once."""
    accesses: Counter[int] = Counter()
    starts = [circle.start for circle in plan.pools]

    def note(at: int, count: int) -> None:
        if count:
            accesses[starts.index(plan.pool_of(at).start)] += count

    for port in (*plan.graph.inputs, *plan.graph.outputs):
        note(plan.placements[port.tensor].base, plan.graph.tensors[port.tensor].bytes)
    for number, steps in enumerate(plan.stages):
        for step in steps:
            layer = step.bind(plan.graph)
            one = traffic(layer)
            note(plan.placements[layer.out.name].base, one.writes)
            for tensor, loaded in zip(layer.ins, one.reads, strict=True):
                note(plan.placements[tensor.name].base, loaded)
            note(step.scratch, one.scratch)
        stage = stage_at(plan, number)
        if stage is not None:
            note(plan.progress[number], noted(stage.order.count))
    return [accesses[number] for number in range(len(starts))]


def noted(calls: int) -> int:
    """Bytes of progress that a stage of several layers loads and stores in so many calls."""
    return NOTED * PROGRESS_BYTES * calls


@functools.lru_cache(maxsize=4096)
def traffic(layer: Layer[Any]) -> Traffic:
    """Counts the accesses of a layer."""
    if isinstance(layer, ProgramLayer) and not layer.sums:
        reads = _program_reads(layer)
    else:
        reads = tuple(_once_a_row(layer, index) for index in range(len(layer.ins)))
    return Traffic(reads, layer.out.bytes, _scratch(layer))


def _scratch(layer: Layer[Any]) -> int:
    """Estimates the accesses of scratch: each tap of a tile is a word's half, loaded once for
    two channels; other scratch is written and read once a call."""
    size = pool_scratch(layer)
    if size == 0:
        return 0
    calls = layer.height * -(-layer.width // layer.columns)
    return max(layer.macs, 2 * size * calls)


def _once_a_row(layer: Layer[Any], index: int) -> int:
    """Bytes of an input that output rows need, all of them together."""
    rows = sum(len(layer.input_rows(index, y)) for y in range(layer.height))
    return rows * layer.ins[index].row_bytes


def _program_reads(layer: ProgramLayer[Any]) -> tuple[int, ...]:
    """Bytes that a generated kernel loads of each input."""
    binding = layer.binding
    names = binding.names(layer.ins, layer.out, layer.descending)
    views = tuple(binding.view(tensor) for tensor in layer.ins)
    rows = _rows_read(binding.program, tuple(sorted(names.items())), views)
    loaded_bytes = [0] * len(layer.ins)
    for (index, first, step), loaded in rows.items():
        height = layer.ins[index].shape[0]
        inside = sum(0 <= first + step * y < height for y in range(layer.out.shape[0]))
        loaded_bytes[index] += inside * loaded
    return tuple(loaded_bytes)


Rows = dict[tuple[int, int, int], int]


@functools.lru_cache(maxsize=1024)
def _rows_read(
    program: Program,
    names: tuple[tuple[str, int], ...],
    views: tuple[tuple[int, int, int], ...],
) -> Rows:
    """Bytes that are loaded for one output row, by input, the row that they are of for output row 0
    and how many rows further it is for the next."""
    loaded_rows: Counter[tuple[int, int, int]] = Counter()
    for ram, reads, bound in executions(program, dict(names)):
        if not reads:
            continue
        assert isinstance(ram.tensor, int)
        size = _elements(ram, bound, views[ram.tensor])
        first, second = (evaluate(ram.row, {**bound, "y": y}) for y in (0, 1))
        for row in _along(ram, bound, 0, [first]):
            loaded_rows[ram.tensor, row, second - first] += size
    return dict(loaded_rows)


def _elements(ram: Ram, bound: Mapping[str, int], shape: tuple[int, int, int]) -> int:
    """Bytes of a row that an access has inside the image."""
    pixels = _along(ram, bound, 1, [evaluate(ram.pixel, bound)])
    channels = _along(ram, bound, 2, [evaluate(ram.channel, bound)])
    end = shape[2] if ram.limit is None else min(shape[2], evaluate(ram.limit, bound))
    across = sum(0 <= pixel < shape[1] for pixel in pixels)
    return across * sum(0 <= channel < end for channel in channels)


def _along(ram: Ram, bound: Mapping[str, int], dimension: int, at: list[int]) -> list[int]:
    """Places along a dimension, those of the access's axes included."""
    for axis in ram.axes:
        if axis.dimension == dimension:
            count, step = evaluate(axis.count, bound), evaluate(axis.step, bound)
            at = [one + turn * step for one in at for turn in range(count)]
    return at
