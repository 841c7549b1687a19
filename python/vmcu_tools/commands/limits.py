# SPDX-License-Identifier: Apache-2.0
"""Boards that commands are told of, and the limits that a model has on one."""

from __future__ import annotations

import argparse
from typing import TYPE_CHECKING

from ..errors import Problem, UserError, suggestion
from .parser import LIMITS, titled

if TYPE_CHECKING:
    from ..boards.table import Board

# What Zephyr and a small application need of a board.
APP_RAM, APP_FLASH = 16 << 10, 48 << 10


def known_board(text: str) -> str:
    """The full name of a board of the table, from a name with or without qualifiers."""
    from ..boards.table import candidates, known

    boards = candidates(text)
    if len(boards) > 1:
        raise argparse.ArgumentTypeError(
            f"board '{text}' has several variants. hint: name one of {', '.join(boards)}"
        )
    if not boards:
        names = {name for full in known() for name in (full, full.partition("/")[0])}
        hint = suggestion(text, names, "vmcu boards")
        raise argparse.ArgumentTypeError(f"unknown board '{text}'{hint}")
    return boards[0]


def board_of(name: str) -> Board:
    """The board of that full name."""
    from ..boards.table import known

    return known()[name]


def board_options(parser: argparse.ArgumentParser, limits: str) -> None:
    """A board as a limit; limits: the options that override it."""
    titled(parser, LIMITS).add_argument(
        "--board",
        type=known_board,
        metavar="BOARD",
        help="limit RAM and flash to those of a board, less 16 KB of RAM and 48 KB of flash for "
        f"the application; `vmcu boards` lists them; {limits} override it",
    )


def left_on_board(args: argparse.Namespace) -> tuple[int, int]:
    """Bytes of RAM and flash that --board leaves to the model. Raises UserError if none."""
    board = board_of(args.board)
    left = board.ram * 1024 - APP_RAM, board.flash * 1024 - APP_FLASH
    if min(left) <= 0:
        reason = f"the application's 16 KB of RAM and 48 KB of flash leave nothing of {args.board}"
        raise UserError(Problem(reason, "give the limits without --board", str(args.model)))
    return left
