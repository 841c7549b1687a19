# SPDX-License-Identifier: Apache-2.0
"""The allocator of moving stacks, against a map of cells."""

from __future__ import annotations

import numpy as np
import pytest
from test_endurance import ALIGN, CIRCULAR, HEAP, Cells, setting_of
from vmcu_lab.wear import paper
from vmcu_lab.wear.heap import Setting, simulate
from vmcu_lab.wear.tasks import CNN, DSP, HEADER_BYTES, WORD
from vmcu_tools.errors import UserError


@pytest.mark.parametrize("reading", paper.READINGS)
@pytest.mark.parametrize("depths", [(1, 1), (2, 1), (3, 3)])
def test_allocator_is_that_of_a_map_of_cells(reading: str, depths: tuple[int, int]):
    rounds = 1500
    stride_depth, depth = depths
    given = {"stride_depth": stride_depth, "depth": depth, "stride_size": 600}
    setting = Setting(
        "circular", 5.0, heap_bytes=HEAP, align=ALIGN, **given, **paper.READINGS[reading]
    )
    rules = setting_of(CIRCULAR, depth, 600, merge=setting.merge, redraw=setting.redraw)
    rules.stride_depth, rules.largest = stride_depth, setting.fit == "largest"
    heap = Cells(rules, HEADER_BYTES, state=setting.seed)
    expected = np.zeros((len(DSP), HEAP // WORD), np.int32)
    assert all(heap.add(task.stack_bytes) for task in DSP)
    ran = [0.0] * len(DSP)
    for _ in range(rounds):
        for number, task in enumerate(DSP):
            if ran[number] >= setting.threshold:
                ran[number] = 0.0
                heap.move(number, heap.room(task.stack_bytes))
            ran[number] += task.ticks
            expected[number, (heap.live[number][0] * ALIGN + HEADER_BYTES) // WORD] += 1
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
