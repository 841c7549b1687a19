# SPDX-License-Identifier: Apache-2.0
"""Prints the output of `vmcu place --graph --memory`: copies and repeated nodes, and their
costs."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from rich.console import Console
from vmcu_tools.plan.pools import Region
from vmcu_tools.report.terminal import say

from ..placement.graph_files import NamedGraph
from ..placement.spilling import Action, ActionKind, LimitedPlan, PlacedStays

# More actions than lines on a screen: they are for --json.
MOST_ACTIONS = 60


def print_limited(
    problem: NamedGraph, memories: Sequence[Region], plan: LimitedPlan, console: Console
) -> None:
    """Bytes in each memory, copies and repeats with their cost, and the actions if they fit a
    screen."""
    own = sum(task.cost for task in problem.tasks.tasks)
    share = f", {plan.cost / own:.1%} of what the nodes cost" if own else ""
    repeated = sum(action.kind is ActionKind.REPEAT for action in plan.actions)
    verdict = "none costs less" if plan.is_optimal else "whether one costs less is open"
    rows = {"nodes": f"{len(problem.nodes):,}, {len(problem.tensors):,} tensors"}
    for memory, placed in zip(memories, (plan.fast, plan.slow), strict=False):
        rows[memory.name] = f"{placed.height:,} of {memory.capacity:,} bytes"
    rows["copied"] = f"{plan.copied:,} bytes"
    rows["repeated"] = f"{repeated:,} nodes"
    rows["cost"] = f"{plan.cost:,g}{share}, {verdict}"
    rows["seconds"] = f"{plan.seconds:.1f}"
    for name, value in rows.items():
        say(console, f"{name:8} {value}")
    if len(plan.actions) <= MOST_ACTIONS:
        for action in plan.actions:
            say(console, f"  {action.kind.value} {_name(problem, action)}")


def _name(problem: NamedGraph, action: Action) -> str:
    """Names the node that an action runs, or the tensor that it copies."""
    is_node = action.kind in (ActionKind.RUN, ActionKind.REPEAT)
    return problem.nodes[action.number] if is_node else problem.tensors[action.number].name


def _action(problem: NamedGraph, action: Action) -> dict[str, Any]:
    made = (
        {"tensor": problem.tensors[action.place].name} if action.kind is ActionKind.REPEAT else {}
    )
    return {"do": action.kind.value, "name": _name(problem, action), **made}


def _stays(problem: NamedGraph, placed: PlacedStays) -> list[dict[str, Any]]:
    """The contents of a memory, from which action until before which."""
    rows = []
    for stay, offset in zip(placed.stays, placed.offsets, strict=True):
        is_scratch = stay.place < 0
        name = problem.nodes[~stay.place] if is_scratch else problem.tensors[stay.place].name
        span = {"first": stay.first, "until": stay.until, "offset": offset}
        rows.append({"scratch" if is_scratch else "tensor": name, **span})
    return rows


def limited_figures(
    problem: NamedGraph, memories: Sequence[Region], plan: LimitedPlan
) -> dict[str, Any]:
    """JSON of `vmcu place --graph --memory`; sizes in bytes. `stays`: in the first memory,
    `copies`: in the second."""
    return {
        "memories": [
            {"name": memory.name, "capacity": memory.capacity, "cost": memory.wait}
            | {"height": placed.height}
            for memory, placed in zip(memories, (plan.fast, plan.slow), strict=False)
        ],
        "actions": [_action(problem, action) for action in plan.actions],
        "stays": _stays(problem, plan.fast),
        "copies": _stays(problem, plan.slow),
        "height": plan.fast.height,
        "peak": plan.peak,
        "copied": plan.copied,
        "cost": plan.cost,
        "optimal": plan.is_optimal,
        "seconds": plan.seconds,
    }
