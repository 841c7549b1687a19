# SPDX-License-Identifier: Apache-2.0
"""Boards, for a terminal."""

from __future__ import annotations

from collections.abc import Sequence

from rich.console import Console

from ..boards.table import Board
from .terminal import say
from .text import table


def print_boards(boards: Sequence[Board], console: Console) -> None:
    """A line a board."""
    grid = table("board", "core", "RAM", "flash", "MHz", "estimate", keys=1, whole=1)
    for board in boards:
        sizes = (f"{size:,}K" if size else "" for size in (board.ram, board.flash))
        clock = "" if board.megahertz is None else str(board.megahertz)
        estimate = "no" if board.unknown else "yes"
        grid.add_row(board.name, board.core, *sizes, clock, estimate)
    console.print(grid)
    say(
        console,
        f"{len(boards)} boards. RAM in one piece. `vmcu build --board` estimates milliseconds "
        "where the last column has yes.",
    )
