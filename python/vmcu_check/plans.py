# SPDX-License-Identifier: Apache-2.0
"""Finds overlaps in a memory plan by a sweep over time. No planner is involved."""

from __future__ import annotations

from bisect import bisect_left, insort
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from heapq import heappop, heappush
from itertools import accumulate
from typing import NamedTuple


class PlanFileError(Exception):
    """A file that has no memory plan, or a damaged one; `remedy` is in the imperative."""

    def __init__(self, reason: str, remedy: str):
        super().__init__(reason)
        self.reason, self.remedy = reason, remedy


class LiveSpan(NamedTuple):
    """Bytes [low, high) of a memory that a buffer needs from step `first` until before `until`."""

    first: int
    until: int
    low: int
    high: int


@dataclass(frozen=True)
class PlannedBuffer:
    """A buffer and the spans that a plan gives it in a memory."""

    name: str
    memory: str
    spans: tuple[LiveSpan, ...]
    alignment: int = 1


@dataclass(frozen=True)
class MemoryPlan:
    """`steps`: the names of the times, empty if the file has only numbers; `notes`: the parts of
    the file that are not checked; `is_partial`: the plan has memory with a plan of its own, so that
    its height cannot be compared."""

    format: str
    buffers: tuple[PlannedBuffer, ...]
    steps: tuple[str, ...] = ()
    notes: tuple[str, ...] = ()
    is_partial: bool = False


class Overlap(NamedTuple):
    """Bytes [low, high) that two living buffers share from step `first` until before `until`."""

    memory: str
    names: tuple[str, str]
    first: int
    until: int
    low: int
    high: int


def overlaps(buffers: Iterable[PlannedBuffer]) -> Iterator[Overlap]:
    """Yields each pair of spans of two buffers that share a byte at a step."""
    memories: dict[str, list[tuple[LiveSpan, int, str]]] = {}
    for owner, buffer in enumerate(buffers):
        for span in buffer.spans:
            if span.first < span.until and span.low < span.high:
                memories.setdefault(buffer.memory, []).append((span, owner, buffer.name))
    for memory, spans in memories.items():
        yield from _sweep(memory, sorted(spans))


def _sweep(memory: str, spans: list[tuple[LiveSpan, int, str]]) -> Iterator[Overlap]:
    """Yields the overlaps of spans, which are sorted by their first step."""
    widest = max(span.high - span.low for span, _, _ in spans)
    alive: list[tuple[int, int]] = []
    ends: list[tuple[int, int, int]] = []
    for number, (span, owner, name) in enumerate(spans):
        while ends and ends[0][0] <= span.first:
            _, low, ended = heappop(ends)
            del alive[bisect_left(alive, (low, ended))]
        # Spans that start lower than this end at span.low or before it.
        start = bisect_left(alive, (span.low - widest, 0))
        for low, other in alive[start : bisect_left(alive, (span.high, 0))]:
            before, whose, its_name = spans[other]
            if before.high > span.low and whose != owner:
                until, high = min(before.until, span.until), min(before.high, span.high)
                both = (its_name, name)
                yield Overlap(memory, both, span.first, until, max(low, span.low), high)
        insort(alive, (span.low, number))
        heappush(ends, (span.until, span.low, number))


def peaks(buffers: Iterable[PlannedBuffer]) -> dict[str, tuple[int, int]]:
    """Maps each memory to the end of its highest buffer and to its most living bytes, both in
    bytes. No plan is lower than the latter."""
    memories: dict[str, list[LiveSpan]] = {}
    for buffer in buffers:
        memories.setdefault(buffer.memory, []).extend(buffer.spans)
    highest = {}
    for memory, spans in memories.items():
        changes = [(span.first, span.high - span.low) for span in spans]
        changes += [(span.until, span.low - span.high) for span in spans]
        living = accumulate(change for _, change in sorted(changes))
        end = max((span.high for span in spans), default=0)
        highest[memory] = (end, max(living, default=0))
    return highest
