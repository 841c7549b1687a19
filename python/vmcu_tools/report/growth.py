# SPDX-License-Identifier: Apache-2.0
"""Growth from one bundle of figures to another, and its limits."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path

from rich.console import Console

from ..errors import Problem, UserError
from .difference import Change
from .runs import Recorded, Value, read
from .terminal import say
from .text import table


@dataclass(frozen=True)
class Grown:
    """A figure that differs, smaller ones too. most: the part by which it may grow, None for
    any."""

    run: str
    kind: str
    change: Change
    most: float | None

    @property
    def held(self) -> bool:
        return self.most is None or self.change.part <= self.most

    @property
    def name(self) -> str:
        return f"{self.run}: {self.change.figure}"

    @property
    def said(self) -> str:
        one = self.change
        may = "" if self.most is None else f", {100 * self.most:g} % allowed"
        by = f"{100 * one.part:+.2f} %{may}"
        return f"{self.name}: {one.before:,} to {one.after:,}, {by}"


@dataclass(frozen=True)
class Growth:
    """figures: how many are in both, changes: those that differ; notes: the other differences,
    in sentences."""

    figures: int
    changes: tuple[Grown, ...]
    notes: tuple[str, ...]

    @property
    def beyond(self) -> tuple[Grown, ...]:
        """Lists the figures that grew by more than they may."""
        return tuple(one for one in self.changes if not one.held)


def compared(before: Path, after: Path, most: Mapping[str, float | None]) -> Growth:
    """Two files, or two folders of them. most: by kind, the part by which a figure may grow. Raises
    UserError where they have nothing in common."""
    one, other = read(before), read(after)
    pairs = {name: (one[name], other[name]) for name in one if name in other}
    if len(one) == len(other) == 1:
        # Of one model before and after, whose files are called as they like.
        [(name, run)], [(_, now)] = one.items(), other.items()
        pairs = {name: (run, now)}
    changes: list[Grown] = []
    notes: list[str] = []
    count = 0
    for name, (was, now) in pairs.items():
        both = [figure for figure in was.figures if figure in now.figures]
        count += len(both)
        changes += _changes(name, was, now, most)
        notes += _notes(name, was, now)
    if not count:
        remedy = "compare runs of the same commands"
        raise UserError(Problem(f"it has no figure that {before} has", remedy, str(after)))
    if len(one) != 1 or len(other) != 1:
        notes += [f"{name} is gone" for name in one if name not in other]
        notes += [f"{name} is new" for name in other if name not in one]
    return Growth(count, tuple(changes), tuple(notes))


def _changes(
    name: str, was: Recorded, now: Recorded, most: Mapping[str, float | None]
) -> Iterator[Grown]:
    for figure, old in was.figures.items():
        new = now.figures.get(figure)
        if new is None or old.value == new.value:
            continue
        if not isinstance(old.value, str) and not isinstance(new.value, str):
            change = Change(figure, old.value, new.value)
            yield Grown(name, new.kind, change, most.get(new.kind))


def _notes(name: str, was: Recorded, now: Recorded) -> Iterator[str]:
    """Yields the differences that are not numbers, and possible reasons."""
    for figure in {**was.figures, **now.figures}:
        old, new = was.figures.get(figure), now.figures.get(figure)
        if old is None or new is None:
            yield f"{name}: {figure} is {'new' if old is None else 'gone'}"
        elif old.value != new.value and not _numbers(old.value, new.value):
            yield f"{name}: {figure} was '{old.value}' and is '{new.value}'"
    for tool in was.versions:
        if (now_is := now.versions.get(tool, was.versions[tool])) != was.versions[tool]:
            yield f"{name}: {tool} was {was.versions[tool]} and is {now_is}"
    for model in was.models:
        if now.models.get(model, was.models[model]) != was.models[model]:
            yield f"{name}: {model} is another file"


def _numbers(*values: Value) -> bool:
    return all(isinstance(value, int | float) for value in values)


def print_growth(growth: Growth, console: Console) -> None:
    """The figures that differ, then those that grew by more than the limit."""
    if growth.changes:
        grid = table("run", "figure", "before", "after", "change", "percent", left=2)
        for one in growth.changes:
            change = one.change
            numbers = (f"{change.before:,}", f"{change.after:,}", f"{_rounded(change.by):+,}")
            part = f"{100 * change.part:+.2f} %"
            grid.add_row(one.run, change.figure, *numbers, part)
        console.print(grid)
    for note in growth.notes:
        say(console, note)
    for one in growth.beyond:
        say(console, f"FAILED: {one.said}")
    grew = sum(one.change.by > 0 for one in growth.changes)
    few = f"Compared {growth.figures:,} figures: {grew:,} grew"
    say(console, f"{few}, {len(growth.beyond):,} by more than the limit.")


def _rounded(by: float) -> float:
    """Without the digits of binary fractions behind the digits of a page."""
    return by if isinstance(by, int) else round(by, 6)
