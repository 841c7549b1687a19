# SPDX-License-Identifier: Apache-2.0
"""`vmcu boards`: RAM, flash, core and clock of boards."""

from __future__ import annotations

import argparse
import fnmatch
import os
from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING

from ..errors import Problem, UserError, alike
from ..exits import EXIT_DONE
from .options import Subparsers, json_option

if TYPE_CHECKING:
    from ..boards.table import Board

TREE = "ZEPHYR_BASE"


EXAMPLES = (
    ("nrf52840dk", "RAM, flash, core and clock of a board"),
    ("'nucleo_f4*'", "boards by name"),
)


def add(commands: Subparsers) -> argparse.ArgumentParser:
    boards = commands.add_parser(
        "boards",
        help="list RAM, flash, core and clock of boards",
        description="Lists the boards that `build`, `bench`, `fit` and `check` know: those of "
        "Zephyr 3.7.1 and some later ones. With --zephyr, lists the boards of a Zephyr tree. The "
        "last column shows whether `vmcu build --board` can estimate milliseconds.",
    )
    boards.add_argument(
        "pattern", nargs="?", default="*", help="a board or SoC, such as 'nucleo_f4*'"
    )
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
    from ..boards.table import known, of_tree
    from ..report.boards import print_boards
    from ..report.terminal import console, write_json

    listed = list(known().values()) if args.zephyr is None else of_tree(args.zephyr)
    shown = [board for board in listed if _matches(board, args.pattern)]
    if not shown:
        near = alike(args.pattern, {name for board in listed for name in _names(board)})
        hint = f"did you mean {near}?" if near else "write a part of a name as '*part*'"
        raise UserError(Problem(f"no board or SoC is called '{args.pattern}'", hint))
    print_boards(shown, console())
    figures = [asdict(board) | {"estimate": not board.unknown} for board in shown]
    write_json(figures, args.json)
    return EXIT_DONE


def _names(board: Board) -> tuple[str, ...]:
    """The name, with and without qualifiers, and the SoC."""
    return board.name, board.name.partition("/")[0], board.soc


def _matches(board: Board, pattern: str) -> bool:
    return any(fnmatch.fnmatch(name, pattern) for name in _names(board))
