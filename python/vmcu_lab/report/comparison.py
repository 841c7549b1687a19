# SPDX-License-Identifier: Apache-2.0
"""The figures of several planners' plans for one model."""

from __future__ import annotations

import contextlib
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

from rich.console import Console
from vmcu_tools.errors import UserError
from vmcu_tools.plan.plan import Plan
from vmcu_tools.planner.options import DEFAULT_PLANNER, CompileOptions
from vmcu_tools.planner.registry import make_plan
from vmcu_tools.report.page.lives import lives_of
from vmcu_tools.report.terminal import say
from vmcu_tools.report.text import table

from ..planners import installed, plan_of


@dataclass(frozen=True)
class PlannerRow:
    """One planner's figures. `pool_bytes`, and `largest_step`: bytes in use at its worst step;
    `ratio`: its pool to the default planner's."""

    planner: str
    pool_bytes: int
    ratio: float
    largest_step: int
    solve_seconds: float
    notes: tuple[str, ...]


@dataclass(frozen=True)
class Comparison:
    """The figures of a model's plans, `model` being the name of its file without its ending."""

    model: str
    planners: tuple[PlannerRow, ...]


def comparison(model: str, plans: Mapping[str, Plan]) -> Comparison:
    """The figures of `plans`, by planner, the default one among them."""
    best = plans[DEFAULT_PLANNER].pool_bytes
    rows = tuple(
        PlannerRow(
            name,
            plan.pool_bytes,
            round(plan.pool_bytes / best, 3),
            max(lives_of(plan).by_step, default=plan.pool_bytes),
            round(plan.solve_seconds, 3),
            plan.notes,
        )
        for name, plan in plans.items()
    )
    return Comparison(model, rows)


# Nodes for which the other planners take no time worth the name.
FEW = 100


def beside(plan: Plan) -> Comparison | None:
    """A plan beside those of other planners that are soon found; None where there are none."""
    graph = plan.model
    if (
        plan.planner != DEFAULT_PLANNER
        or graph.state.names
        or plan.graph.state.step_rows
        or len(graph.nodes) > FEW
    ):
        return None
    single = make_plan(graph, CompileOptions(planner="single"), prove=False)
    plans = {DEFAULT_PLANNER: plan, "single": single}
    for name in installed():
        with contextlib.suppress(UserError):
            plans[name] = plan_of(name, Path(graph.origin), prove=False)
    return comparison(graph.name, plans)


def print_comparison(outcome: Comparison, console: Console) -> None:
    """A line for each planner, then their notes."""
    columns = "pool bytes", "relative to vmcu", "largest step", "seconds"
    grid = table("planner", *columns, left=1)
    for row in outcome.planners:
        figures = (f"{row.pool_bytes:,}", f"{row.ratio:.2f}", f"{row.largest_step:,}")
        grid.add_row(row.planner, *figures, f"{row.solve_seconds:.2f}")
    console.print(grid)
    for row in outcome.planners:
        for note in row.notes:
            say(console, f"{row.planner}: {note}")
