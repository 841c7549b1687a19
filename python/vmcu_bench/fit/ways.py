# SPDX-License-Identifier: Apache-2.0
"""Decides whether a model fits, how many bytes are missing, and with which changes it would fit:
each is planned."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from dataclasses import replace
from functools import partial
from typing import Any

from vmcu_tools.errors import UserError
from vmcu_tools.graph import Graph
from vmcu_tools.passes.int4_weights import use_int4_weights
from vmcu_tools.plan.chunks import WeightStore
from vmcu_tools.plan.plan import Plan
from vmcu_tools.planner.options import CompileOptions
from vmcu_tools.planner.registry import make_plan

from .figures import Fit, Footprint, Limits, Remedy
from .resized import CHANNELS, IMAGE, MOST_TIMES, Scale, largest, measured, scale_of

STREAM, ELSEWHERE, MACS = "stream", "elsewhere", "macs"
FILE, INT4 = "file", "int4"
# Of a SPI flash, and how it is written on the command line.
STORE = WeightStore(8e6, 1e-4)
# How a model is planned with other options than those that are given, by their names in
# CompileOptions.
Planned = Callable[[Mapping[str, Any]], Footprint]
# Scales a network by its kind, and appends the reason where that is refused.
Scaled = Callable[[str, list[str]], "Scale | None"]
WAYS = (
    (STREAM, "a streamed input", "--stream-input", {"stream_input": True}),
    (ELSEWHERE, "an external input", "--external-input", {"external_input": True}),
)


def fit(
    name: str,
    base: Plan,
    limits: Limits,
    planned: Planned,
    whole: Callable[[], Graph],
    grow: bool = False,
) -> Fit:
    """Collects the answers. name: of the model in C; planned: the footprint of the same model with
    other options; whole: its graph with all of the file's channels."""
    footprint = measured(base, name)
    ram, flash = limits.lacking(footprint.pool_bytes, footprint.flash_bytes)
    outcome = Fit(name, limits, footprint, not (ram or flash), ram, flash)
    refused: list[str] = []
    ways: list[Remedy] = []
    scale = partial(_scale, name, base, whole)
    if ram and not base.graph.state.step_rows:
        ways += _otherwise(base, footprint, limits, planned, refused)
    if flash and not base.graph.state.step_rows:
        ways += _less_flash(name, base, footprint, limits, planned, refused)
    if not outcome.fits:
        ways += _smaller(scale, footprint, limits, refused)
    grown = _larger(scale, footprint, limits, refused) if grow and outcome.fits else ()
    ranked = sorted(ways, key=_rank)
    return replace(
        outcome, ways=tuple(ranked), refused=tuple(dict.fromkeys(refused)), grown=tuple(grown)
    )


def _rank(way: Remedy) -> tuple[Any, ...]:
    """Those that fit, by their price: nothing, recomputation, another network; then the others, by
    the missing bytes."""
    smaller = way.kind in (INT4, IMAGE, CHANNELS)
    extra = way.measured.macs_extra / max(way.measured.macs, 1)
    order = (STREAM, ELSEWHERE, FILE, MACS, INT4, IMAGE, CHANNELS)
    place = order.index(way.kind.partition("+")[0])
    return (not way.fits, smaller, way.ram_lacking + way.flash_lacking, extra, place)


def _otherwise(
    base: Plan, now: Footprint, limits: Limits, planned: Planned, refused: list[str]
) -> Iterator[Remedy]:
    """The same network with an external or streamed input, and with recomputation."""
    elsewhere = bool(base.graph.elsewhere)
    if not (base.input_streamed or elsewhere):
        for kind, what, options, where in WAYS:
            way = _planned(kind, what, options, limits, planned, where, refused)
            if way is None:
                continue
            if way.ram_lacking:
                better = _spent(kind, what, options, limits, planned, where, refused)
                way = way if better is None else better
            if way.measured.pool_bytes < now.pool_bytes:
                yield way
    spent = _spent("", "", "", limits, planned, {}, refused)
    if spent is not None:
        yield spent


def _less_flash(
    name: str,
    base: Plan,
    now: Footprint,
    limits: Limits,
    planned: Planned,
    refused: list[str],
) -> Iterator[Remedy]:
    """The weights in a file outside the flash, and those of a network with int4 weights."""
    stores = [STORE, *([] if limits.ram is None else [replace(STORE, ram=limits.ram // 2)])]
    for store in stores:
        what, words = f"weights in a file, {store}", f"--external-weights {store}"
        asked = {"external_weights": store}
        way = _planned(FILE, what, words, limits, planned, asked, refused)
        if way is not None and (not way.ram_lacking or store is stores[-1]):
            yield way
            break
    streams, elsewhere = base.input_streamed, bool(base.graph.elsewhere)
    options = CompileOptions(stream_input=streams, external_input=elsewhere)
    footprint = measured(make_plan(use_int4_weights(base.model), options, prove=False), name)
    if footprint.flash_bytes < now.flash_bytes:
        yield Remedy.of(INT4, "int4 weights", "", footprint, limits)


def _spent(
    kind: str,
    what: str,
    options: str,
    limits: Limits,
    planned: Planned,
    where: Mapping[str, Any],
    refused: list[str],
) -> Remedy | None:
    """Plans with as little recomputation as necessary."""
    assert limits.ram is not None
    words = f"{options} --ram {limits.ram}".strip()
    named = f"{kind}+{MACS}" if kind else MACS
    said = f"{what} and recomputation" if what else "recomputation"
    return _planned(named, said, words, limits, planned, {**where, "ram": limits.ram}, refused)


def _planned(
    kind: str,
    what: str,
    options: str,
    limits: Limits,
    planned: Planned,
    how: Mapping[str, Any],
    refused: list[str],
) -> Remedy | None:
    try:
        footprint = planned(how)
    except UserError as error:
        refused.append(f"{what}: {error.problems[0].reason}")
        return None
    return Remedy.of(kind, what, options, footprint, limits)


def _smaller(
    scaled: Scaled, now: Footprint, limits: Limits, refused: list[str]
) -> Iterator[Remedy]:
    for kind in (IMAGE, CHANNELS):
        # Weights have the same size for every image.
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
        # Ever larger steps: plans that are far too large cost much time.
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
            stream_input=base.input_streamed,
            external_input=elsewhere,
            hop=base.graph.state.step_rows,
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
