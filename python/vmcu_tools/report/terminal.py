# SPDX-License-Identifier: Apache-2.0
"""The consoles on which reports are printed."""

from __future__ import annotations

import json
import sys
import textwrap
from pathlib import Path
from typing import Any

from rich.console import Console

# In place of a file.
STANDARD_OUTPUT = Path("-")
# Columns of a file or a pipe, whatever COLUMNS says.
PIPE_COLUMNS = 100


class Terminal(Console):
    """A console that prints text as it is: no emoji codes, no coloured numbers, no cropped line."""

    def __init__(self, **named: Any) -> None:
        super().__init__(emoji=False, highlight=False, **named)

    def on_broken_pipe(self) -> None:
        """entry.py handles a reader that closes the pipe; rich would exit with 1."""
        raise BrokenPipeError

    def print(self, *objects: Any, **options: Any) -> None:
        super().print(*objects, **{"crop": False, "overflow": "ignore", **options})


def console() -> Terminal:
    """Standard output."""
    return Terminal(width=None if sys.stdout.isatty() else PIPE_COLUMNS)


def say(console: Console, text: str, markup: bool = False) -> None:
    """Prints a text. A terminal wraps it between words; `markup`: brackets are for rich."""
    for line in text.split("\n"):
        wrapped = textwrap.fill(line, console.width, break_long_words=False, break_on_hyphens=False)
        console.print(wrapped, overflow="ignore", crop=False, highlight=False, markup=markup)


def write_json(figures: object, path: Path | None) -> None:
    """Writes nothing if no file is named."""
    if path is not None:
        write_text(json.dumps(figures, indent=2) + "\n", path)


def write_text(text: str, path: Path) -> None:
    """Writes a file; "-" is standard output."""
    if path == STANDARD_OUTPUT:
        assert sys.__stdout__ is not None
        sys.__stdout__.write(text)
        sys.__stdout__.flush()
    else:
        path.write_text(text, encoding="utf-8")
