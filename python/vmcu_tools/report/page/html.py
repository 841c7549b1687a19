# SPDX-License-Identifier: Apache-2.0
"""A plan as one page that needs nothing else: no network, no other file."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import jinja2

from ...plan.choice import Choice
from ...plan.plan import Plan
from ..build import facts
from ..model import ModelReport
from . import plot, svg
from .cards import Card, cards
from .lives import Lives, lives_of
from .names import names_of
from .palette import AREAS, DARK, LIGHT, variables
from .peak import Peak, peak_of

WARNING = "warning:"
# Of the axis of addresses.
TICKS = 4


@dataclass(frozen=True)
class TableRow:
    """A layer of the table. needed: bytes of the pool at its worst call; life: number of the tensor
    that it writes; parts of the most that any layer has, for bars."""

    number: int
    short: str
    name: str
    op: str
    stage: int
    joined: bool
    macs: int
    weights: int
    needed: int
    cycles: int
    life: int
    peak: bool


@dataclass(frozen=True)
class View:
    """One plot of the page, ready to be drawn, with labels in percent of its size."""

    areas: tuple[Mapping[str, object], ...]
    curve: str
    peak: float | None
    marks: tuple[Mapping[str, object], ...]
    ticks: tuple[Mapping[str, object], ...]
    key: str


def render(plan: Plan, report: ModelReport, compared: Any = None) -> str:
    """The page. compared: a Comparison of vmcu_lab, or None."""
    lives = lives_of(plan)
    names = names_of(plan)
    peak = peak_of(lives, names)
    told = cards(lives, names)
    seen, close = plot.whole(lives), plot.close(lives, peak.call)
    environment = jinja2.Environment(
        loader=jinja2.PackageLoader("vmcu_tools.report"),
        autoescape=True,
        trim_blocks=True,
        lstrip_blocks=True,
    )
    environment.filters |= {"n": lambda number: f"{number:,}", "more": _more}
    return environment.get_template("page.html").render(
        report=report,
        plan=plan,
        choices=worth(plan.choices),
        found=lives,
        peak=peak,
        names=names,
        colours=_colours(seen, told),
        views=[view(seen, told, "a"), *([view(close, told, "b")] if close else [])],
        rows=rows(lives, report, names, peak),
        cards=_script([_card(card) for card in told]),
        compared=compared,
        warnings=[note[len(WARNING) :].strip() for note in plan.notes if note.startswith(WARNING)],
        notes=[*facts(report), *(n for n in plan.notes if not n.startswith(WARNING))],
        patterns="".join(svg.patterns(list(AREAS))),
        light=variables({**AREAS, **LIGHT}),
        dark=variables(DARK),
        width=plot.WIDTH,
        height=plot.HEIGHT,
        stage=lives.spans[lives.span_of(peak.call)] if lives.calls else None,
    )


def worth(choices: Sequence[Choice]) -> list[Choice]:
    """Those of which no other needs fewer bytes and cycles."""
    best: list[Choice] = []
    for choice in sorted(choices, key=lambda one: (one.extra_cycles, one.pool_bytes)):
        if not best or choice.pool_bytes < best[-1].pool_bytes:
            best.append(choice)
    return best


def _more(part: float) -> str:
    """A part that something takes more, in percent."""
    return "+0 %" if part <= 0 else "< 0.1 %" if part < 0.001 else f"+{100 * part:.1f} %"


def _script(value: object) -> str:
    """JSON that can stand in a page."""
    text = json.dumps(value, ensure_ascii=False, separators=(",", ":"))
    return text.replace("<", "\\u003c").replace("\u2028", "\\u2028").replace("\u2029", "\\u2029")


def _card(card: Card) -> Mapping[str, object]:
    return {"short": card.short, "name": card.name, "step": card.step, "lines": card.lines}


def _colours(seen: plot.Plot, told: Sequence[Card]) -> Mapping[str, str]:
    """The colour of a tensor, by name."""
    return {told[area.life].name: area.colour for area in seen.areas if area.life >= 0}


def view(seen: plot.Plot, told: Sequence[Card], key: str) -> View:
    """A plot's paths and labels."""
    areas = [
        {
            "life": area.life,
            "colour": area.colour,
            "path": svg.area_path(area),
            "hatched": svg.hatched_path(area),
            "guest": area.guest,
            "said": told[area.life].said if area.life >= 0 else "scratch of kernels",
        }
        for area in seen.areas
    ]
    marks = [
        {
            "left": 100 * mark.left / plot.WIDTH,
            "width": 100 * (mark.right - mark.left) / plot.WIDTH,
            "first": mark.first,
            "last": mark.last,
        }
        for mark in seen.marks
    ]
    ticks = [
        {"up": 100 * tick / TICKS, "bytes": round(seen.top * tick / TICKS)}
        for tick in range(TICKS + 1)
    ]
    at = None if seen.peak is None else 100 * seen.peak[0] / plot.WIDTH
    return View(tuple(areas), svg.curve_path(seen), at, tuple(marks), tuple(ticks), key)


def rows(
    pool_lives: Lives, report: ModelReport, names: Mapping[str, str], peak: Peak
) -> list[TableRow]:
    """Lists the rows by layer."""
    plan = pool_lives.plan
    lives = {life.tensor: n for n, life in enumerate(pool_lives.lives)}
    stages = [n for n, stage in enumerate(plan.stages) for _ in stage]
    most = pool_lives.by_step
    listed = []
    for number, step in enumerate(plan.steps):
        known = report.steps[number]
        listed.append(
            TableRow(
                number,
                names[step.node.name],
                step.node.name,
                step.node.kind,
                stages[number],
                len(plan.stages[stages[number]]) > 1,
                known.macs,
                known.weights_bytes,
                most[number],
                known.cycles,
                lives.get(step.node.outputs[0], -1),
                number == peak.step,
            )
        )
    return listed
