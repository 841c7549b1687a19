# SPDX-License-Identifier: Apache-2.0
"""`vmcu bench`: instructions, loads and stores, counted, and cycles by rules."""

from __future__ import annotations

import argparse
from dataclasses import asdict, replace
from pathlib import Path
from typing import TYPE_CHECKING

from vmcu_tools.commands.limits import board_of, known_board
from vmcu_tools.commands.options import (
    RUNNABLE,
    Subparsers,
    calibration_options,
    changed,
    hop_option,
    int8_model,
    json_option,
    planner_options,
    refuse_with,
    serial_flash_option,
)
from vmcu_tools.commands.parser import MACHINE, OUTPUT, WEAR, titled
from vmcu_tools.errors import Problem, UserError
from vmcu_tools.exits import EXIT_DONE
from vmcu_tools.paths import optional
from vmcu_tools.planner.options import spelled
from vmcu_tools.values import COUNTED_ON, count, is_container, machine

if TYPE_CHECKING:
    from vmcu_tools.boards.flash import Flash
    from vmcu_tools.boards.table import Board

    from ..cycles.model import BenchReport
    from ..cycles.stream import StreamBench

# The options of --wear, which is there if its package is.
wear = optional("vmcu_lab.commands.wear")
# What the machines of a Zephyr workspace begin with.
ZEPHYR = "zephyr:"
EXAMPLES = (
    ("model.tflite", "instructions and cycles, layer by layer"),
    ("model.tflite --board nucleo_f411re", "modelled milliseconds on that board"),
    ("model.tflite --board rpi_pico2 --flash-bus qspi:40MB/s,line=8", "with code in serial flash"),
    ("--wear", "stacks that move, as in the paper"),
    ("--wear model.onnx --rotate", "every store of an inference"),
)


def add(commands: Subparsers) -> argparse.ArgumentParser:
    bench = commands.add_parser(
        "bench",
        parents=[planner_options()],
        help="count instructions, cycles and memory writes",
        description="Runs the model on an emulated core and counts instructions, loads and stores "
        "layer by layer; cycles and milliseconds come from a model of the core (`vmcu help "
        "cycles.md`). A container is loaded as firmware loads it, and its outputs are "
        "compared with its tables.",
    )
    int8_model(bench, "single kernels, beside CMSIS-NN's figures", RUNNABLE)
    where = titled(bench, MACHINE)
    one = where.add_mutually_exclusive_group()
    one.add_argument(
        "--on",
        type=machine,
        metavar="MACHINE",
        help="emulated core that runs the model: qemu:m0, qemu:m3, qemu:m4, qemu:m4-64k, "
        "qemu:m7, qemu:m33, qemu:m55 or qemu:rv32 (default qemu:m4); with --measure: "
        "zephyr:BOARD, a board of your Zephyr workspace; with --wear also virtual (the pool, from "
        "the plan; no lifetime)",
    )
    one.add_argument(
        "--board",
        type=known_board,
        metavar="BOARD",
        help="estimate milliseconds on a board, such as nucleo_l4r5zi, from its core, clock and "
        "flash; with --measure: measure them there",
    )
    where.add_argument(
        "--measure",
        action="store_true",
        help="build a Zephyr application for --board or --on zephyr:BOARD that reads the cycle "
        "counter around each layer, run it, and print its figures",
    )
    where.add_argument(
        "--serial",
        metavar="PORT",
        help="with --measure: flash the board and read this serial port (default: emulate the "
        "board)",
    )
    where.add_argument(
        "--flash-wait",
        type=count,
        metavar="N",
        help="add the modelled cost of flash with N wait states behind small caches",
    )
    serial_flash_option(bench)
    where.add_argument(
        "--inputs",
        type=count,
        metavar="N",
        help="also count N inputs, edge cases and random ones, and print the most instructions and "
        "their spread",
    )
    titled(bench, OUTPUT).add_argument(
        "--keep",
        type=Path,
        metavar="DIR",
        help="leave the counted image in DIR, with its input and run.sh, which runs it",
    )
    if wear:
        titled(bench, WEAR).add_argument(
            "--wear",
            action="store_true",
            help="print where writes go in a memory that wears out, and how long it lasts: of an "
            "inference, or, without MODEL, of the stacks in the paper on task stack migration",
        )
        wear.options(bench)
    hop_option(bench)
    calibration_options(bench)
    json_option(bench)
    return bench


def run(args: argparse.Namespace) -> int:
    from vmcu_tools.report.terminal import console, write_json

    from ..cycles import kernels
    from ..report import costs
    from ..report.streams import print_hops

    if wear and args.wear:
        return _wear(args)
    _check(args)
    if args.model is None:
        results = kernels.bench_kernels(args.on or COUNTED_ON, args.target)
        costs.print_kernels(results, console())
        figures: object = {"kernels": [asdict(result) for result in results]}
    elif moves(args):
        hops = _stream(args)
        print_hops(hops, console())
        figures = asdict(hops)
    else:
        report = _report(args)
        costs.print_bench(report, console())
        figures = asdict(report)
    write_json(figures, args.json)
    return EXIT_DONE


def _wear(args: argparse.Namespace) -> int:
    """The wear of a memory. Raises UserError for options that the simulation does not support."""
    others = {
        "--board": args.board is not None,
        "--measure": args.measure,
        "--serial": args.serial is not None,
        "--flash-wait": args.flash_wait is not None,
        "--flash-bus": args.flash_bus is not None,
        "--inputs": args.inputs is not None,
        "--keep": args.keep is not None,
        "--hop": bool(args.hop),
        "--state": args.state is not None,
        "--time": args.time is not None,
    }
    refuse_with(others, "{} cannot be combined with --wear", "leave out one of the two", args.model)
    streaming = ("hop", "state", "time")
    left = {name: value for name, value in vars(args).items() if name not in streaming}
    status: int = wear.run(argparse.Namespace(**left | {"on": args.on or COUNTED_ON}))
    return status


def moves(args: argparse.Namespace) -> bool:
    """True for a model that keeps rows from one answer to the next."""
    from vmcu_tools.commands.models import check_options

    if is_container(args.model):
        from .containers import opened

        opened(args)
    else:
        check_options(args)
    return bool(args.hop > 0)


def _check(args: argparse.Namespace) -> None:
    """Raises UserError where options do not go together."""
    if wear:
        unused = argparse.ArgumentParser()
        wear.options(unused)
        of_wear = changed(args, vars(unused.parse_args([])))
        refuse_with(of_wear, "{} requires --wear", "add --wear, or leave it out", args.model)
    of_a_model = ("board", "flash_bus", "flash_wait", "inputs", "keep")
    given = any(getattr(args, name) is not None for name in of_a_model) or args.hop
    if args.model is None and given:
        options = ", ".join(map(spelled, (*of_a_model, "hop")))
        raise UserError(Problem(f"{options} require a model", "name one"))
    on_zephyr = (args.on or "").startswith(ZEPHYR)
    if args.measure and args.board is None and not on_zephyr:
        remedy = f"add --board NAME, which `vmcu boards` lists, or --on {ZEPHYR}BOARD"
        raise UserError(Problem("--measure requires a board", remedy))
    if on_zephyr and not args.measure:
        raise UserError(Problem(f"--on {ZEPHYR}BOARD requires --measure", "add --measure"))
    if args.serial is not None and not args.measure:
        raise UserError(Problem("--serial requires --measure", "add --measure"))
    if args.measure:
        others = {
            "--flash-wait": args.flash_wait is not None,
            "--flash-bus": args.flash_bus is not None,
            "--inputs": args.inputs is not None,
            "--keep": args.keep is not None,
        }
        reason = "{} cannot be combined with --measure"
        refuse_with(others, reason, "leave out one of the two", args.model)
    if args.flash_bus is not None and (args.board is None or args.flash_wait is not None):
        reason = "--flash-bus requires --board, whose clock it needs, and replaces --flash-wait"
        raise UserError(Problem(reason, "add --board NAME, and leave out --flash-wait"))


def _stream(args: argparse.Namespace) -> StreamBench:
    from vmcu_tools.commands.models import compiled
    from vmcu_tools.model_file import name_of

    from ..cycles.stream import bench

    others = {
        "--board": args.board is not None,
        "--flash-wait": args.flash_wait is not None,
        "--flash-bus": args.flash_bus is not None,
        "--inputs": args.inputs is not None,
    }
    refuse_with(others, "--hop cannot be combined with {}", "leave out one of the two", args.model)
    if is_container(args.model):
        return _stream_of_container(args)
    return bench(compiled(args), name_of(args.model), args.on or COUNTED_ON, keep=args.keep)


def _stream_of_container(args: argparse.Namespace) -> StreamBench:
    from vmcu_tools.container import open_container
    from vmcu_tools.model_file import name_of

    from ..cycles.container import bench_stream
    from .containers import target_of

    container, name = open_container(args.model), name_of(args.model)
    target = target_of(args.on or COUNTED_ON, container, args.model).name
    return bench_stream(container, name, target, args.keep)


def _report(args: argparse.Namespace) -> BenchReport:
    """The report of a model on what the options name."""
    from vmcu_tools.boards.flash import ART, BOARDS
    from vmcu_tools.boards.table import flash_of
    from vmcu_tools.commands.models import compiled
    from vmcu_tools.model_file import name_of

    from ..cycles import model

    name = name_of(args.model)
    if args.measure and is_container(args.model):
        raise UserError(
            Problem(
                "--measure does not support containers",
                "give the model that the container was built from",
            )
        )
    if args.measure:
        from ..cycles.measured import measure
        from ..runners.zephyr import ZephyrRunner

        board_name = args.board or args.on.removeprefix(ZEPHYR)
        return measure(compiled(args), name, ZephyrRunner(board_name, port=args.serial))
    board = None if args.board is None else _board(args.board, args.flash_bus is not None)
    part = None if board is None else BOARDS.get(board.name)
    # Plans are made for the machine that counts.
    args.on = target = args.on or (COUNTED_ON if board is None else model.emulated(board.cpu))
    flash = None if board is None else flash_of(board, args.flash_bus)
    if args.flash_wait is not None:
        flash = replace(flash or ART, waits=args.flash_wait)
    model.board(target)
    if is_container(args.model):
        report = _of_container(args, name, target, flash)
    else:
        report = model.bench(
            compiled(args), name, target, flash=flash, keep=args.keep, inputs=args.inputs or 0
        )
    if board is None:
        return report
    manual = "" if part is None or args.flash_bus else f", by {part.manual}"
    return model.on_board(report, board, flash, manual)


def _board(text: str, has_flash: bool) -> Board:
    """A board of the table whose cycles become milliseconds."""
    from ..cycles.timing import PER_INSTRUCTION, TIMINGS

    board, cores = board_of(text), {*TIMINGS, *PER_INSTRUCTION}
    reason = board.lacks(cores, has_flash)
    if reason:
        remedy = "count on a core with --on, or on the board itself with --measure"
        if board.external and not board.lacks(cores, True):
            remedy = "describe the flash with --flash-bus, or count on the board with --measure"
        raise UserError(Problem(f"no estimate for {board.name}: {reason}", remedy))
    return board


def _of_container(
    args: argparse.Namespace, name: str, target: str, flash: Flash | None
) -> BenchReport:
    from ..cycles.container import bench
    from .containers import opened, target_of

    container = opened(args)
    target = target_of(target, container, args.model).name
    return bench(container, name, target, flash, args.keep, args.inputs or 0)
