# SPDX-License-Identifier: Apache-2.0
"""The allocator of moving stacks, against a map of cells."""

from __future__ import annotations

import numpy as np
import pytest
from vmcu_tools.errors import UserError
from vmcu_tools.wear import paper
from vmcu_tools.wear.heap import Setting, simulate
from vmcu_tools.wear.tasks import CNN, DSP, HEADER_BYTES, WORD


class CellHeap:
    """The paper's allocator over a map of cells, one a word: free 0, all else 1, and a queue."""

    def __init__(self, setting: Setting):
        self.setting = setting
        self.cells = np.zeros(setting.heap_bytes // WORD, np.int8)
        self.queue: list[list[int]] = []
        self.state = setting.seed

    def draw(self) -> int:
        x, mask = self.state, (1 << 64) - 1
        x ^= x >> 12
        x ^= x << 25 & mask
        x ^= x >> 27
        self.state = x
        return (x * 2685821657736338717 & mask) >> 33

    def stride(self) -> int:
        return self.room(1 + self.draw() % self.setting.stride_size)

    def room(self, size: int) -> int:
        return -(-(size + HEADER_BYTES) // self.setting.align) * self.setting.align // WORD

    def runs(self) -> list[tuple[int, int]]:
        edges = np.flatnonzero(np.diff(np.concatenate([[1], self.cells, [1]])))
        return [(int(a), int(b - a)) for a, b in zip(edges[::2], edges[1::2], strict=True)]

    def obtain(self, size: int, depth: int, redraw: bool) -> tuple[int, int] | None:
        """Start and cells of what is taken."""
        for turn in range(depth):
            size = self.stride() if turn and redraw else size
            fits = [run for run in self.runs() if run[1] >= size]
            if fits:
                first = self.setting.fit == "first"
                start, length = fits[0] if first else max(fits, key=lambda run: run[1])
                length = length if (length - size) * WORD < 2 * HEADER_BYTES else size
                self.cells[start : start + length] = 1
                return start, length
            if self.queue:
                start, length = self.queue.pop(0)
                self.cells[start : start + length] = 0
        return None

    def release(self, start: int, length: int) -> None:
        above = [entry for entry in self.queue if entry[0] == start + length]
        if self.setting.merge and above:
            self.queue.remove(above[0])
            length += above[0][1]
        below = [entry for entry in self.queue if sum(entry) == start]
        if self.setting.merge and below:
            below[0][1] += length
        else:
            self.queue.append([start, length])

    def move(self, old: tuple[int, int], size: int) -> tuple[int, int]:
        found = self.obtain(self.stride(), self.setting.stride_depth, self.setting.redraw)
        if found:
            self.queue.append(list(found))
        new = self.obtain(size, self.setting.depth, False)
        if new is None:
            return old
        self.release(*old)
        return new


@pytest.mark.parametrize("reading", paper.READINGS)
@pytest.mark.parametrize("depths", [(1, 1), (2, 1), (3, 3)])
def test_allocator_is_that_of_a_map_of_cells(reading: str, depths: tuple[int, int]):
    rounds = 1500
    stride_depth, depth = depths
    setting = Setting("circular", 5.0, stride_depth, depth, 600, **paper.READINGS[reading])
    heap = CellHeap(setting)
    expected = np.zeros((len(DSP), heap.cells.size), np.int32)
    places = [heap.obtain(heap.room(task.stack_bytes), 1, False) for task in DSP]
    ran = [0.0] * len(DSP)
    for _ in range(rounds):
        for number, task in enumerate(DSP):
            if ran[number] >= setting.threshold:
                ran[number] = 0.0
                places[number] = heap.move(places[number], heap.room(task.stack_bytes))
            ran[number] += task.ticks
            expected[number, places[number][0] + HEADER_BYTES // WORD] += 1
    found = simulate(setting, DSP, rounds)
    assert found.moves > 0
    assert (found.jobs == expected).all()


def test_walk_keeps_stacks_apart_and_visits_every_place():
    lap = (12 * 1024 - CNN.stack_bytes) // WORD + 1
    alone = simulate(Setting("walk"), (CNN,), lap + 1).jobs[0]
    assert (alone[:lap] >= 1).all() and alone.sum() == lap + 1 and not alone[lap:].any()
    # Hardly more heap than stacks: most places are taken.
    tight = Setting("walk", 0.0, depth=3, heap_bytes=1600)
    found = simulate(tight, DSP, 2000)
    assert 0 < found.success_rate < 1


@pytest.mark.parametrize("align", [4, 32, 64])
def test_walk_keeps_to_aligned_places(align: int):
    jobs = simulate(Setting("walk", align=align), (CNN,), 5000).jobs[0]
    assert set(np.flatnonzero(jobs) * WORD % align) == {0}
    places = (12 * 1024 - CNN.stack_bytes) // align + 1
    assert np.count_nonzero(jobs) == places


def test_a_heap_too_small_is_the_users_problem():
    with pytest.raises(UserError, match="does not hold 5 stacks"):
        simulate(Setting(heap_bytes=1024), DSP, 10)
    with pytest.raises(ValueError, match="too many to simulate"):
        simulate(Setting(heap_bytes=1 << 20), DSP, 10)
