# SPDX-License-Identifier: Apache-2.0
"""`vmcu boards`: RAM, flash, core and clock of boards."""

from __future__ import annotations

import argparse
import fnmatch
import os
from dataclasses import asdict
from pathlib import Path

from ..exits import EXIT_DONE
from .options import Subparsers, json_option

TREE = "ZEPHYR_BASE"


EXAMPLES = (
    ("", "all boards with a model of their flash"),
    ("'nucleo_f4*'", "boards by name"),
)


def add(commands: Subparsers) -> argparse.ArgumentParser:
    boards = commands.add_parser(
        "boards",
        help="list RAM, flash, core and clock of boards",
        description="Lists the boards that `vmcu bench --board` and `vmcu fit --board` know; with "
        "--zephyr, all boards with a microcontroller of a Zephyr tree.",
    )
    boards.add_argument("pattern", nargs="?", default="*", help="such as 'nucleo_f4*'")
    boards.add_argument(
        "--zephyr",
        type=Path,
        nargs="?",
        const=Path(os.environ.get(TREE, "")),
        metavar="TREE",
        help=f"read boards from a Zephyr tree (without TREE: ${TREE})",
    )
    json_option(boards, "them")
    return boards


def run(args: argparse.Namespace) -> int:
    from ..bench.boards import known, of_tree
    from ..report.boards import print_boards
    from ..report.terminal import console, write_json

    listed = known() if args.zephyr is None else of_tree(args.zephyr)
    shown = [board for board in listed if fnmatch.fnmatch(board.name, args.pattern)]
    print_boards(shown, console())
    write_json([asdict(board) for board in shown], args.json)
    return EXIT_DONE
