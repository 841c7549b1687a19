# SPDX-License-Identifier: Apache-2.0
"""The lists of two workers as tables."""

from __future__ import annotations

from collections.abc import Sequence

from ..plan.workers import ENTRY_WORDS, OWN_SCRATCH, WAIT, Entry, Team, Wait
from .structs import TEAM


def worker_words(entries: Sequence[Entry]) -> list[str]:
    """The list of a worker as vmcu_team_run() reads it: ENTRY_WORDS uint16_t an entry."""
    words: list[int] = []
    for entry in entries:
        if isinstance(entry, Wait):
            words += [WAIT, entry.tasks, 0, 0]
        else:
            step = entry.step | (OWN_SCRATCH if entry.own_scratch else 0)
            words += [step, entry.y, entry.x, entry.columns]
    return [str(word) for word in words]


def team_bytes(team: Team) -> int:
    """Bytes of flash that the lists take on a 32-bit core."""
    return TEAM.size + 2 * ENTRY_WORDS * sum(map(len, team.entries))
