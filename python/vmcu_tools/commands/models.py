# SPDX-License-Identifier: Apache-2.0
"""The model that a command is given, as its arguments ask for it."""

from __future__ import annotations

import argparse
import sys
from collections.abc import Mapping
from dataclasses import fields, replace
from pathlib import Path
from typing import Any

from .. import model_file
from ..boards.flash import Flash
from ..boards.table import flash_of
from ..ops import bias_warnings
from ..plan.plan import Plan
from ..planner.options import CompileOptions
from ..planner.params import DEFAULT_PARAMS
from ..planner.registry import INTERRUPTED
from ..quantize.ranges import RANDOM_NOTE
from .limits import board_of


def quantised(args: argparse.Namespace) -> Path:
    """The int8 file that a command shall work on."""
    if getattr(args, "calibration", None) is None:
        model: Path = args.model
        return model
    return model_file.quantised(
        args.model, args.calibration, args.calibration_method, args.per_tensor, args.constant
    )


def compiled(args: argparse.Namespace, choices: bool = False) -> Plan:
    """The plan that a command's model and planner options ask for. What is doubtful in the model
    goes to stderr and among the plan's notes. choices: as CompileOptions has it."""
    check_options(args)
    layout = getattr(args, "input_layout", "file")
    plan = model_file.planned(quantised(args), options_of(args, choices), layout)
    if INTERRUPTED in plan.notes and args.command != "build":
        # Only `vmcu build` has a use for the best plan so far; others would go on for long.
        raise KeyboardInterrupt
    if plan.model.notes.is_random:
        print(RANDOM_NOTE, file=sys.stderr)
    for warning in bias_warnings(plan.model):
        print(f"warning: {warning}", file=sys.stderr)
    return plan


def options_of(args: argparse.Namespace, choices: bool = False) -> CompileOptions:
    """The options that a command's arguments give; options that the command lacks have their
    default."""
    values = vars(args)
    given = {f.name: values[f.name] for f in fields(CompileOptions) if f.name in values}
    machine = values.get("on")
    loads, family = _machine_of(machine) if machine else (False, None)
    contained = values.get("format", "c") == "container" or loads
    given["target"] = given.get("target") or family
    params = replace(DEFAULT_PARAMS, flash=_serial_flash(values))
    return CompileOptions(**given, container=contained, choices=choices, params=params)


def _serial_flash(values: Mapping[str, Any]) -> Flash | None:
    """The serial flash of a command's board, if constants are in it."""
    if values.get("board") is None or values.get("external_weights") is not None:
        return None
    flash = flash_of(board_of(values["board"]), values.get("flash_bus"))
    return flash if flash is not None and flash.bus else None


def _machine_of(name: str) -> tuple[bool, str | None]:
    """Whether a machine loads containers, and the target whose layout suits it best."""
    from vmcu_bench.runners import family_of
    from vmcu_bench.runners.compiled import LOADING

    return name.endswith(LOADING), family_of(name)


def check_options(args: argparse.Namespace) -> None:
    """Raises UserError for options that exclude each other. A file that keeps its state has a hop,
    which becomes that of `args`."""
    own = {name for name in ("pareto", "output") if getattr(args, name, None)}
    options = model_file.checked(args.model, options_of(args), own)
    if hasattr(args, "hop"):
        args.hop = options.hop
