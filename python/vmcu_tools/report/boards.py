# SPDX-License-Identifier: Apache-2.0
"""Boards, for a terminal."""

from __future__ import annotations

from collections.abc import Sequence

from rich.console import Console
from rich.markup import escape

from ..bench.boards import Board
from .terminal import say
from .text import table


def print_boards(boards: Sequence[Board], console: Console) -> None:
    """A line a board."""
    grid = table("board", "core", "RAM", "flash", "MHz", "wait states", left=2)
    for board in boards:
        sizes = (f"{size:,}K" if size else "" for size in (board.ram, board.flash))
        known = ("" if one is None else str(one) for one in (board.megahertz, board.waits))
        grid.add_row(escape(board.name), board.core, *sizes, *known)
    console.print(grid)
    say(console, f"{len(boards)} boards; RAM in one piece, wait states of flash at that clock")
