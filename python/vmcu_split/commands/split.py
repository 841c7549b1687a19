# SPDX-License-Identifier: Apache-2.0
"""`vmcu split`: one network on several microcontrollers."""

from __future__ import annotations

import argparse
import re
import shlex
from dataclasses import asdict
from pathlib import Path

from vmcu_tools.commands.limits import board_of, known_board
from vmcu_tools.commands.options import (
    Subparsers,
    int8_model,
    json_option,
    name_option,
    plan_options,
)
from vmcu_tools.commands.parser import LIMITS, MACHINE, OUTPUT, titled
from vmcu_tools.errors import Problem, UserError
from vmcu_tools.exits import EXIT_DONE

EXAMPLES = (
    ("model.tflite --nodes 4 --link 1Mbit", "the least latency"),
    ("model.tflite --nodes 4 --link 1Mbit --best ram -o out", "the least RAM; C tables"),
    ("decoder.onnx --nodes 2 --link 115200bit --latency 500us", "each node keeps its states"),
)
MOST_NODES = 16
BOARD = "nrf52840dk/nrf52840"
_BITS = {"": 1.0, "k": 1e3, "M": 1e6}
_SECONDS = {"s": 1.0, "ms": 1e-3, "us": 1e-6}


def node_count(text: str) -> int:
    """A number of nodes."""
    if not text.isdigit() or not 2 <= int(text) <= MOST_NODES:
        raise argparse.ArgumentTypeError(f"'{text}' is not a number from 2 to {MOST_NODES}")
    return int(text)


def bit_rate(text: str) -> float:
    """'1Mbit', '115200bit' or '250kbit' to bits a second."""
    match = re.fullmatch(r"(\d+(?:\.\d+)?)([kM]?)bit(?:/s)?", text, re.ASCII)
    if match is None or not float(match[1]):
        raise argparse.ArgumentTypeError(f"'{text}' is not a rate; write 115200bit or 1Mbit")
    return float(match[1]) * _BITS[match[2]]


def duration(text: str) -> float:
    """'1ms' or '200us' to seconds."""
    match = re.fullmatch(r"(\d+(?:\.\d+)?)(s|ms|us)", text, re.ASCII)
    if match is None:
        raise argparse.ArgumentTypeError(f"'{text}' is not a time; write 1ms or 200us")
    return float(match[1]) * _SECONDS[match[2]]


def add(commands: Subparsers) -> argparse.ArgumentParser:
    split = commands.add_parser(
        "split",
        help="compile a model for several microcontrollers",
        description="Chooses which node computes which layers, or which rows of an image, and "
        "writes C tables for each node. Layers run one node after the other (pipeline), or all "
        "nodes compute bands of rows (rows).",
    )
    int8_model(split)
    group = titled(split, MACHINE)
    group.add_argument(
        "--nodes", type=node_count, required=True, metavar="N", help="number of nodes"
    )
    group.add_argument(
        "--link",
        type=bit_rate,
        required=True,
        metavar="RATE",
        help="bits a second between two nodes, such as 115200bit or 1Mbit; 8 a byte",
    )
    group.add_argument(
        "--latency",
        type=duration,
        default=0.0,
        metavar="TIME",
        help="latency of the link, such as 1ms or 200us (default 0)",
    )
    group.add_argument(
        "--board",
        type=known_board,
        default=BOARD,
        metavar="BOARD",
        help=f"board of each node, for the estimate of its time (default {BOARD})",
    )
    plan_options(split, "target", "effort")
    titled(split, LIMITS).add_argument(
        "--best",
        choices=("latency", "ram"),
        default="latency",
        help="latency: the shortest inference; ram: the least RAM of the largest node (default "
        "latency)",
    )
    titled(split, OUTPUT).add_argument(
        "-o",
        "--output",
        type=Path,
        metavar="DIR",
        help="write the C files of each node into DIR/node0, DIR/node1, ...",
    )
    name_option(split)
    json_option(split)
    return split


def run(args: argparse.Namespace) -> int:
    from vmcu_tools.commands.models import options_of
    from vmcu_tools.emit import write
    from vmcu_tools.model_file import name_of
    from vmcu_tools.report.terminal import console, write_json
    from vmcu_tools.report.time import reason_without

    from ..nodes import Link
    from ..report import print_split, split_report
    from ..search import best_split
    from ..tables import node_files

    name, board = args.name or name_of(args.model), board_of(args.board)
    link = Link(args.link, args.latency)
    split, one = best_split(args.model, args.nodes, link, args.best, board, options_of(args))
    reason = reason_without(one.plan, board)
    if reason:
        hint = "name another board; `vmcu boards` lists those with an estimate"
        raise UserError(Problem(f"no estimate for {args.board}: {reason}", hint, str(args.model)))
    report = split_report(name, split, one)
    files = [node_files(split, node, name, _command(args)) for node in range(args.nodes)]
    written = []
    if args.output:
        for node, own in enumerate(files):
            written += write(own, args.output / f"node{node}")
    write_json(asdict(report), args.json)
    print_split(report, console())
    for path in written:
        print(f"wrote {path}")
    return EXIT_DONE


def _command(args: argparse.Namespace) -> str:
    """Returns the command that makes the same tables again, in the model's folder."""
    words = ["vmcu", "split", args.model.name, "--nodes", str(args.nodes)]
    words += ["--link", f"{args.link:.0f}bit", "--latency", f"{1e6 * args.latency:.0f}us"]
    words += ["--best", args.best, "--board", args.board]
    for option in ("target", "name"):
        if getattr(args, option):
            words += [f"--{option}", getattr(args, option)]
    return shlex.join(words)
