# SPDX-License-Identifier: Apache-2.0
"""The changes from one model to another, and their reasons."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass

from rich.console import Console

from .page.names import short_names
from .sheet import Sheet, SheetLayer
from .terminal import say
from .text import table

FIGURES = {
    "pool_bytes": "RAM, bytes",
    "flash_bytes": "flash, bytes",
    "file_bytes": "weights file, bytes",
    "macs": "MACs",
    "cycles": "cycles, modelled",
}
LAYER_FIGURES = ("pool_bytes", "weights_bytes", "macs", "cycles")
NEW, GONE, CHANGED = "new", "gone", "changed"


@dataclass(frozen=True)
class Change:
    """A figure that both have; of sheets, one of FIGURES, and whole."""

    figure: str
    before: float
    after: float

    @property
    def by(self) -> float:
        return self.after - self.before

    @property
    def part(self) -> float:
        """Returns the change as a part of the figure before."""
        return self.by / self.before if self.before else float(self.by > 0)


@dataclass(frozen=True)
class LayerChange:
    """state: NEW, GONE or CHANGED. The others: by how much, None where one of the two does not
    say."""

    state: str
    name: str
    op: str
    pool_bytes: int | None
    weights_bytes: int | None
    macs: int | None
    cycles: int | None


@dataclass(frozen=True)
class SheetDifference:
    """changes: of all figures that both have; layers: those that differ; why: sentences."""

    before: str
    after: str
    changes: tuple[Change, ...]
    layers: tuple[LayerChange, ...]
    why: tuple[str, ...]


def difference(before: Sheet, after: Sheet) -> SheetDifference:
    """Lists the changes."""
    changes = []
    for figure in FIGURES:
        one, other = getattr(before, figure), getattr(after, figure)
        if one is not None and other is not None:
            changes.append(Change(figure, one, other))
    both = bool(before.layers and after.layers)
    layers = tuple(_layers(before.layers, after.layers)) if both else ()
    why = tuple(_why(before, after, layers)) if both else ()
    return SheetDifference(before.model, after.model, tuple(changes), layers, why)


def _layers(before: Sequence[SheetLayer], after: Sequence[SheetLayer]) -> Iterator[LayerChange]:
    """Layers of one name are one layer, in the order of the later model; those that are gone
    last."""
    old = {layer.name: layer for layer in before}
    for layer in after:
        known = old.pop(layer.name, None)
        if known is None:
            yield _of_one(NEW, layer, 1)
            continue
        deltas = [_by(getattr(known, one), getattr(layer, one)) for one in LAYER_FIGURES]
        if any(deltas) or known.op != layer.op:
            op = layer.op if known.op == layer.op else f"{known.op} to {layer.op}"
            yield LayerChange(CHANGED, layer.name, op, *deltas)
    for layer in old.values():
        yield _of_one(GONE, layer, -1)


def _of_one(state: str, layer: SheetLayer, sign: int) -> LayerChange:
    values = [getattr(layer, one) for one in LAYER_FIGURES]
    deltas = [None if value is None else sign * value for value in values]
    return LayerChange(state, layer.name, layer.op, *deltas)


def _by(before: int | None, after: int | None) -> int | None:
    return None if before is None or after is None else after - before


def _why(before: Sheet, after: Sheet, layers: Sequence[LayerChange]) -> Iterator[str]:
    names = _names((*before.layers, *after.layers))
    peaks = [max(one.layers, key=lambda layer: layer.pool_bytes) for one in (before, after)]
    by = after.pool_bytes - before.pool_bytes
    if by:
        was, now = peaks
        where = (
            f"the peak is still layer '{names[now.name]}', {was.pool_bytes:,} bytes before and "
            f"{now.pool_bytes:,} after"
            if was.name == now.name
            else f"the peak moved from layer '{names[was.name]}' ({was.pool_bytes:,} bytes) to "
            f"'{names[now.name]}' ({now.pool_bytes:,})"
        )
        yield f"RAM: {by:+,} bytes; {where}"
    for figure, what in (("weights_bytes", "weights"), ("macs", "MACs"), ("cycles", "cycles")):
        known = [layer for layer in layers if getattr(layer, figure)]
        if known:
            most = max(known, key=lambda layer: abs(getattr(layer, figure)))
            total = sum(getattr(layer, figure) for layer in known)
            share = getattr(most, figure)
            yield f"{what}: {total:+,}; most in '{names[most.name]}' ({most.state}): {share:+,}"


def print_difference(compared: SheetDifference, console: Console) -> None:
    """Totals, layers that differ, and why."""
    grid = table("", "before", "after", "change", "percent", left=1)
    for one in compared.changes:
        part = f"{100 * one.part:+.1f} %" if one.by else ""
        grid.add_row(
            FIGURES[one.figure], f"{one.before:,}", f"{one.after:,}", _signed(one.by), part
        )
    console.print(grid)
    if compared.layers:
        names = short_names(layer.name for layer in compared.layers)
        columns = "state", "RAM", "weights", "MACs", "cycles"
        grid = table("layer", "op", *columns, left=3, keys=1)
        for layer in compared.layers:
            figures = (_signed(getattr(layer, one)) for one in LAYER_FIGURES)
            grid.add_row(names[layer.name], layer.op, layer.state, *figures)
        console.print(grid)
    for sentence in compared.why:
        say(console, sentence)
    if not compared.layers and not any(one.by for one in compared.changes):
        say(console, "No figure differs.")


def _names(layers: Sequence[SheetLayer | LayerChange]) -> Mapping[str, str]:
    return short_names(layer.name for layer in layers)


def _signed(by: float | None) -> str:
    return "" if not by else f"{by:+,}"


def markdown(compared: SheetDifference, title: str) -> str:
    """Writes the changes as a comment on a change of a model."""
    lines = [f"### {title}", "", "| | before | after | by |", "| --- | ---: | ---: | ---: |"]
    for one in compared.changes:
        by = f"{one.by:+,} ({100 * one.part:+.1f} %)" if one.by else "="
        lines.append(f"| {FIGURES[one.figure]} | {one.before:,} | {one.after:,} | {by} |")
    lines += [""] * bool(compared.why) + [f"- {escaped(sentence)}" for sentence in compared.why]
    return "\n".join(lines) + "\n"


def escaped(text: str) -> str:
    """Names of layers, which may hold anything, as text in Markdown."""
    for letter in "\\`*_{}[]<>#|&":
        text = text.replace(letter, f"\\{letter}")
    return text
