# SPDX-License-Identifier: Apache-2.0
"""Decides whether a model fits, how many bytes are missing, and with which changes it would fit:
each is planned."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field, replace
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
# Kind, name, option of `vmcu build`, and fields of CompileOptions.
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
    search = _Search(name, base, limits, planned, whole, measured(base, name))
    now = search.now
    ram, flash = limits.lacking(now.pool_bytes, now.flash_bytes)
    outcome = Fit(name, limits, now, not (ram or flash), ram, flash)
    ways: list[Remedy] = []
    if ram and not base.graph.state.step_rows:
        ways += search.less_ram()
    if flash and not base.graph.state.step_rows:
        ways += search.less_flash()
    if not outcome.fits:
        ways += search.smaller()
    grown = tuple(search.larger()) if grow and outcome.fits else ()
    refused = tuple(dict.fromkeys(search.refused))
    return replace(outcome, ways=tuple(sorted(ways, key=_rank)), refused=refused, grown=grown)


def _rank(way: Remedy) -> tuple[Any, ...]:
    """Those that fit, by their price: nothing, recomputation, another network; then the others, by
    the missing bytes."""
    smaller = way.kind in (INT4, IMAGE, CHANNELS)
    extra = way.measured.macs_extra / max(way.measured.macs, 1)
    order = (STREAM, ELSEWHERE, FILE, MACS, INT4, IMAGE, CHANNELS)
    place = order.index(way.kind.partition("+")[0])
    return (not way.fits, smaller, way.ram_lacking + way.flash_lacking, extra, place)


@dataclass
class _Search:
    """The arguments of fit(), the footprint as it is, and the reasons of ways that are refused."""

    name: str
    base: Plan
    limits: Limits
    planned: Planned
    whole: Callable[[], Graph]
    now: Footprint
    refused: list[str] = field(default_factory=list)

    def less_ram(self) -> Iterator[Remedy]:
        """The same network with an external or streamed input, and with recomputation."""
        if not (self.base.input_streamed or self.base.graph.elsewhere):
            for kind, what, options, asked in WAYS:
                way = self._way(kind, what, options, asked)
                if way is None:
                    continue
                if way.ram_lacking:
                    way = self._spent(kind, what, options, asked) or way
                if way.measured.pool_bytes < self.now.pool_bytes:
                    yield way
        spent = self._spent("", "", "", {})
        if spent is not None:
            yield spent

    def less_flash(self) -> Iterator[Remedy]:
        """The weights in a file outside the flash, and those of a network with int4 weights."""
        ram = self.limits.ram
        stores = [STORE, *([] if ram is None else [replace(STORE, ram=ram // 2)])]
        for store in stores:
            what, words = f"weights in a file, {store}", f"--external-weights {store}"
            way = self._way(FILE, what, words, {"external_weights": store})
            if way is not None and (not way.ram_lacking or store is stores[-1]):
                yield way
                break
        graph, options = use_int4_weights(self.base.model), self._options()
        footprint = measured(make_plan(graph, options, prove=False), self.name)
        if footprint.flash_bytes < self.now.flash_bytes:
            yield Remedy.of(INT4, "int4 weights", "", footprint, self.limits)

    def smaller(self) -> Iterator[Remedy]:
        """The network with a smaller image, or with fewer channels."""
        for kind in (IMAGE, CHANNELS):
            # Weights have the same size for every image.
            if kind == IMAGE and self.limits.lacking(0, self.now.flash_bytes)[1]:
                continue
            scale = self._scale(kind)
            if scale is not None:
                yield from self._largest(scale, 1, scale.whole)

    def larger(self) -> Iterator[Remedy]:
        """The network with the largest image, and with the most channels."""
        for kind in (IMAGE, CHANNELS):
            scale = self._scale(kind)
            if scale is None:
                continue
            high = scale.whole + 1
            ways: list[Remedy] = []
            # Ever larger steps: plans that are far too large cost much time.
            while high <= MOST_TIMES * scale.whole:
                low, high = high, min(high + max(high // 2, 1), MOST_TIMES * scale.whole + 1)
                here = list(self._largest(scale, low, high))
                ways += here
                if not here or round(here[0].factor * scale.whole) < high - 1:
                    break
            yield from ways[-1:]

    def _options(self) -> CompileOptions:
        """Those of the base that change what is planned."""
        elsewhere = bool(self.base.graph.elsewhere)
        return CompileOptions(stream_input=self.base.input_streamed, external_input=elsewhere)

    def _spent(self, kind: str, what: str, options: str, asked: Mapping[str, Any]) -> Remedy | None:
        """Plans with as little recomputation as necessary."""
        words = f"{options} --ram {self.limits.ram}".strip()
        named = f"{kind}+{MACS}" if kind else MACS
        said = f"{what} and recomputation" if what else "recomputation"
        return self._way(named, said, words, {**asked, "ram": self.limits.ram})

    def _way(self, kind: str, what: str, options: str, asked: Mapping[str, Any]) -> Remedy | None:
        try:
            footprint = self.planned(asked)
        except UserError as error:
            self.refused.append(f"{what}: {error.problems[0].reason}")
            return None
        return Remedy.of(kind, what, options, footprint, self.limits)

    def _scale(self, kind: str) -> Scale | None:
        options = replace(self._options(), hop=self.base.graph.state.step_rows)
        try:
            graph = self.base.model if kind == IMAGE else self.whole()
            return scale_of(self.name, kind, graph, options)
        except UserError as error:
            self.refused.append(f"another {kind}: {error.problems[0].reason}")
            return None

    def _largest(self, scale: Scale, low: int, high: int) -> Iterator[Remedy]:
        """The largest number of parts from `low` to below `high`, if one fits."""
        way, refusal = largest(scale, self.limits, low, high, min(self.now.flash_bytes, 4096))
        if way is not None:
            yield way
        elif refusal is not None:
            problem = refusal.problems[0]
            where = f"node '{problem.node}', {problem.op}: " if problem.node else ""
            self.refused.append(f"another {scale.kind}: {where}{problem.reason}")
        else:
            parts = f"none from {low} to {high - 1} parts of {scale.whole}"
            self.refused.append(f"another {scale.kind}: {parts}")
