# SPDX-License-Identifier: Apache-2.0
"""A bar on stderr for loops that may take more than a moment; silent without a terminal."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import TypeVar

from rich.console import Console
from rich.progress import track

Item = TypeVar("Item")


def bar(items: Sequence[Item], what: str) -> Iterator[Item]:
    """Yields the items while showing how many are done."""
    console = Console(stderr=True)
    yield from track(items, what, console=console, transient=True, disable=not console.is_terminal)
