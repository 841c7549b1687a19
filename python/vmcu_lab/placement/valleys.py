# SPDX-License-Identifier: Apache-2.0
"""Valleys of a skyline, and the rules that choose the next one."""

from __future__ import annotations

from collections.abc import Callable
from typing import NamedTuple

NO_CHOICE, COVER, OPEN = 0, 1, 2


class Valley(NamedTuple):
    """A valley of the skyline, and the buffers that may lie on its floor.

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
VALLEYS: dict[str, Callable[[Valley], tuple[int, ...]]] = {
    "covered": lambda v: (v.kind == OPEN, v.choices * (v.kind != OPEN), v.floor, v.start),
    "lowest": lambda v: (v.choices > 1, v.floor, v.start),
    "fewest": lambda v: (v.choices, v.floor, v.start),
    "narrowest": lambda v: (
        min(v.choices, 3),
        v.end - v.start if v.choices > 2 else 0,
        v.floor,
        v.start,
    ),
}
