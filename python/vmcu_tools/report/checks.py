# SPDX-License-Identifier: Apache-2.0
"""Limits that a pipeline holds a model to."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Protocol
from xml.etree import ElementTree

from .difference import FIGURES, SheetDifference, markdown
from .runs import ALL, PLANNED
from .sheet import Sheet


class Judged(Protocol):
    """An entry of a test case: its name, whether it is held, and a sentence."""

    @property
    def name(self) -> str: ...

    @property
    def held(self) -> bool: ...

    @property
    def said(self) -> str: ...


@dataclass(frozen=True)
class Limit:
    """A figure of FIGURES and its largest value. baseline: from a report that was handed over,
    not from a number."""

    figure: str
    value: int
    most: int
    baseline: bool = False

    @property
    def held(self) -> bool:
        return self.value <= self.most

    @property
    def name(self) -> str:
        return f"{self.figure} {'against the baseline' if self.baseline else 'within its limit'}"

    @property
    def said(self) -> str:
        by = "" if self.held else f": {self.value - self.most:,} too many"
        what = " allowed by the baseline" if self.baseline else " allowed"
        return f"{FIGURES[self.figure]}: {self.value:,} of {self.most:,}{what}{by}"


def limits(
    sheet: Sheet,
    most: Mapping[str, int | None],
    against: SheetDifference | None,
    tolerance: Mapping[str, float],
) -> list[Limit]:
    """Those that are given, and, where there is a baseline, that no figure grows by more than the
    part that its metric, or ALL, has in `tolerance`."""
    limited = [
        Limit(figure, value, limit)
        for figure, limit in most.items()
        if limit is not None and (value := getattr(sheet, figure)) is not None
    ]
    for change in () if against is None else against.changes:
        part = tolerance.get(PLANNED[change.figure], tolerance.get(ALL, 0.0))
        allowed = int(change.before * (1 + part))
        limited.append(Limit(change.figure, int(change.after), allowed, True))
    return limited


def junit(command: str, what: str, checked: Sequence[Judged]) -> bytes:
    """Writes JUnit's XML: a test case for each limit. what: the checked thing."""
    failed = [limit for limit in checked if not limit.held]
    counts = {"tests": str(len(checked)), "failures": str(len(failed)), "errors": "0"}
    top = ElementTree.Element("testsuites", counts)
    suite = ElementTree.SubElement(top, "testsuite", {"name": f"vmcu {command} {what}", **counts})
    for limit in checked:
        named = {"classname": f"vmcu.{what}", "name": limit.name}
        case = ElementTree.SubElement(suite, "testcase", named)
        if not limit.held:
            ElementTree.SubElement(case, "failure", {"message": limit.said}).text = limit.said
        else:
            ElementTree.SubElement(case, "system-out").text = limit.said
    ElementTree.indent(top)
    document: bytes = ElementTree.tostring(top, encoding="utf-8", xml_declaration=True) + b"\n"
    return document


def comment(sheet: Sheet, checked: Sequence[Limit], against: SheetDifference | None) -> str:
    """Writes the limits as a comment on a change."""
    lines = [f"- {'ok' if limit.held else '**too large**'}: {limit.said}" for limit in checked]
    title = f"vmcu: {sheet.model}"
    if against is not None:
        return markdown(against, title) + "\n" + "\n".join(lines) + "\n"
    known = ((what, getattr(sheet, figure)) for figure, what in FIGURES.items())
    rows = [f"| {what} | {value:,} |" for what, value in known if value is not None]
    head = [f"### {title}", "", "| | |", "| --- | ---: |", *rows]
    return "\n".join([*head, "", *lines]) + "\n"
