# SPDX-License-Identifier: Apache-2.0
"""Reports for a terminal."""

from __future__ import annotations

from collections.abc import Sequence

from rich import box
from rich.console import Console
from rich.table import Table

from ..plan.choice import Choice
from .comparison import Comparison
from .model import AnewReport, HopReport, MemoryReport, ModelReport
from .terminal import say

BAR = 20
# Layers that a line names beside the first.
MOST_NAMED = 3


def table(*columns: str, left: int = 2) -> Table:
    """A plain table whose first `left` columns are text and the others numbers."""
    grid = Table(box=box.SIMPLE_HEAD, pad_edge=False)
    for number, column in enumerate(columns):
        grid.add_column(
            column, justify="left" if number < left else "right", no_wrap=number >= left
        )
    return grid


def print_report(report: ModelReport, console: Console) -> None:
    """One line per step, then the totals."""
    grid = table("step", "op", "pool bytes", "MACs")
    for step in report.steps:
        grid.add_row(step.name, step.op, f"{step.pool_bytes:,}", f"{step.macs:,}")
    console.print(grid)
    say(
        console,
        f"{report.model}: pool {report.pool_bytes:,} bytes of RAM "
        f"(planner {report.planner}, {report.solve_seconds:.2f} s, replayed without a fault), "
        f"flash: weights {report.weights_bytes:,}, tables {report.tables_bytes:,} bytes; "
        f"{report.macs:,} MACs"
        + (f" and {report.macs_extra:,} done twice" if report.macs_extra else ""),
    )
    if report.hop is not None:
        print_hop(report.hop, report.macs, console)
    if report.memories:
        print_memories(report.memories, console)
    if report.left_out:
        say(
            console,
            f"{report.left_out:,} of {report.channels:,} channels have one byte whatever the "
            f"input, or no reader, and are left out: the file has {report.macs_file:,} MACs",
        )
    if report.input_elsewhere:
        say(console, "the input is read where vmcu_set_input() says, outside of the pool")
    if report.rotation_step:
        say(
            console,
            f"the pool rotates by {report.rotation_step:,} bytes; its overhang is "
            f"{report.rotation_overhang:,} of its bytes",
        )
    for note in report.notes:
        say(console, note)


def print_hop(hop: HopReport, macs: int, console: Console) -> None:
    """What stays from one answer to the next, a line for each layer's rows."""
    grid = table("keeps of", "rows", "bytes", left=1)
    for one in hop.kept:
        grid.add_row(one.tensor, f"{one.rows:,}", f"{one.bytes:,}")
    console.print(grid)
    if hop.variables:
        kind = "computed anew by each" if hop.computed else "rings"
        say(
            console,
            f"a call takes {hop.rows} rows; {hop.variables} states of the file are {kind}: "
            f"state: {hop.state_bytes:,} bytes of the pool",
        )
        return
    say(
        console,
        f"the window of {hop.window} rows moves by {hop.rows} from one answer to the next, the "
        f"first comes after {hop.first}: {macs:,} MACs a hop, {hop.macs_window:,} where nothing is "
        f"kept; state: {hop.state_bytes:,} bytes of the pool",
    )
    if hop.anew is not None:
        print_anew(hop.anew, macs, console)


def print_anew(anew: AnewReport, macs: int, console: Console) -> None:
    """Which layers see their windows as a whole, and why."""
    others = "".join(f", '{name}'" for name in anew.others[:MOST_NAMED])
    others += " and others" if len(anew.others) > MOST_NAMED else ""
    say(
        console,
        f"{anew.layers} layers are computed anew for each hop, over windows that are kept: "
        f"{anew.macs:,} of its {macs:,} MACs. They begin with '{anew.first}' ({anew.op}){others}: "
        f"{anew.reason}. To have their rows kept as well: {anew.remedy}",
    )


def print_memories(memories: Sequence[MemoryReport], console: Console) -> None:
    """A line for each of several memories."""
    grid = table("memory", "pool bytes", "of", "bytes accessed", "share", "cycles each", left=1)
    for memory in memories:
        sizes = f"{memory.pool_bytes:,}", f"{memory.capacity:,}", f"{memory.accesses:,}"
        grid.add_row(memory.name, *sizes, f"{memory.share:.1%}", f"{memory.wait:g}")
    console.print(grid)


def print_front(choices: Sequence[Choice], console: Console) -> None:
    """One line per choice, with a bar as long as its RAM."""
    grid = table("--ram", "extra cycles", "extra MACs", "stages", left=0)
    grid.add_column(no_wrap=True)
    most = max(choice.pool_bytes for choice in choices)
    for choice in choices:
        grid.add_row(
            f"{choice.pool_bytes:,}",
            f"{100 * choice.extra_cycles:.1f} %",
            f"{choice.extra_macs:,}",
            str(choice.stages),
            "#" * max(1, round(BAR * choice.pool_bytes / most)),
        )
    console.print(grid)
    say(
        console,
        "`vmcu build --ram SIZE` has a plan for each line. Cycles are estimated, relative to "
        "layers one by one.",
    )


def print_comparison(outcome: Comparison, console: Console) -> None:
    """One line per planner, then what they have to say."""
    grid = table("planner", "pool bytes", "to vmcu", "largest step", "seconds", left=1)
    for row in outcome.planners:
        figures = (f"{row.pool_bytes:,}", f"{row.ratio:.2f}", f"{row.largest_step:,}")
        grid.add_row(row.planner, *figures, f"{row.solve_seconds:.2f}")
    console.print(grid)
    for row in outcome.planners:
        for note in row.notes:
            say(console, f"{row.planner}: {note}")
