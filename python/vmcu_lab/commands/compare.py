# SPDX-License-Identifier: Apache-2.0
"""`vmcu compare`: planners side by side on one model, or what changed between two."""

from __future__ import annotations

import argparse
from dataclasses import asdict
from pathlib import Path

from vmcu_tools.commands import options
from vmcu_tools.commands.parser import OUTPUT, titled
from vmcu_tools.commands.sheets import REPORT, WHAT
from vmcu_tools.errors import Problem, UserError
from vmcu_tools.exits import EXIT_DONE
from vmcu_tools.values import is_container

EXAMPLES = (
    ("model.onnx", "beside other tools' planners"),
    ("before.tflite after.tflite", "which layers grew"),
    ("before.json after.vmcu", "a report and a container"),
)


def add(commands: options.Subparsers) -> argparse.ArgumentParser:
    compare = commands.add_parser(
        "compare",
        parents=[options.planner_options()],
        help="compare planners on a model, or two models",
        description="With one model: plan it with every planner. With two files: print which "
        "figures and layers changed. Both models are planned with the same options; containers and "
        "reports are read as they are.",
    )
    compare.add_argument("model", type=Path, metavar="A", help=WHAT)
    compare.add_argument("after", type=Path, metavar="B", nargs="?", help="file to compare A with")
    add_options(compare)
    return compare


def add_options(compare: argparse.ArgumentParser) -> None:
    """Those but the planner's."""
    titled(compare, OUTPUT).add_argument(
        "--markdown", type=Path, metavar="FILE", help="write the difference of two files"
    )
    options.calibration_options(compare)
    options.hop_option(compare)
    options.json_option(compare)


def run(args: argparse.Namespace) -> int:
    return planners(args) if args.after is None else differences(args)


def planners(args: argparse.Namespace) -> int:
    """One model with every planner."""
    from vmcu_tools.commands.models import quantised
    from vmcu_tools.compiler import compile_model
    from vmcu_tools.planner.options import CompileOptions
    from vmcu_tools.planner.registry import PLANNERS
    from vmcu_tools.report.terminal import console, say, write_json

    from ..planners import BASELINES, installed, plan_of
    from ..report.comparison import comparison, print_comparison

    _check_single(args)
    # Those that come from elsewhere as they are there, for their own kernels.
    model = quantised(args)
    own = compile_model(model, CompileOptions(state=()))
    if own.graph.loops and not own.graph.state.names:
        reason = "the network has a loop, which other planners do not have"
        remedy = "`vmcu build` prints what it needs"
        raise UserError(Problem(reason, remedy, str(args.model)))
    others = [name for name in PLANNERS if name != own.planner]
    plans = {own.planner: own}
    plans |= {name: compile_model(model, CompileOptions(planner=name, state=())) for name in others}
    plans |= {name: plan_of(name, model) for name in installed()}
    outcome = comparison(args.model.stem, plans)
    print_comparison(outcome, console())
    for name in BASELINES.keys() - plans.keys():
        say(console(), f"{name} needs Python packages: pip install 'vmcu[solver]'")
    write_json(asdict(outcome), args.json)
    return EXIT_DONE


def _check_single(args: argparse.Namespace) -> None:
    """Raises UserError for options that only a comparison of two files has."""
    usual = vars(options.planner_options().parse_args([])) | {"hop": 0, "time": None, "state": None}
    usual["markdown"] = None
    reason = "{} requires two files"
    remedy = "leave it out, or name a second file"
    options.refuse_with(options.changed(args, usual), reason, remedy, args.model)
    if args.model.suffix == REPORT or is_container(args.model):
        reason = "planners cannot be compared on a report or a container"
        raise UserError(Problem(reason, "name a model, or a second file", str(args.model)))


def differences(args: argparse.Namespace) -> int:
    """Prints the changes from one file to another."""
    from vmcu_tools.commands.sheets import sheet
    from vmcu_tools.report.difference import difference, markdown, print_difference
    from vmcu_tools.report.terminal import console, write_json

    changes = difference(sheet(args, args.model), sheet(args, args.after))
    print_difference(changes, console())
    write_json(asdict(changes), args.json)
    if args.markdown:
        text = markdown(changes, f"{changes.before} to {changes.after}")
        args.markdown.write_text(text, encoding="utf-8")
    return EXIT_DONE
