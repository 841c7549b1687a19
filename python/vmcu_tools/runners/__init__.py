# SPDX-License-Identifier: Apache-2.0
"""Where a plan can be run. A new board is one more row in the file of its kind."""

from __future__ import annotations

from ..errors import Problem, UserError
from .base import Runner
from .host import HOSTS
from .qemu import BOARDS
from .virtual import VirtualRunner
from .zephyr import PREFIX, ZephyrRunner

__all__ = ["RUNNERS", "VIRTUAL", "Runner", "get"]

VIRTUAL = VirtualRunner.name
RUNNERS: dict[str, Runner] = {t.name: t for t in (VirtualRunner(), *HOSTS, *BOARDS)}


def get(name: str) -> Runner:
    """The target of that name, "zephyr:" and a board for boards of a Zephyr workspace; UserError
    lists the names there are."""
    if name.startswith(PREFIX):
        return ZephyrRunner(name.removeprefix(PREFIX))
    if name not in RUNNERS:
        known = ", ".join(RUNNERS)
        raise UserError(Problem(f"there is no target '{name}'", f"choose one of: {known}"))
    return RUNNERS[name]
