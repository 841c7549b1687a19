# SPDX-License-Identifier: Apache-2.0
"""`vmcu fit`: does a model fit, by how much not, and what would make it fit."""

from __future__ import annotations

import argparse
from collections.abc import Mapping
from dataclasses import asdict, replace
from typing import TYPE_CHECKING, Any

from vmcu_tools.commands.limits import board_options, left_on_board
from vmcu_tools.commands.options import (
    Subparsers,
    hop_option,
    json_option,
    model_options,
    name_option,
    refuse_with,
)
from vmcu_tools.commands.parser import LIMITS, titled
from vmcu_tools.errors import Problem, UserError
from vmcu_tools.exits import EXIT_DONE, EXIT_PROBLEM
from vmcu_tools.values import byte_count

if TYPE_CHECKING:
    from ..fit.figures import Footprint, Limits

EXAMPLES = (
    ("model.tflite --ram 64K --flash 512K", "does it fit, and what makes it fit"),
    ("model.tflite --board nucleo_f411re", "beside an application of usual size"),
    ("model.onnx --ram 64K --grow", "how much larger the model can be"),
)


def add(commands: Subparsers) -> argparse.ArgumentParser:
    fit = commands.add_parser(
        "fit",
        parents=[model_options()],
        help="check whether a model fits, and find what makes it fit",
        description="Exit 0: the model fits; 1: it does not, or an error. --ram, --flash or "
        "--board is required.",
    )
    limits = titled(fit, LIMITS)
    limits.add_argument("--flash", type=byte_count, metavar="SIZE", help="limit weights and tables")
    board_options(fit, "--ram and --flash")
    limits.add_argument(
        "--grow",
        action="store_true",
        help="if it fits: find the largest image and the most channels that still fit",
    )
    hop_option(fit)
    name_option(fit)
    json_option(fit)
    return fit


def run(args: argparse.Namespace) -> int:
    from vmcu_tools.commands.models import compiled, quantised
    from vmcu_tools.frontends import load
    from vmcu_tools.model_file import name_of
    from vmcu_tools.passes import optimize
    from vmcu_tools.report.terminal import console, write_json

    from ..fit.resized import measured
    from ..fit.ways import fit
    from ..report.fit import print_fit

    limits = limits_of(args)
    _check(args)
    # Quantised once, however many plans there are.
    once = {"model": quantised(args), "calibration": None, "ram": None}
    args = argparse.Namespace(**{**vars(args), **once})

    name = args.name or name_of(args.model)

    def planned(asked: Mapping[str, Any]) -> Footprint:
        return measured(compiled(argparse.Namespace(**{**vars(args), **asked})), name)

    outcome = fit(
        name,
        compiled(args),
        limits,
        planned,
        lambda: replace(optimize(load(args.model), all_channels=True), target=args.target),
        args.grow,
    )
    print_fit(outcome, console())
    write_json(asdict(outcome), args.json)
    return EXIT_DONE if outcome.fits else EXIT_PROBLEM


def _check(args: argparse.Namespace) -> None:
    """Raises UserError for what other plans are not made with."""
    others = {
        "--memory": bool(args.memory),
        "--rotate": args.rotate,
        "--external-weights": args.external_weights is not None,
    }
    reason = "{} cannot be combined with fit, which looks for other plans in one pool"
    refuse_with(others, reason, "leave it out", args.model)


def limits_of(args: argparse.Namespace) -> Limits:
    """The memory that the model may use. Raises UserError if no option limits it."""
    from ..fit.figures import Limits

    if args.board is None:
        if args.ram is None and args.flash is None:
            raise UserError(
                Problem("no limit is given", "give --ram, --flash or --board", str(args.model))
            )
        return Limits(args.ram, args.flash)
    left = left_on_board(args)
    ram, flash = (given or rest for given, rest in zip((args.ram, args.flash), left, strict=True))
    return Limits(ram, flash, args.board)
