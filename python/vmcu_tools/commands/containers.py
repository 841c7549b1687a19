# SPDX-License-Identifier: Apache-2.0
"""What commands that take a model file do with a container in its place."""

from __future__ import annotations

import argparse

from .. import runners
from ..container import Opened, open_container
from ..errors import Problem, UserError
from ..runners.compiled import LOADING, CompiledRunner
from ..runners.zephyr import ZephyrRunner
from .options import planner_options

HOST = "host"


def opened(args: argparse.Namespace) -> Opened:
    """The container that a command is given. Raises UserError for what is none, and for options
    of planning, which is done."""
    defaults = vars(planner_options().parse_args([]))
    given = [
        name
        for name, value in defaults.items()
        if name in vars(args) and getattr(args, name) != value
    ]
    if getattr(args, "calibration", None) is not None:
        given.append("calibration")
    if given:
        option = f"--{given[0].replace('_', '-')}"
        remedy = "give it to `vmcu build --format container`"
        raise UserError(
            Problem(f"{option} is for building, a container is built", remedy, str(args.model))
        )
    return open_container(args.model)


def target_of(name: str | None) -> CompiledRunner | ZephyrRunner:
    """The target of that name, HOST by default, as it loads containers. Raises UserError where it
    does not."""
    plain = (name or HOST).removesuffix(LOADING)
    found = runners.get(f"{plain}{LOADING}")
    assert isinstance(found, (CompiledRunner, ZephyrRunner))
    return found
