# SPDX-License-Identifier: Apache-2.0
"""The facts about each tensor of a pool: bytes, lifetime, overwritten tensors."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass

from .lives import BEFORE, Life, Lives

# Of those whose bytes a tensor takes, so many are named.
MOST_NAMED = 4


@dataclass(frozen=True)
class Card:
    """A tensor: its short and full name, the step that writes it (-1: the caller), and lines of
    (what, how)."""

    short: str
    name: str
    step: int
    lines: tuple[tuple[str, str], ...]

    @property
    def said(self) -> str:
        """All of it, for who does not see the picture."""
        return f"{self.name}. " + ". ".join(f"{what}: {how}" for what, how in self.lines)


def cards(lives: Lives, names: Mapping[str, str]) -> list[Card]:
    """Lists the cards by life."""
    plan = lives.plan
    writers = {step.node.outputs[0]: number for number, step in enumerate(plan.steps)}
    return [
        Card(
            names[life.tensor],
            life.tensor,
            writers.get(life.tensor, -1),
            tuple(_lines(lives, number, life, names, writers.get(life.tensor, -1))),
        )
        for number, life in enumerate(lives.lives)
    ]


def _lines(
    lives: Lives, number: int, life: Life, names: Mapping[str, str], writer: int
) -> Iterator[tuple[str, str]]:
    plan = lives.plan
    tensor, placement = plan.graph.tensors[life.tensor], plan.placements[life.tensor]
    height, width, channels = tensor.shape
    if placement.ring < tensor.bytes:
        rows = placement.ring / tensor.row_bytes
        grain = "rows" if placement.ring % tensor.row_bytes == 0 else "rows, in tiles"
        whole = "" if plan.graph.state.step_rows else f" ({tensor.bytes:,} for all rows)"
        yield "bytes", f"{placement.ring:,}, ring buffer of {rows:.3g} {grain}{whole}"
    else:
        yield "bytes", f"{tensor.bytes:,}, all of it"
    yield "shape", f"{height} x {width} x {channels}"
    circle = plan.pool_of(placement.base)
    start = circle.around(placement.base)
    stop = circle.around(placement.base + placement.ring - 1)
    yield (
        "addresses",
        f"{start:,} to {stop:,}" + (", around the pool's end" if stop < start else ""),
    )
    readers = [n for n, step in enumerate(plan.steps) if life.tensor in step.node.inputs]
    yield "written", "by the caller" if writer < 0 else _layer(lives, writer, names)
    if readers:
        yield "read", ", ".join(_layer(lives, reader, names) for reader in readers[-MOST_NAMED:])
    if any(port.tensor == life.tensor for port in plan.graph.outputs):
        yield "read", "by the caller"
    if not plan.graph.state.step_rows:
        begins = "before the first call" if life.first == BEFORE else f"from call {life.first:,}"
        ends = "to the end" if life.last >= lives.calls else f"to call {life.last:,}"
        yield "alive", f"{begins} {ends} of {lives.calls:,}"
    yield from _neighbours(lives, number, names)


def _layer(lives: Lives, step: int, names: Mapping[str, str]) -> str:
    return f"by layer {step}, {names[lives.plan.steps[step].node.name]}"


def _neighbours(lives: Lives, number: int, names: Mapping[str, str]) -> Iterator[tuple[str, str]]:
    heirs = lives.ledger.heirs
    before = {one: size for (one, heir), size in heirs.items() if heir == number}
    after = {heir: size for (one, heir), size in heirs.items() if one == number}
    turns = before.keys() & after.keys()
    for what, sizes in (
        ("shares bytes with", {one: before[one] for one in turns}),
        ("overwrites", {one: size for one, size in before.items() if one not in turns}),
        ("overwritten by", {one: size for one, size in after.items() if one not in turns}),
    ):
        if sizes:
            ranked = sorted(sizes.items(), key=lambda item: (-item[1], item[0]))
            yield what, _named(lives, ranked, names)


def _named(lives: Lives, ranked: Sequence[tuple[int, int]], names: Mapping[str, str]) -> str:
    said = ", ".join(
        f"{names[lives.lives[one].tensor]} ({size:,})" for one, size in ranked[:MOST_NAMED]
    )
    rest = len(ranked) - MOST_NAMED
    return said + (f" and {rest} more" if rest > 0 else "")
