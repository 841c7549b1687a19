# SPDX-License-Identifier: Apache-2.0
"""The lists of two workers, read back from the emitted tables by the rules of
lib/vmcu/workers.c."""

from __future__ import annotations

import numpy as np

from ..plan.workers import ENTRY_WORDS, OWN_SCRATCH, WAIT, WORKERS, Entry, Team, Wait, WorkerTask
from .limits import check_members
from .tables import Address, Objects, expect


def team_of(objects: Objects, name: str, steps: int) -> Team | None:
    """The team of model `name`, which has so many layers; None if there is none. Raises PlanError
    for lists that the runtime cannot follow."""
    table = objects.values.get(f"{name}_team")
    if table is None:
        return None
    expect(isinstance(table, dict), "the team is no struct")
    assert isinstance(table, dict)
    check_members(table, "vmcu_team")
    expect(table.get("model") == Address(f"{name}_model"), "the team is another model's")
    words = [objects.values.get(f"{name}_worker{number}") for number in range(WORKERS)]
    # A worker without tasks has no list.
    lists = [f"{name}_worker{n}" if one is not None else "NULL" for n, one in enumerate(words)]
    expect(table.get("entries") == lists, "the team's lists are others")
    arrays = [np.zeros(0, np.uint16) if one is None else one for one in words]
    entries = tuple(_entries(one, steps) for one in arrays if isinstance(one, np.ndarray))
    counts = [len(its) for its in entries]
    expect(table.get("counts") == counts and len(counts) == WORKERS, "the team's counts are others")
    return Team(entries, table.get("scratch_bytes", 0))


def _entries(words: np.ndarray, steps: int) -> tuple[Entry, ...]:
    expect(words.dtype == np.uint16 and words.size % ENTRY_WORDS == 0, "a worker's list is cut off")
    entries: list[Entry] = []
    for step, y, x, columns in words.reshape(-1, ENTRY_WORDS).tolist():
        if step == WAIT:
            entries.append(Wait(y))
            continue
        own, number = bool(step & OWN_SCRATCH), step & (OWN_SCRATCH - 1)
        expect(number < steps, f"a worker computes layer {number} of {steps}")
        entries.append(WorkerTask(number, y, x, columns, own))
    return tuple(entries)
