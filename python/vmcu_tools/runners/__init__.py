# SPDX-License-Identifier: Apache-2.0
"""Where a plan can be run. A new board is one more row in the file of its kind."""

from __future__ import annotations

from ..errors import Problem, UserError
from .base import Target
from .host import HOSTS
from .qemu import BOARDS
from .virtual import VirtualTarget
from .zephyr import PREFIX, ZephyrTarget

__all__ = ["TARGETS", "VIRTUAL", "Target", "get"]

VIRTUAL = VirtualTarget.name
TARGETS: dict[str, Target] = {t.name: t for t in (VirtualTarget(), *HOSTS, *BOARDS)}


def get(name: str) -> Target:
    """The target of that name, "zephyr:" and a board for boards of a Zephyr workspace; UserError
    lists the names there are."""
    if name.startswith(PREFIX):
        return ZephyrTarget(name.removeprefix(PREFIX))
    if name not in TARGETS:
        known = ", ".join(TARGETS)
        raise UserError(Problem(f"there is no target '{name}'", f"choose one of: {known}"))
    return TARGETS[name]
