# SPDX-License-Identifier: Apache-2.0
"""Where reports go."""

from __future__ import annotations

import json
import sys
from pathlib import Path

from rich.console import Console

# In place of a file.
STANDARD_OUTPUT = Path("-")
# Of lines that go to a file or a pipe.
WIDTH = 160


class Terminal(Console):
    """Where reports are printed."""

    def on_broken_pipe(self) -> None:
        """A reader that goes away is entry's to handle; rich would exit with 1."""
        raise BrokenPipeError


def console() -> Console:
    """The terminal; files and pipes get lines that hold a table of many columns."""
    terminal = Terminal()
    return terminal if terminal.is_terminal else Terminal(width=WIDTH)


def say(console: Console, text: str, markup: bool = False) -> None:
    """A line of text, however long; what is in brackets is for rich only where `markup` says so."""
    console.print(text, soft_wrap=True, highlight=False, markup=markup)


def write_json(figures: object, path: Path | None) -> None:
    """Nothing where no file was asked for; "-" is standard output, where all else keeps away."""
    if path is None:
        return
    text = json.dumps(figures, indent=2) + "\n"
    if path == STANDARD_OUTPUT:
        assert sys.__stdout__ is not None
        sys.__stdout__.write(text)
        sys.__stdout__.flush()
    else:
        path.write_text(text)
