# SPDX-License-Identifier: Apache-2.0
"""What commands that take a model file do with a container in its place."""

from __future__ import annotations

import argparse

from .. import runners
from ..container import Opened, open_container
from ..errors import Problem, UserError
from ..planner.options import spelled
from ..runners.compiled import LOADING, CompiledRunner
from ..runners.zephyr import ZephyrRunner
from .options import planner_options

HOST = "host"


def opened(args: argparse.Namespace) -> Opened:
    """The container that a command is given. Raises UserError for what is none, and for options
    of planning, which is done. A hop is the container's own."""
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
    found = open_container(args.model)
    if hasattr(args, "hop"):
        args.hop = found.outline.graph.hop
    return found


def target_of(name: str | None) -> CompiledRunner | ZephyrRunner:
    """The target of that name, HOST by default, as it loads containers. Raises UserError where it
    does not."""
    plain = (name or HOST).removesuffix(LOADING)
    found = runners.get(f"{plain}{LOADING}")
    assert isinstance(found, (CompiledRunner, ZephyrRunner))
    return found
