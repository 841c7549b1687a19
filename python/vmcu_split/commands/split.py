# SPDX-License-Identifier: Apache-2.0
"""`vmcu split`: one network on several microcontrollers."""

from __future__ import annotations

import argparse
import re
from collections.abc import Callable, Mapping
from pathlib import Path

from vmcu_tools.commands import options
from vmcu_tools.commands.limits import board_of, known_board
from vmcu_tools.commands.parser import LIMITS, MACHINE, OUTPUT, titled
from vmcu_tools.errors import Problem, UserError
from vmcu_tools.exits import EXIT_DONE

EXAMPLES = (
    ("model.tflite --nodes 4 --link 1Mbit", "the least latency"),
    ("model.tflite --nodes 4 --link 1Mbit --best ram -o out", "the least RAM; C tables"),
    ("enhancer.onnx --nodes 2 --link 115200bit --latency 500us", "each node keeps its states"),
)
MOST_NODES = 16
BOARD = "nrf52840dk/nrf52840"
RATES = {"bit": 1.0, "kbit": 1e3, "Mbit": 1e6}
TIMES = {"s": 1.0, "ms": 1e-3, "us": 1e-6}


def node_count(text: str) -> int:
    """A number of nodes."""
    if not text.isdigit() or not 2 <= int(text) <= MOST_NODES:
        raise argparse.ArgumentTypeError(f"'{text}' is not a number from 2 to {MOST_NODES}")
    return int(text)


def quantity(units: Mapping[str, float], example: str) -> Callable[[str], float]:
    """A positive number with a unit."""

    def read(text: str) -> float:
        match = re.fullmatch(r"(\d+(?:\.\d+)?)([A-Za-z]+)", text, re.ASCII)
        if match is None or match[2] not in units or not float(match[1]):
            raise argparse.ArgumentTypeError(f"'{text}' has no known unit; write {example}")
        return float(match[1]) * units[match[2]]

    return read


def add(commands: options.Subparsers) -> argparse.ArgumentParser:
    split = commands.add_parser(
        "split",
        help="compile a model for several microcontrollers",
        description="Chooses which node computes which layers, or which rows of an image, and "
        "writes C tables for each node. Nodes compute layers one node after the other (pipeline), "
        "or bands of rows at the same time (rows).",
    )
    options.int8_model(split)
    add = titled(split, MACHINE).add_argument
    add("--nodes", type=node_count, required=True, metavar="N", help="number of nodes")
    rate = "bits a second of each link, such as 115200bit or 1Mbit; a byte has 8"
    read = quantity(RATES, "115200bit or 1Mbit")
    add("--link", type=read, required=True, metavar="RATE", help=rate)
    time = "latency of a link, such as 1ms or 200us (default 0)"
    add("--latency", type=quantity(TIMES, "1ms or 200us"), default=0.0, metavar="TIME", help=time)
    board = f"board of each node, for the estimate of its time (default {BOARD})"
    add("--board", type=known_board, default=BOARD, metavar="BOARD", help=board)
    options.plan_options(split, "target", "effort")
    best = "shortest inference, or least RAM of the largest node (default latency)"
    add = titled(split, LIMITS).add_argument
    add("--best", choices=("latency", "ram"), default="latency", help=best)
    output = "write the C files of each node into DIR/node0, DIR/node1 and so on"
    titled(split, OUTPUT).add_argument("-o", "--output", type=Path, metavar="DIR", help=output)
    options.name_option(split)
    options.json_option(split)
    return split


def run(args: argparse.Namespace) -> int:
    from vmcu_tools.commands.models import options_of
    from vmcu_tools.emit import write
    from vmcu_tools.model_file import name_of
    from vmcu_tools.report.terminal import console, write_json

    from ..nodes import Wire
    from ..report import figures_of, print_split
    from ..search import best_split
    from ..tables import node_files

    name, board = args.name or name_of(args.model), board_of(args.board)
    if board.unknown:
        hint = "name another board; `vmcu boards` lists those with an estimate"
        reason = f"no estimate of time for {args.board}: {board.unknown}"
        raise UserError(Problem(reason, hint, str(args.model)))
    wire = Wire(args.link, args.latency)
    split, one = best_split(args.model, args.nodes, wire, args.best, board, options_of(args))
    figures = figures_of(name, args.best, split, one)
    files = [node_files(split, node, name) for node in range(args.nodes)]
    write_json(figures, args.json)
    print_split(figures, console())
    for node, own in enumerate(files if args.output else []):
        for path in write(own, args.output / f"node{node}"):
            print(f"wrote {path}")
    return EXIT_DONE
