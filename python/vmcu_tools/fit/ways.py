# SPDX-License-Identifier: Apache-2.0
"""Whether a model fits, by how much not, and what would make it fit: each way is planned."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import replace
from functools import partial
from typing import Any

from ..errors import UserError
from ..graph import Graph
from ..plan.plan import Plan
from ..planner.options import CompileOptions
from .figures import Fit, Footprint, Limits, Remedy
from .resized import CHANNELS, IMAGE, MOST_TIMES, Scale, largest, measured, scale_of

STREAM, ELSEWHERE, MACS = "stream", "elsewhere", "macs"
# How a model is planned: with the input streamed, with it elsewhere, within so many bytes.
Planned = Callable[[bool, bool, "int | None"], Footprint]
# By what kind a network is scaled, and where to say why it cannot be.
Scaled = Callable[[str, list[str]], "Scale | None"]
WAYS = (
    (STREAM, "a streamed input", "--stream-input", True, False),
    (ELSEWHERE, "an external input", "--external-input", False, True),
)


def fit(
    name: str,
    base: Plan,
    limits: Limits,
    planned: Planned,
    whole: Callable[[], Graph],
    grow: bool = False,
) -> Fit:
    """What there is to say. name: of the model in C; planned: what the same model needs planned
    otherwise; whole: its graph with all of the file's channels."""
    found = measured(base, name)
    ram, flash = limits.lacking(found.pool_bytes, found.flash_bytes)
    outcome = Fit(name, limits, found, not (ram or flash), ram, flash)
    refused: list[str] = []
    ways: list[Remedy] = []
    scale = partial(_scale, name, base, whole)
    if ram and not base.graph.hop:
        ways += _otherwise(base, found, limits, planned, refused)
    if not outcome.fits:
        ways += _smaller(scale, found, limits, refused)
    grown = _larger(scale, found, limits, refused) if grow and outcome.fits else ()
    ranked = sorted(ways, key=_rank)
    return replace(
        outcome, ways=tuple(ranked), refused=tuple(dict.fromkeys(refused)), grown=tuple(grown)
    )


def _rank(way: Remedy) -> tuple[Any, ...]:
    """Those that fit, by what they cost: nothing, recomputation, another network; then the
    others, by what is missing."""
    smaller = way.kind in (IMAGE, CHANNELS)
    extra = way.measured.macs_extra / max(way.measured.macs, 1)
    order = (STREAM, ELSEWHERE, MACS, IMAGE, CHANNELS)
    place = order.index(way.kind.partition("+")[0])
    return (not way.fits, smaller, way.ram_lacking + way.flash_lacking, extra, place)


def _otherwise(
    base: Plan, now: Footprint, limits: Limits, planned: Planned, refused: list[str]
) -> Iterator[Remedy]:
    """The same network with an external or streamed input, and with recomputation."""
    elsewhere = bool(base.graph.elsewhere)
    if not (base.input_streamed or elsewhere):
        for kind, what, options, streams, lies in WAYS:
            way = _planned(kind, what, options, limits, planned, (streams, lies, None), refused)
            if way is None:
                continue
            if way.ram_lacking:
                better = _spent(kind, what, options, limits, planned, (streams, lies), refused)
                way = way if better is None else better
            if way.measured.pool_bytes < now.pool_bytes:
                yield way
    given = (base.input_streamed, elsewhere)
    spent = _spent("", "", "", limits, planned, given, refused)
    if spent is not None:
        yield spent


def _spent(
    kind: str,
    what: str,
    options: str,
    limits: Limits,
    planned: Planned,
    where: tuple[bool, bool],
    refused: list[str],
) -> Remedy | None:
    """With as little recomputation as necessary."""
    assert limits.ram is not None
    words = f"{options} --ram {limits.ram}".strip()
    named = f"{kind}+{MACS}" if kind else MACS
    said = f"{what} and recomputation" if what else "recomputation"
    return _planned(named, said, words, limits, planned, (*where, limits.ram), refused)


def _planned(
    kind: str,
    what: str,
    options: str,
    limits: Limits,
    planned: Planned,
    how: tuple[bool, bool, int | None],
    refused: list[str],
) -> Remedy | None:
    try:
        found = planned(*how)
    except UserError as error:
        refused.append(f"{what}: {error.problems[0].reason}")
        return None
    ram, flash = limits.lacking(found.pool_bytes, found.flash_bytes)
    return Remedy(kind, what, options, found, not (ram or flash), ram, flash)


def _smaller(
    scaled: Scaled, now: Footprint, limits: Limits, refused: list[str]
) -> Iterator[Remedy]:
    for kind in (IMAGE, CHANNELS):
        # Weights take what they take whatever the image.
        if kind == IMAGE and limits.lacking(0, now.flash_bytes)[1]:
            continue
        scale = scaled(kind, refused)
        if scale is not None:
            yield from _found(scale, limits, 1, scale.whole, now, refused)


def _larger(scaled: Scaled, now: Footprint, limits: Limits, refused: list[str]) -> Iterator[Remedy]:
    for kind in (IMAGE, CHANNELS):
        scale = scaled(kind, refused)
        if scale is None:
            continue
        high = scale.whole + 1
        ways: list[Remedy] = []
        # Ever larger steps: what is far too large takes long to plan.
        while high <= MOST_TIMES * scale.whole:
            low, high = high, min(high + max(high // 2, 1), MOST_TIMES * scale.whole + 1)
            here = list(_found(scale, limits, low, high, now, refused))
            ways += here
            if not here or round(here[0].factor * scale.whole) < high - 1:
                break
        yield from ways[-1:]


def _scale(
    name: str, base: Plan, whole: Callable[[], Graph], kind: str, refused: list[str]
) -> Scale | None:
    try:
        graph = base.model if kind == IMAGE else whole()
        elsewhere = bool(base.graph.elsewhere)
        options = CompileOptions(
            stream_input=base.input_streamed, external_input=elsewhere, hop=base.graph.hop
        )
        return scale_of(name, kind, graph, options)
    except UserError as error:
        refused.append(f"another {kind}: {error.problems[0].reason}")
        return None


def _found(
    scale: Scale, limits: Limits, low: int, high: int, now: Footprint, refused: list[str]
) -> Iterator[Remedy]:
    tables = min(now.flash_bytes, 4096)
    way, refusal = largest(scale, limits, low, high, tables)
    if way is not None:
        yield way
    elif refusal is not None:
        problem = refusal.problems[0]
        where = f"node '{problem.node}', {problem.op}: " if problem.node else ""
        refused.append(f"another {scale.kind}: {where}{problem.reason}")
    else:
        refused.append(
            f"another {scale.kind}: none from {low} to {high - 1} parts of {scale.whole}"
        )
