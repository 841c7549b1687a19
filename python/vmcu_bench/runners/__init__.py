# SPDX-License-Identifier: Apache-2.0
"""The targets on which a plan can be run. A new board is one more row in the file of its kind."""

from __future__ import annotations

from vmcu_tools.errors import Problem, UserError

from .base import Runner
from .compiled import LOADING, CompiledRunner
from .host import HOSTS
from .qemu import BOARDS
from .virtual import VirtualRunner
from .zephyr import PREFIX, ZephyrRunner

__all__ = ["HOST", "RUNNERS", "VIRTUAL", "Runner", "family_of", "get"]

VIRTUAL, HOST = VirtualRunner.name, HOSTS[0].name
RUNNERS: dict[str, Runner] = {t.name: t for t in (VirtualRunner(), *HOSTS, *BOARDS)}


def family_of(name: str) -> str | None:
    """The target of kernels/targets whose layout suits a machine best; None for the default."""
    return getattr(RUNNERS.get(name.removesuffix(LOADING)), "family", None)


def get(name: str) -> Runner:
    """The target of that name, "zephyr:" and a board for boards of a Zephyr workspace; with LOADING
    behind it, one that loads models from containers. UserError lists the names there are."""
    plain = name.removesuffix(LOADING)
    runner: Runner
    if plain.startswith(PREFIX):
        runner = ZephyrRunner(plain.removeprefix(PREFIX))
    elif plain in RUNNERS:
        runner = RUNNERS[plain]
    else:
        known = ", ".join(RUNNERS)
        raise UserError(Problem(f"there is no target '{name}'", f"choose one of: {known}"))
    if plain == name:
        return runner
    if not isinstance(runner, (CompiledRunner, ZephyrRunner)):
        raise UserError(
            Problem(f"'{plain}' does not run C and cannot load a container", "name another")
        )
    return runner.loading()
