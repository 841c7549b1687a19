# SPDX-License-Identifier: Apache-2.0
"""Prints the output of `vmcu place`: height, lower bound and the gap between them."""

from __future__ import annotations

import csv
from collections.abc import Sequence
from dataclasses import asdict
from pathlib import Path
from typing import Any

from rich.console import Console
from vmcu_tools.errors import Problem, UserError
from vmcu_tools.report.terminal import say

from ..placement import Allocation, Instance
from ..placement.graph_files import NamedGraph
from ..placement.graphs import GraphPlan
from ..placement.memories import Distribution, MemoryBank

# More buffers than lines on a screen: the offsets are for --json and --output.
MOST_OFFSETS = 40


def print_placement(problem: Instance, placement: Allocation, console: Console) -> None:
    """Height and bound in bytes, how far apart they are, and offsets where they fit a screen."""
    for column in problem.ignored:
        say(console, f"note: column '{column}' is not used")
    above = f"at most {placement.gap:.2%} above the optimum"
    verdict = "optimal" if placement.is_optimal else above
    rows = {
        "buffers": f"{len(problem.buffers):,}",
        "height": f"{placement.height:,} bytes",
        "bound": f"{placement.bound:,} bytes, {verdict}",
        "seconds": f"{placement.seconds:.1f}",
    }
    for name, value in rows.items():
        say(console, f"{name:8} {value}")
    if placement.is_interrupted:
        say(console, "interrupted: this is the lowest placement found")
    if len(problem.buffers) <= MOST_OFFSETS:
        for name, offset in placement.offsets.items():
            say(console, f"  {name} at {offset}")


def figures(problem: Instance, placement: Allocation, capacity: int | None) -> dict[str, Any]:
    """JSON of `vmcu place`; sizes in bytes."""
    return {
        "problem": problem.origin,
        "buffers": len(problem.buffers),
        "capacity": capacity,
        "height": placement.height,
        "bound": placement.bound,
        "gap": placement.gap,
        "optimal": placement.is_optimal,
        "seconds": placement.seconds,
        "interrupted": placement.is_interrupted,
        "offsets": placement.offsets,
    }


def print_distribution(
    problem: Instance, memories: Sequence[MemoryBank], distribution: Distribution, console: Console
) -> None:
    """A line for each memory, the cost of all accesses and its bound, and where buffers are."""
    for number, (memory, height) in enumerate(zip(memories, distribution.heights, strict=True)):
        count = list(distribution.memory.values()).count(number)
        line = f"{memory.name}: {count:,} buffers in {height:,} of {memory.capacity:,} bytes"
        say(console, line)
    verdict = "optimal" if distribution.is_optimal else f"lower bound {distribution.bound:,g}"
    say(console, f"cost     {distribution.cost:,g}, {verdict}")
    say(console, f"seconds  {distribution.seconds:.1f}")
    if len(problem.buffers) <= MOST_OFFSETS:
        for name, offset in distribution.offsets.items():
            where = memories[distribution.memory[name]].name
            say(console, f"  {name} in {where} at {offset}")


def distribution_figures(
    problem: Instance, memories: Sequence[MemoryBank], distribution: Distribution
) -> dict[str, Any]:
    """JSON of `vmcu place --memory`; sizes in bytes. `memory` of a buffer: the number of it."""
    return {
        "problem": problem.origin,
        "memories": [
            {**asdict(memory), "height": height}
            for memory, height in zip(memories, distribution.heights, strict=True)
        ],
        "buffers": {
            name: {"memory": number, "offset": distribution.offsets[name]}
            for name, number in distribution.memory.items()
        },
        "cost": distribution.cost,
        "bound": distribution.bound,
        "moments": list(distribution.moments),
        "optimal": distribution.is_optimal,
        "seconds": distribution.seconds,
    }


def print_plan(problem: NamedGraph, plan: GraphPlan, console: Console) -> None:
    """Height, worst step and bound in bytes; order and offsets where they fit a screen."""
    above = plan.height / plan.bound - 1 if plan.bound else 0.0
    verdict = "optimal" if plan.is_optimal else f"at most {above:.2%} above the optimum"
    rows = {
        "nodes": f"{len(problem.nodes):,}, {len(problem.tensors):,} tensors",
        "height": f"{plan.height:,} bytes, peak of the order {plan.peak:,}",
        "bound": f"{plan.bound:,} bytes, {verdict}",
        "seconds": f"{plan.seconds:.1f}",
    }
    if plan.proof:
        rows["program"] = plan.proof
    for name, value in rows.items():
        say(console, f"{name:8} {value}")
    if plan.is_interrupted:
        say(console, "interrupted: this is the best plan found")
    if len(plan.order) <= MOST_OFFSETS:
        say(console, f"order    {' '.join(plan.order)}")
    if plan.offsets is not None and len(plan.offsets) <= MOST_OFFSETS:
        for name, offset in plan.offsets.items():
            say(console, f"  {name} at {offset}")


def plan_figures(plan: GraphPlan) -> dict[str, Any]:
    """JSON of `vmcu place --graph`; sizes in bytes, offsets null where none were asked for."""
    return {
        "order": list(plan.order),
        "offsets": plan.offsets,
        "height": plan.height,
        "peak": plan.peak,
        "bound": plan.bound,
        "optimal": plan.is_optimal,
        "seconds": plan.seconds,
        "interrupted": plan.is_interrupted,
    }


def write_offsets(plan: GraphPlan, path: Path) -> None:
    """A line for each tensor of a graph, with its offset in bytes."""
    with path.open("w", newline="", encoding="utf-8") as file:
        rows = csv.writer(file, lineterminator="\n")
        rows.writerow(["tensor", "offset"])
        rows.writerows((plan.offsets or {}).items())


def too_high(origin: str, placement: Allocation | GraphPlan, capacity: int) -> UserError:
    """The error for an allocation that is too high, with a remedy."""
    said = f"the lowest placement found needs {placement.height}"
    if placement.is_optimal:
        said = f"the lowest placement needs {placement.height}"
    elif placement.bound > capacity:
        said += f", and none needs less than {placement.bound}"
    else:
        said += f"; whether one needs less is open down to {placement.bound}"
    remedy = f"allow {placement.height}"
    if not placement.is_optimal:
        remedy += ", or search longer with --seconds"
    return UserError(Problem(f"does not fit in {capacity} bytes: {said}", remedy, origin))
