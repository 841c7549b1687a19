# SPDX-License-Identifier: Apache-2.0
"""The commands: `python -m vmcu_tools`, `vmcu` and `west vmcu` all come in here."""

from __future__ import annotations

import argparse
import math
import re
import sys
from pathlib import Path

from . import __version__
from .cli_models import (
    add_inspect,
    add_new,
    add_ops,
    add_quantize,
    border_options,
    calibration_options,
)
from .cli_wear import add_wear
from .errors import Problem, UserError
from .planner import DEFAULT, PLANNERS, SOLVER_SECONDS

Subparsers = argparse._SubParsersAction  # argparse gives it no public name

EXIT_DONE, EXIT_PROBLEM, EXIT_USAGE = 0, 1, 2
# What shells make of SIGINT.
EXIT_INTERRUPTED = 130
UNITS = {"": 1, "k": 1024, "m": 1024 * 1024}


def byte_count(text: str) -> int:
    """'65536', '64K', '1M' to bytes; K is 1024."""
    number, unit = text.strip().lower().removesuffix("b"), ""
    if number and number[-1] in UNITS:
        number, unit = number[:-1], number[-1]
    if not number.isdigit() or int(number) == 0:
        raise argparse.ArgumentTypeError(f"'{text}' is not a size; write 65536, 64K or 1M")
    return int(number) * UNITS[unit]


def c_name(text: str) -> str:
    """A name that C accepts as an identifier."""
    if not text.isidentifier() or not text.isascii():
        raise argparse.ArgumentTypeError(f"'{text}' is not a C identifier")
    return text


def count(text: str) -> int:
    if not text.isdigit():
        raise argparse.ArgumentTypeError(f"'{text}' is not a count")
    return int(text)


def target_name(text: str) -> str:
    """A target of kernels/targets, which are not loaded unless one is asked for."""
    from .kernels.targets import TARGETS

    if text not in TARGETS:
        known = ", ".join(TARGETS)
        raise argparse.ArgumentTypeError(f"there is no target '{text}', choose from {known}")
    return text


def zephyr_target(text: str) -> str:
    """A Zephyr board as --on names it."""
    if not re.fullmatch(r"[\w/@.-]+", text, flags=re.ASCII):
        raise argparse.ArgumentTypeError(f"'{text}' is not the name of a board")
    return f"zephyr:{text}"


def seconds(text: str) -> float:
    try:
        value = float(text)
    except ValueError:
        value = 0.0
    if not 0 < value < 1e6:
        raise argparse.ArgumentTypeError(f"'{text}' is not a number of seconds")
    return value


def percentage(text: str) -> float:
    """'8' or '8%' to 0.08."""
    try:
        value = float(text.removesuffix("%"))
    except ValueError:
        value = -1.0
    if not 0 <= value < 1e6:
        raise argparse.ArgumentTypeError(f"'{text}' is not a percentage")
    return value / 100


def duration(text: str) -> float:
    try:
        seconds = float(text)
    except ValueError:
        seconds = -1.0
    if not 0 <= seconds < math.inf:
        raise argparse.ArgumentTypeError(f"'{text}' is not a number of seconds")
    return seconds


def parser() -> argparse.ArgumentParser:
    top = argparse.ArgumentParser(
        prog="vmcu",
        description="Compiles int8 neural networks (.tflite, .onnx) to const C tables that run in "
        "one circular pool of RAM.",
        epilog="Exit: 0 done, 1 something to change in the model or the call, 2 usage, "
        "130 interrupted.",
    )
    top.add_argument("--version", action="version", version=f"vmcu {__version__}")
    commands = top.add_subparsers(dest="command", required=True, metavar="COMMAND")

    planner = planner_options()
    model, target = model_options(planner), target_options()
    add_build(commands, model)
    add_compare(commands)
    add_verify(commands, [model, target])
    add_run(commands, [model, target])
    add_bench(commands, planner)
    add_size(commands)
    add_place(commands)
    add_inspect(commands)
    add_new(commands)
    add_ops(commands)
    add_quantize(commands)
    add_wear(commands, planner)
    return top


def planner_options() -> argparse.ArgumentParser:
    planner = argparse.ArgumentParser(add_help=False)
    planner.add_argument(
        "--planner",
        choices=PLANNERS,
        default=DEFAULT,
        help="; ".join(f"{p.name}: {p.summary}" for p in PLANNERS.values())
        + f" (default {DEFAULT})",
    )
    planner.add_argument(
        "--target",
        type=target_name,
        metavar="NAME",
        help="the cores to lay out weights for: dsp (Cortex-M4 and up), v7m (Cortex-M3), portable; "
        "all three have one layout, which every core runs (default dsp)",
    )
    planner.add_argument(
        "--solver-seconds",
        type=seconds,
        default=SOLVER_SECONDS,
        metavar="S",
        help=f"what solvers may take where branches need one (default {SOLVER_SECONDS:g})",
    )
    planner.add_argument(
        "--stream-input",
        action="store_true",
        help="the model takes its input row by row (vmcu_push_row), which never exists whole",
    )
    planner.add_argument(
        "--tile-cost",
        type=percentage,
        metavar="PERCENT",
        help="how many more instructions may be spent, by estimate, on keeping tensors in tiles of "
        "rows (default: as large a part as they save of the RAM); more than 100 also tries single "
        "columns",
    )
    planner.add_argument(
        "--rotate",
        action="store_true",
        help="the pool's origin advances after each inference, so that all bytes are written "
        "equally often; takes some more bytes, see doc/endurance.md",
    )
    planner.add_argument(
        "--extra-macs",
        type=percentage,
        default=0.0,
        metavar="PERCENT",
        help="how many multiply-accumulates may be done twice to need less RAM, by working the "
        "widest stages in bands of columns (default 0; --ram takes what it needs)",
    )
    return planner


def model_options(planner: argparse.ArgumentParser) -> argparse.ArgumentParser:
    model = argparse.ArgumentParser(add_help=False, parents=[planner])
    model.add_argument("model", type=Path, metavar="MODEL", help="int8 model, .tflite or .onnx")
    border_options(model)
    calibration_options(model, needed=False)
    return model


def target_options() -> argparse.ArgumentParser:
    target = argparse.ArgumentParser(add_help=False)
    where = target.add_mutually_exclusive_group()
    where.add_argument(
        "--on",
        default="virtual",
        metavar="TARGET",
        help="virtual (the planner's own machine, every tensor), host, qemu:m3, qemu:m4, "
        "qemu:m4-64k (64 KB of RAM), qemu:m7 (default virtual)",
    )
    where.add_argument(
        "--board",
        type=zephyr_target,
        dest="on",
        metavar="BOARD",
        help="a board of your Zephyr workspace that is emulated, such as qemu_cortex_m3, or "
        "native_sim; the model runs in a Zephyr application",
    )
    return target


def add_build(commands: Subparsers, model: argparse.ArgumentParser) -> None:
    build = commands.add_parser(
        "build", parents=[model], help="compile a model to C tables and print what it costs"
    )
    build.add_argument("-o", "--output", type=Path, metavar="DIR", help="write NAME.c, NAME.h here")
    build.add_argument("--name", type=c_name, help="C name of the model (default: the file's)")
    build.add_argument(
        "--ram",
        type=byte_count,
        metavar="SIZE",
        help="the fastest plan in so many bytes, e.g. 64K; fail if there is none (default: the "
        "smallest pool)",
    )
    build.add_argument(
        "--pareto",
        action="store_true",
        help="only show what RAM can be had for which cost in instructions",
    )
    build.add_argument("--json", type=Path, metavar="FILE", help="write the figures as JSON")
    build.add_argument(
        "--html", type=Path, metavar="FILE", help="write the figures and a map of the pool as HTML"
    )


def add_compare(commands: Subparsers) -> None:
    compare = commands.add_parser("compare", help="planners side by side")
    compare.add_argument("model", type=Path, metavar="MODEL", help="int8 model, .tflite or .onnx")
    compare.add_argument("--json", type=Path, metavar="FILE", help="write the figures as JSON")


def add_verify(commands: Subparsers, parents: list[argparse.ArgumentParser]) -> None:
    verify = commands.add_parser(
        "verify",
        parents=parents,
        help="compare with TFLite Micro or ONNX Runtime, byte by byte",
        description="Compares the target's bytes with the graph's meaning, that with the runtime's "
        "tensors node by node, and the outputs with the runtime's for inputs in the file's form. "
        "Exit 1 where something differs by more than doc/models.md allows.",
    )
    verify.add_argument(
        "-n", "--samples", type=count, default=20, help="random inputs (default 20)"
    )
    verify.add_argument(
        "--structured", type=count, default=5, help="constant and patterned inputs, 0-5 (default 5)"
    )
    verify.add_argument("--seed", type=int, default=0, help="of the random inputs (default 0)")


def add_run(commands: Subparsers, parents: list[argparse.ArgumentParser]) -> None:
    run = commands.add_parser("run", parents=parents, help="run a model on given inputs")
    run.add_argument(
        "--input",
        type=Path,
        action="append",
        required=True,
        metavar="X.npy",
        help="int8, or real values to quantise; once per model input, in order",
    )
    run.add_argument(
        "--output",
        type=Path,
        action="append",
        default=[],
        metavar="Y.npy",
        help="once per model output, in order (default: print them)",
    )


def add_bench(commands: Subparsers, planner: argparse.ArgumentParser) -> None:
    bench = commands.add_parser(
        "bench",
        parents=[planner],
        help="count instructions, loads and stores on an emulated board, layer by layer",
    )
    bench.add_argument(
        "model",
        type=Path,
        nargs="?",
        metavar="MODEL",
        help="int8 model, .tflite or .onnx (default: single kernels, beside CMSIS-NN's figures)",
    )
    bench.add_argument(
        "--on",
        default="qemu:m4",
        metavar="TARGET",
        help="qemu:m3, qemu:m4, qemu:m7 (default qemu:m4)",
    )
    bench.add_argument("--json", type=Path, metavar="FILE", help="write the figures as JSON")


def add_size(commands: Subparsers) -> None:
    size = commands.add_parser("size", help="what models and the runtime cost in a linked image")
    size.add_argument("elf", type=Path, metavar="ELF", help="such as build/zephyr/zephyr.elf")
    size.add_argument("--json", type=Path, metavar="FILE", help="write the figures as JSON")


def add_place(commands: Subparsers) -> None:
    place = commands.add_parser(
        "place",
        help="place buffers of given lifetimes and sizes in as few bytes as possible",
        description="Reads buffers from a CSV file with the columns id,lower,upper,size (and "
        "alignment); a buffer is alive from lower until just before upper. Ctrl-C ends the search: "
        "the best placement so far is printed and written, with exit code 130.",
    )
    place.add_argument("problem", type=Path, metavar="PROBLEM.csv")
    place.add_argument(
        "--capacity", type=byte_count, metavar="SIZE", help="fail if it takes more, e.g. 64K"
    )
    place.add_argument(
        "--seconds", type=duration, default=50.0, help="to search at most (default 50)"
    )
    place.add_argument(
        "--json", type=Path, metavar="FILE", help="write the figures and offsets as JSON"
    )
    place.add_argument(
        "--output", type=Path, metavar="OUT.csv", help="write the problem with a column 'offset'"
    )


def main(argv: list[str] | None = None) -> int:
    """Runs one command; returns its exit code. Problems go to stderr, one message."""
    try:
        args = parser().parse_args(argv)
    except SystemExit as stop:
        return int(stop.code or 0)
    # Imported late: `--help` and a mistyped option should not wait for numpy and onnx.
    from . import commands

    try:
        return commands.COMMANDS[args.command](args)
    except UserError as error:
        print(f"vmcu {args.command}: {error}", file=sys.stderr)
    except OSError as error:
        problem = Problem(error.strerror or str(error), file=str(error.filename or ""))
        print(f"vmcu {args.command}: {problem}", file=sys.stderr)
    except KeyboardInterrupt:
        print(f"vmcu {args.command}: interrupted", file=sys.stderr)
        return EXIT_INTERRUPTED
    return EXIT_PROBLEM
