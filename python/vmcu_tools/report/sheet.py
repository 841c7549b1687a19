# SPDX-License-Identifier: Apache-2.0
"""The costs of a model, from any file that has them: to be compared with another's."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from ..container.read import Facts
from ..errors import Problem, UserError
from .model import ModelReport


@dataclass(frozen=True)
class SheetLayer:
    """A layer of StepReport; None where a report is of another version and does not say."""

    name: str
    op: str
    pool_bytes: int
    macs: int
    weights_bytes: int | None = None
    cycles: int | None = None


@dataclass(frozen=True)
class Sheet:
    """Bytes of RAM, with those of a weights buffer, and of flash, multiply-accumulates and modelled
    cycles of an inference, bytes of a weights file; None where nothing says so, as containers do
    not."""

    model: str
    pool_bytes: int
    flash_bytes: int
    macs: int | None = None
    cycles: int | None = None
    layers: tuple[SheetLayer, ...] = ()
    file_bytes: int | None = None


def of_report(report: ModelReport) -> Sheet:
    """Collects a plan's figures."""
    layers = tuple(
        SheetLayer(step.name, step.op, step.pool_bytes, step.macs, step.weights_bytes, step.cycles)
        for step in report.steps
    )
    flash = report.weights_bytes + report.tables_bytes
    cycles = sum(step.cycles for step in report.steps)
    file = None if report.weights is None else report.weights.file_bytes
    return Sheet(report.model, report.pool_bytes, flash, report.macs, cycles, layers, file)


def of_container(facts: Facts) -> Sheet:
    """Collects the figures of a file that firmware loads, all of which is in flash."""
    return Sheet(facts.name, facts.pool_bytes, facts.size)


# The errors of JSON of another kind, or of none.
UNREADABLE = (ArithmeticError, AttributeError, LookupError, RecursionError, TypeError, ValueError)


def of_json(path: Path) -> Sheet:
    """Collects the figures of a report that `vmcu build --json` or `vmcu check --json` wrote.
    Raises UserError for any other file."""
    try:
        report = json.loads(path.read_text(encoding="utf-8"))
        layers = tuple(_layer(step) for step in report["steps"])
        cycles = [layer.cycles for layer in layers if layer.cycles is not None]
        weights = report.get("weights") or {}
        return Sheet(
            str(report["model"]),
            int(report["pool_bytes"]),
            int(report["weights_bytes"]) + int(report["tables_bytes"]),
            int(report["macs"]),
            sum(cycles) if len(cycles) == len(layers) else None,
            layers,
            int(weights["file_bytes"]) if weights else None,
        )
    except UNREADABLE:
        reason = "it is no report of a model"
        remedy = "give it one that `vmcu build MODEL --json FILE` wrote"
        raise UserError(Problem(reason, remedy, str(path))) from None


def _layer(step: Mapping[str, Any]) -> SheetLayer:
    known = (step.get(name) for name in ("weights_bytes", "cycles"))
    weights, cycles = (None if one is None else int(one) for one in known)
    sizes = int(step["pool_bytes"]), int(step["macs"])
    return SheetLayer(str(step["name"]), str(step["op"]), *sizes, weights, cycles)
