# SPDX-License-Identifier: Apache-2.0
"""The step at which a plan needs the most bytes, and why."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np

from ...plan.plan import Plan
from .lives import BEFORE, NOBODY, Lives

SCRATCH, COUNTERS = "scratch", "counters"


@dataclass(frozen=True)
class PeakPart:
    """A part of the peak: `tensor` is empty for scratch and counters of a stage."""

    tensor: str
    name: str
    bytes: int
    why: str


@dataclass(frozen=True)
class Peak:
    """The call that needs the most bytes, its layer (-1: the caller writes the input) and the
    tensors that need them, the most first."""

    call: int
    calls: int
    step: int
    bytes: int
    pool_bytes: int
    parts: tuple[PeakPart, ...]
    sentence: str


def peak_of(lives: Lives, names: Mapping[str, str]) -> Peak:
    """The peak in words."""
    call = lives.peak
    parts = sorted(_parts(lives, call, names), key=lambda part: (-part.bytes, part.tensor))
    step = int(lives.makers[call]) if lives.calls else -1
    total = sum(part.bytes for part in parts)
    said = _sentence(lives, call, step, total, parts, names)
    return Peak(call, lives.calls, step, total, lives.plan.pool_bytes, tuple(parts), said)


def _parts(lives: Lives, call: int, names: Mapping[str, str]) -> list[PeakPart]:
    """Bytes by tensor; those that change hands in the call are the later one's."""
    if not lives.calls:
        return []
    owner = np.full(lives.plan.pool_bytes + max(life.pixel for life in lives.lives), NOBODY)
    order = sorted(range(len(lives.lives)), key=lambda n: lives.lives[n].first)
    late: list[tuple[int, np.ndarray]] = []
    for number in order:
        life = lives.lives[number]
        alive = life.alive(call)
        late.append((number, life.at[alive & (life.births == call)]))
        _paint(owner, life.at[alive & (life.births < call)], life.pixel, number)
    for number, at in late:
        _paint(owner, at, lives.lives[number].pixel, number)
    counts = np.bincount(owner[owner >= 0], minlength=len(lives.lives))
    parts = []
    for number, life in enumerate(lives.lives):
        if counts[number]:
            why = _why(lives, call, number)
            parts.append(PeakPart(life.tensor, names[life.tensor], int(counts[number]), why))
    for box in lives.boxes:
        if box.start <= call < box.stop and box.step in (None, int(lives.makers[call])):
            why = "progress of the stage" if box.step is None else "work memory of the kernel"
            parts.append(PeakPart("", COUNTERS if box.step is None else SCRATCH, box.bytes, why))
    return parts


def _paint(owner: np.ndarray, at: np.ndarray, pixel: int, number: int) -> None:
    for byte in range(pixel):
        owner[at + byte] = number


def _why(lives: Lives, call: int, number: int) -> str:
    """Why a tensor's bytes are needed in a call."""
    plan, life = lives.plan, lives.lives[number]
    tensor, placement = plan.graph.tensors[life.tensor], plan.placements[life.tensor]
    span = lives.spans[lives.span_of(call)]
    share = np.count_nonzero(life.alive(call)) / max(len(life.at), 1)
    reader = _last_reader(plan, life.tensor)
    if life.tensor in plan.kept:
        return "state for the next call"
    if placement.ring < tensor.bytes:
        rows = placement.ring / tensor.row_bytes
        read = "" if reader is None else f", read by layer {reader}"
        also = sum(
            (other.base, other.ring) == (placement.base, placement.ring)
            for other in plan.placements.values()
        )
        shared = f", shared by {also} tensors" if also > 1 else ""
        of = "" if plan.graph.state.step_rows else f" of {tensor.shape[0]}"
        return f"line buffer of {rows:.3g}{of} rows{read}{shared}"
    if life.first == BEFORE:
        return f"the input, {_percent(share)} not read yet"
    if any(port.tensor == life.tensor for port in plan.graph.outputs) and reader is None:
        return "an output of the model"
    if life.first >= span.start and life.last >= span.stop:
        return f"output so far, read by {_reader(reader)}"
    if reader is not None and reader > span.last:
        return f"read again by {_reader(reader)}"
    if life.first >= span.start:
        return f"{_percent(share)}, written and read in this stage"
    return f"{_percent(share)} not read yet"


def _last_reader(plan: Plan, tensor: str) -> int | None:
    readers = [n for n, step in enumerate(plan.steps) if tensor in step.node.inputs]
    return readers[-1] if readers else None


def _reader(step: int | None) -> str:
    return "no layer" if step is None else f"layer {step}"


def _quoted(part: PeakPart) -> str:
    return f"'{part.name}'" if part.tensor else part.name


def _percent(share: float) -> str:
    return "all" if share > 0.995 else f"{max(100 * share, 1):.0f}\u00a0%"


def _sentence(
    lives: Lives,
    call: int,
    step: int,
    total: int,
    parts: list[PeakPart],
    names: Mapping[str, str],
) -> str:
    if not lives.calls:
        return "The model has no layers; the pool has its input and its output."
    plan, span = lives.plan, lives.spans[lives.span_of(call)]
    where = "The peak is the caller's next input row"
    if step >= 0:
        where = f"The peak is layer {step} ({names[plan.steps[step].node.name]})"
    if span.last > span.first:
        where += f", in a fused stage of layers {span.first} to {span.last}"
    main = [part for part in parts if part.bytes >= total / 10][:3] or parts[:1]
    listed = "; ".join(f"{part.bytes:,} for {_quoted(part)} ({part.why})" for part in main)
    rest = total - sum(part.bytes for part in main)
    more = f"; {rest:,} for the rest" if rest else ""
    left = plan.pool_bytes - total
    gaps = f" At this time {left:,} bytes are free." if left else ""
    return f"{where}. It needs {total:,} of {plan.pool_bytes:,} bytes: {listed}{more}.{gaps}"
