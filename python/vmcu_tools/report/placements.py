# SPDX-License-Identifier: Apache-2.0
"""What `vmcu place` says: height, bound, and whether there is anything between them."""

from __future__ import annotations

from typing import Any

from rich.console import Console

from ..errors import Problem, UserError
from ..placement import Allocation, Instance

# More buffers than lines on a screen: the offsets are for --json and --output.
MOST_OFFSETS = 40


def print_placement(problem: Instance, placement: Allocation, console: Console) -> None:
    """Height and bound in bytes, how far apart they are, and offsets where they fit a screen."""
    for column in problem.ignored:
        console.print(f"note: column '{column}' is not used", highlight=False)
    verdict = "optimal" if placement.optimal else f"at most {placement.gap:.2%} above the optimum"
    rows = {
        "buffers": f"{len(problem.buffers):,}",
        "height": f"{placement.height:,} bytes",
        "bound": f"{placement.bound:,} bytes, {verdict}",
        "seconds": f"{placement.seconds:.1f}",
    }
    for name, value in rows.items():
        console.print(f"{name:8} {value}", highlight=False)
    if placement.interrupted:
        console.print("interrupted: this is the lowest placement so far", highlight=False)
    if len(problem.buffers) <= MOST_OFFSETS:
        for name, offset in placement.offsets.items():
            console.print(f"  {name} at {offset}", highlight=False, markup=False)


def figures(problem: Instance, placement: Allocation, capacity: int | None) -> dict[str, Any]:
    """JSON of `vmcu place`; sizes in bytes."""
    return {
        "problem": problem.origin,
        "buffers": len(problem.buffers),
        "capacity": capacity,
        "height": placement.height,
        "bound": placement.bound,
        "gap": placement.gap,
        "optimal": placement.optimal,
        "seconds": placement.seconds,
        "interrupted": placement.interrupted,
        "offsets": placement.offsets,
    }


def too_high(problem: Instance, placement: Allocation, capacity: int) -> UserError:
    """Why an allocation is of no use, and what to do."""
    found = f"the lowest placement found needs {placement.height}"
    if placement.optimal:
        found = f"the lowest placement needs {placement.height}"
    elif placement.bound > capacity:
        found += f", and none needs less than {placement.bound}"
    else:
        found += f"; whether one needs less is open down to {placement.bound}"
    remedy = f"allow {placement.height}"
    if not placement.optimal:
        remedy += ", or search longer with --seconds"
    return UserError(Problem(f"does not fit in {capacity} bytes: {found}", remedy, problem.origin))
