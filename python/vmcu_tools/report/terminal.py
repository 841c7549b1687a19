# SPDX-License-Identifier: Apache-2.0
"""Where reports go."""

from __future__ import annotations

import json
from pathlib import Path

from rich.console import Console

# Of lines that go to a file or a pipe.
WIDTH = 160


def console() -> Console:
    """The terminal; files and pipes get lines that hold a table of many columns."""
    terminal = Console()
    return terminal if terminal.is_terminal else Console(width=WIDTH)


def say(console: Console, text: str, markup: bool = False) -> None:
    """A line of text, however long; what is in brackets is for rich only where `markup` says so."""
    console.print(text, soft_wrap=True, highlight=False, markup=markup)


def write_json(figures: object, path: Path | None) -> None:
    """Nothing where no file was asked for."""
    if path is not None:
        path.write_text(json.dumps(figures, indent=2) + "\n")
