# SPDX-License-Identifier: Apache-2.0
"""Bars on stderr for work that may take more than a moment; silent without a terminal that can
show them."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager
from typing import TypeVar

from rich.console import Console, RenderableType
from rich.progress import BarColumn, Progress, TextColumn, TimeElapsedColumn, track

Item = TypeVar("Item")
Watch = Callable[[int, int], None]


def _silent(console: Console) -> bool:
    """Whether nobody would see a bar grow."""
    return not console.is_terminal or console.is_dumb_terminal


def bar(items: Sequence[Item], what: str) -> Iterator[Item]:
    """Yields the items while showing how many are done."""
    console = Console(stderr=True)
    yield from track(items, what, console=console, transient=True, disable=_silent(console))


class Clock(Progress):
    """A bar that grows with time."""

    def get_renderables(self) -> Iterable[RenderableType]:
        for task in self.tasks:
            task.completed = min(task.elapsed or 0.0, task.total or 0.0)
        yield from super().get_renderables()


@contextmanager
def clock(what: str, seconds: float) -> Iterator[Watch]:
    """Shows a search that may take so many seconds. The search calls the yielded function with
    the bound proven and the best height found, in bytes."""
    console = Console(stderr=True)
    progress = Clock(
        TextColumn("{task.description}"),
        BarColumn(),
        TimeElapsedColumn(),
        console=console,
        transient=True,
        disable=_silent(console),
    )
    task = progress.add_task(what, total=seconds or 1)

    def watch(bound: int, height: int) -> None:
        gap = f", gap {height / bound - 1:.1%}" if bound else ""
        progress.update(task, description=f"{what}: bound {bound:,}, best {height:,}{gap}")

    with progress:
        yield watch
