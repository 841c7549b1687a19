# SPDX-License-Identifier: Apache-2.0
"""Which valley of the skyline a search decides next, and how; see search.py."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import NamedTuple

NO_CHOICE, COVER, OPEN = 0, 1, 2


@dataclass(frozen=True)
class Strategy:
    """How a search decides what to do next.

    `valley`: which valley. `fit`: how the buffers for a valley are tried; "rank": by rank;
    "waste": from left to right, by what that wastes; "share": the same, relative to the slack.
    `cover`: where a section must be covered, only the buffers that cover it are tried.
    """

    valley: str
    fit: str
    cover: bool = True


class Valley(NamedTuple):
    """A valley, and the buffers that may lie on its floor.

    kind NO_CHOICE: none may, it is to be raised by `wall`. COVER: exactly one of them does. OPEN:
    any number of them, or none.
    """

    choices: int
    floor: int
    start: int
    end: int
    wall: int
    kind: int
    buffers: list[int]


# Which valley to decide next, the smallest key first.
VALLEYS: dict[str, Callable[[Valley, list[int]], tuple[int, ...]]] = {
    "covered": lambda v, slack: (v.kind == OPEN, v.choices * (v.kind != OPEN), v.floor, v.start),
    "lowest": lambda v, slack: (v.choices > 1, v.floor, v.start),
    "fewest": lambda v, slack: (v.choices, v.floor, v.start),
    "tightest": lambda v, slack: (
        v.choices if v.choices < 3 else 3,
        min(slack[v.start : v.end]) if v.choices > 2 else 0,
        v.floor,
        v.start,
    ),
    "narrowest": lambda v, slack: (
        v.choices if v.choices < 3 else 3,
        v.end - v.start if v.choices > 2 else 0,
        v.floor,
        v.start,
    ),
}
