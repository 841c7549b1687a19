# SPDX-License-Identifier: Apache-2.0
"""Boards that commands are told of, and the limits that a model has on one."""

from __future__ import annotations

import argparse
from typing import TYPE_CHECKING

from ..errors import Problem, UserError, suggestion
from ..values import byte_count
from .parser import LIMITS, titled

if TYPE_CHECKING:
    from ..boards.table import Board

# What Zephyr and a small application need of a board, by default.
APP_RAM, APP_FLASH = "16K", "48K"


def known_board(text: str) -> str:
    """The full name of a board of the table, from a name with or without qualifiers."""
    from ..boards.table import candidates, known

    found = candidates(text)
    if len(found) > 1:
        raise argparse.ArgumentTypeError(
            f"board '{text}' has several variants. hint: name one of {', '.join(found)}"
        )
    if not found:
        names = {name for full in known() for name in (full, full.partition("/")[0])}
        hint = suggestion(text, names, "vmcu boards")
        raise argparse.ArgumentTypeError(f"unknown board '{text}'{hint}")
    return found[0]


def board_of(name: str) -> Board:
    """The board of that full name."""
    from ..boards.table import known

    return known()[name]


def board_options(parser: argparse.ArgumentParser, limits: str) -> None:
    """A board as a limit; limits: the options that override it."""
    group = titled(parser, LIMITS)
    group.add_argument(
        "--board",
        type=known_board,
        metavar="BOARD",
        help="limit RAM and flash to those of a board, less what the application needs; `vmcu "
        f"boards` lists them; {limits} override it",
    )
    for option, default, what in (("ram", APP_RAM, "RAM"), ("flash", APP_FLASH, "flash")):
        group.add_argument(
            f"--app-{option}",
            type=byte_count,
            default=byte_count(default),
            metavar="SIZE",
            help=f"with --board: {what} of everything but the model (default {default})",
        )


def left_on_board(args: argparse.Namespace) -> tuple[int, int]:
    """Bytes of RAM and flash that --board leaves to the model. Raises UserError if none."""
    board = board_of(args.board)
    left = board.ram * 1024 - args.app_ram, board.flash * 1024 - args.app_flash
    if min(left) <= 0:
        reason = f"--app-ram and --app-flash leave nothing of {args.board}"
        raise UserError(Problem(reason, "name less", str(args.model)))
    return left
