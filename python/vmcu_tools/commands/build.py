# SPDX-License-Identifier: Apache-2.0
"""`vmcu build`: a model to C tables, and what they cost."""

from __future__ import annotations

import argparse
import shlex
from collections.abc import Sequence
from dataclasses import asdict, replace
from pathlib import Path
from typing import TYPE_CHECKING

from ..errors import Problem, UserError
from ..exits import EXIT_DONE, EXIT_INTERRUPTED
from ..planner.keyword import PLAN
from ..planner.options import spelled
from .limits import board_of, known_board
from .options import (
    Subparsers,
    all_option,
    hop_option,
    json_option,
    model_options,
    name_option,
    picture_option,
    release_options,
    report_option,
    serial_flash_option,
)
from .parser import MACHINE, OUTPUT, titled

if TYPE_CHECKING:
    from ..emit import Emitted
    from ..plan.plan import Plan
    from ..report.model import ModelReport

FORMATS = ("c", "container")
PNG = ".png"


EXAMPLES = (
    ("model.tflite", "RAM, flash and MACs"),
    ("model.tflite --board nrf52840dk", "and estimated milliseconds on a board"),
    ("model.tflite -o out --ram 64K", "C tables, the fastest plan in 64 KB"),
    ("model.onnx --html report.html", "a page: what is in RAM, and when"),
    ("net.onnx --calibration data.npz -o out", "quantise a float model first"),
    ("kws.tflite --hop 1 --json - --quiet", "one new row a call; figures as JSON"),
    ("kws.tflite --format container -o .", "kws.vmcu, which firmware loads"),
)


def add(commands: Subparsers) -> argparse.ArgumentParser:
    build = commands.add_parser(
        "build",
        parents=[model_options()],
        help="compile a model to C and print its RAM, flash and MACs",
    )
    output = titled(build, OUTPUT)
    output.add_argument(
        "-o",
        "--output",
        type=Path,
        metavar="DIR",
        help="write NAME.c and NAME.h, or NAME.vmcu, into this folder",
    )
    output.add_argument(
        "--format",
        choices=FORMATS,
        default=FORMATS[0],
        help="c: tables to compile with the firmware; container: NAME.vmcu, which firmware loads "
        "at run time (vmcu_model_load) (default c)",
    )
    output.add_argument(
        "--online",
        action="store_true",
        help="with --format container: let devices plan the model (vmcu_model_load_as); layers are "
        "not fused, which needs more RAM",
    )
    name_option(build)
    titled(build, MACHINE).add_argument(
        "--board",
        type=known_board,
        metavar="BOARD",
        help="estimate milliseconds on a board; `vmcu boards` lists those with an estimate",
    )
    serial_flash_option(build)
    release_options(build)
    titled(build, PLAN).add_argument(
        "--pareto",
        action="store_true",
        help="only list the pool sizes that you can choose, and the cycles that each costs",
    )
    hop_option(build)
    json_option(build)
    all_option(build, "pool bytes")
    report_option(build)
    output.add_argument(
        "--html",
        type=Path,
        metavar="FILE",
        help="write a page: map of the pool, peak, layers, other planners",
    )
    picture_option(build, "the map of the pool, .svg or .png, which needs Pillow")
    return build


def run(args: argparse.Namespace) -> int:
    check_options(args)
    if args.pareto:
        return show_front(args)
    from ..emit import emit, write
    from ..model_file import name_of
    from ..planner.registry import INTERRUPTED
    from ..report import model
    from ..report.build import print_brief, print_report
    from ..report.cycles import cycle_seconds
    from ..report.terminal import console, write_json
    from ..report.time import brief_time, estimated_time, reason_without
    from .models import compiled

    name = args.name or name_of(args.model)
    plan = compiled(args, choices=args.html is not None)
    emitted = emit(plan, name, command_line(args, name))
    board = None if args.board is None else board_of(args.board)
    known = board is not None and not reason_without(plan, board, args.flash_bus)
    cycle_s = cycle_seconds(board) if board is not None and known else None
    report = model.report(plan, name, emitted.tables_bytes, emitted.weights_bytes, cycle_s)
    time = "" if board is None else estimated_time(plan, board, args.flash_bus)
    drawn, written = drawings(args, plan, report), []
    # First, as the folder may be the one of the other files.
    if args.output:
        files = emitted.all_files if args.format == "c" else one_file(args, plan, emitted, name)
        written = write(files, args.output)
    write_json(asdict(report), args.json)
    for path, content in drawn:
        path.write_bytes(content)
    if args.report:
        flash = report.weights_bytes + report.tables_bytes
        said = name, report.pool_bytes, flash, brief_time(plan, board, args.flash_bus)
        print_brief(*said, args.report, lambda file: print_report(report, file, args.all, time))
    else:
        print_report(report, console(), args.all, time)
        for line in [*(f"wrote {path}" for path in written), *next_steps(args, written)]:
            print(line)
    return EXIT_INTERRUPTED if INTERRUPTED in plan.notes else EXIT_DONE


def drawings(args: argparse.Namespace, plan: Plan, report: ModelReport) -> list[tuple[Path, bytes]]:
    """The page and the pictures that are asked for, all of them before any is written."""
    if not (args.html or args.picture):
        return []
    from ..report.page import files

    drawn = [(args.html, files.page)] if args.html else []
    if args.picture:
        is_png = args.picture.suffix == PNG
        drawn.append((args.picture, files.png_picture if is_png else files.svg_picture))
    return [(path, draw(plan, report)) for path, draw in drawn]


def one_file(
    args: argparse.Namespace, plan: Plan, emitted: Emitted, name: str
) -> dict[str, str | bytes]:
    """The container of a plan, and its weights file. Raises UserError for what no container has."""
    from .. import container

    release = None
    if args.product is not None or args.model_version is not None:
        release = container.Release(args.product or 0, args.model_version or 0)
    image = container.of_emitted(emitted, plan, name, args.online, release)
    return {f"{name}.vmcu": image, **emitted.weights}


def check_options(args: argparse.Namespace) -> None:
    """Raises UserError for options that need a container or a board."""
    stated = args.product is not None or args.model_version is not None
    if stated and args.format != "container":
        reason = "--product and --model-version require a container"
        raise UserError(Problem(reason, "add --format container", str(args.model)))
    if args.online and args.format != "container":
        reason = "--online requires a container"
        raise UserError(Problem(reason, "add --format container", str(args.model)))
    if args.format == "container" and args.workers > 1:
        reason = "a container has no tasks for two workers"
        raise UserError(Problem(reason, "leave out --workers", str(args.model)))
    if args.flash_bus is not None and args.board is None:
        reason = "--flash-bus requires --board, whose clock it needs"
        raise UserError(Problem(reason, "add --board NAME", str(args.model)))


def next_steps(args: argparse.Namespace, written: Sequence[Path]) -> list[str]:
    """Commands that a user is likely to run next, each with what it does."""
    from .. import model_file
    from ..frontends import runtime_of

    options = chosen_options(args)
    verify = shlex.join(["vmcu", "verify", model_file.as_argument(args.model), *options])
    steps = [(verify, f"compare each tensor with {runtime_of(args.model)}")]
    if not written:
        build = shlex.join(
            ["vmcu", "build", model_file.as_argument(args.model), *options, "-o", "out"]
        )
        steps.append((build, "write the C files into the folder out"))
    elif args.format == "c" and not options:
        new = shlex.join(["west", "vmcu", "new", "app", "--model", str(args.model)])
        steps.append((new, "write a Zephyr application around the model"))
    lines = ((f"  {command}", f"  {command}    # {what}") for command, what in steps)
    return ["", "next:", *(long if len(long) <= 100 else short for short, long in lines)]


def command_line(args: argparse.Namespace, name: str) -> str:
    """The command that makes the same tables again, in the folder that the model is in."""
    from .. import model_file

    return model_file.command_line(args.model, name, chosen_options(args, args.model))


def chosen_options(args: argparse.Namespace, model: Path | None = None) -> list[str]:
    """The options of the model and its plan that have another value than the default; paths are
    relative to the folder of `model`, if there is one."""
    from .. import model_file
    from .models import options_of

    words = [*options_of(args).words()]
    usual = vars(model_options().parse_args(["model"]))
    for option in ("input_layout", "calibration", "calibration_method", "per_tensor", "constant"):
        value = getattr(args, option)
        if value == usual[option]:
            continue
        if isinstance(value, list):
            words += [word for one in value for word in (spelled(option), one)]
            continue
        words.append(spelled(option))
        if isinstance(value, Path) and model is not None:
            words.append(model_file.relative(value, model))
        elif value is not True:
            words.append(str(value))
    return words


def show_front(args: argparse.Namespace) -> int:
    """Prints what RAM can be had at which cost; nothing is emitted."""
    from ..frontends import load
    from ..kernels.targets import named
    from ..passes import optimize
    from ..planner.stages import fusion
    from ..report.build import print_front
    from ..report.terminal import console, write_json
    from .models import check_options, options_of, quantised

    check_options(args)
    graph = replace(optimize(load(quantised(args))), target=named(args.target).name)
    options = options_of(args)
    options = replace(options, params=options.params.at(options.effort))
    choices = fusion.front(graph, options)
    print_front(choices, console())
    write_json([asdict(choice) for choice in choices], args.json)
    return EXIT_DONE
