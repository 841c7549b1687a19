# SPDX-License-Identifier: Apache-2.0
"""Outputs that take the place of the rows their layer has just read for the last time.

Within a stage a tensor is a ring. Where a layer's call for row y is the last to need one row of
its input, and reads each byte of it before it writes the same byte of its output, output row y may
stand where that row stood: both tensors share the ring (vMCU paper, section 4, at the grain of
rows of a ring).
"""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np

from ..schedule import Stage
from .trace import Home, Trace, Tracer, times_of


@dataclass(frozen=True)
class Stay:
    """A row in a slot of a ring: from the call that first writes it to the last that reads it."""

    tensor: int
    row: int
    first: int
    last: int


# By slot of a ring, who stays there.
Ring = list[list[Stay]]


def traced(stage: Stage, limit: int | None = None) -> Trace:
    """A stage's trace with outputs in place where they can be; TooLargeError as Tracer.run()."""
    return in_place(Tracer(stage).run(limit))


def in_place(trace: Trace) -> Trace:
    """The trace with every output that can share its layer's input's ring doing so."""
    homes: list[Home | None] = [None] * len(trace.tensors)
    rings: dict[int, Ring] = {}
    sizes = list(trace.rings)
    for number, layer in enumerate(trace.stage.layers):
        if trace.stage.kept[number] or layer.sums or layer.columns != layer.width:
            continue
        for index, feed in enumerate(trace.stage.feeds[number]):
            home = _home(trace, homes, rings, number, index) if feed.stride[0] == 1 else None
            if home is not None:
                homes[number] = home
                sizes[number] = sizes[home.owner]
                break
    return replace(trace, homes=tuple(homes), rings=tuple(sizes))


def _home(
    trace: Trace, homes: list[Home | None], rings: dict[int, Ring], number: int, index: int
) -> Home | None:
    """Where the output of layer `number` can live in the ring of its input `index`."""
    source = trace.stage.feeds[number][index].producer
    if source < 0 or trace.stage.kept[source]:
        return None
    out, tensor = trace.tensors[number], trace.tensors[source]
    there = homes[source] or Home(source, 0)
    width = tensor.shape[1]
    if out.shape[1:] != tensor.shape[1:] or trace.rings[there.owner] % width:
        return None
    if not _reads_first(trace, number, index):
        return None
    count = trace.rings[there.owner] // width
    above = trace.stage.feeds[number][index].before[0]
    home = Home(there.owner, (there.phase - above * width) % (count * width))
    if there.owner not in rings:
        rings[there.owner] = [[] for _ in range(count)]
        _settle(rings[there.owner], _stays(trace, source, there.phase // width, count))
    stays = _stays(trace, number, home.phase // width, count)
    for slot, stay in stays:
        for other in rings[there.owner][slot]:
            just_read = other.tensor == source and other.row == stay.row - above
            free = other.last <= stay.first if just_read else other.last < stay.first
            if not free and stay.last >= other.first:
                return None
    _settle(rings[there.owner], stays)
    return home


def _reads_first(trace: Trace, number: int, index: int) -> bool:
    """True if within a call no byte is written before the byte at its place has been read."""
    layer = trace.stage.layers[number]
    reads, writes = layer.reads_in_call(index), layer.writes_in_call()
    return reads is not None and writes is not None and bool((writes >= reads).all())


def _settle(ring: Ring, stays: list[tuple[int, Stay]]) -> None:
    for slot, stay in stays:
        ring[slot].append(stay)


def _stays(trace: Trace, number: int, phase: int, count: int) -> list[tuple[int, Stay]]:
    """A tensor's rows with their slots, in a ring of `count` rows."""
    width = trace.tensors[number].shape[1]
    made, freed = times_of(trace.made[number]), times_of(trace.freed[number])
    found = []
    for row in range(-(-made.size // width)):
        here = slice(row * width, (row + 1) * width)
        last = max(int(made[here].max()), int(np.max(freed[here], initial=-1)))
        stay = Stay(number, row, int(made[here].min()), last)
        found.append(((row + phase) % count, stay))
    return found
