# SPDX-License-Identifier: Apache-2.0
"""Opens the container that is given to a command in place of a model file."""

from __future__ import annotations

import argparse
from pathlib import Path

from vmcu_tools.commands.options import planner_options
from vmcu_tools.container import Opened, open_container
from vmcu_tools.container.kernels import targets_of
from vmcu_tools.errors import Problem, UserError
from vmcu_tools.kernels.targets import named
from vmcu_tools.planner.options import spelled

from .. import runners
from ..runners import RUNNERS, family_of
from ..runners.compiled import LOADING, CompiledRunner
from ..runners.zephyr import ZephyrRunner

HOST = "host"


def opened(args: argparse.Namespace) -> Opened:
    """The container that a command is given. Raises UserError if the file is no container, and for
    options of planning: a container is planned already. A hop is the container's own."""
    defaults = vars(planner_options().parse_args([]))
    given = [
        name
        for name, value in defaults.items()
        if name in vars(args) and getattr(args, name) != value
    ]
    given += [name for name in ("calibration", "hop", "state", "time") if getattr(args, name, None)]
    if given:
        remedy = "leave it out, or use it with `vmcu build --format container`"
        raise UserError(
            Problem(
                f"{spelled(given[0])} does not apply to a container, which is already planned",
                remedy,
                str(args.model),
            )
        )
    container = open_container(args.model)
    if hasattr(args, "hop"):
        args.hop = container.outline.graph.state.step_rows
    return container


def target_of(name: str | None, container: Opened, path: Path) -> CompiledRunner | ZephyrRunner:
    """The machine of that name, HOST by default, as it loads a container. Raises UserError where it
    loads none, or does not have the container's kernels."""
    plain = (name or HOST).removesuffix(LOADING)
    runner = runners.get(f"{plain}{LOADING}")
    assert isinstance(runner, (CompiledRunner, ZephyrRunner))
    targets = targets_of(container.kernels)
    if isinstance(runner, CompiledRunner) and named(runner.family) not in targets:
        cores = " or ".join(one.label for one in targets)
        reason = f"{plain} cannot run this container, which is for {cores or 'no known core'}"
        machines = [one for one in RUNNERS if named(family_of(one)) in targets]
        hint = " or ".join(f"--on {one}" for one in machines) or "build it for one --target"
        raise UserError(Problem(reason, hint, str(path)))
    return runner
