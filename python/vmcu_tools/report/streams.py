# SPDX-License-Identifier: Apache-2.0
"""Reports on models that keep their rows, for a terminal."""

from __future__ import annotations

from rich.console import Console
from rich.markup import escape

from ..bench.stream import StreamBench
from ..verify.stream import StreamVerification
from .costs import COUNTS, SPENT, layer_cells
from .terminal import say
from .text import table


def print_verified(outcome: StreamVerification, console: Console) -> None:
    """How many hops differ, a line for each who judges them."""
    shown = "call by call" if outcome.keeps else "on whole windows"
    for one in outcome.judged:
        allowed = "" if one.strict else "; a step a node is allowed"
        say(
            console,
            f"{one.wrong:,} of {outcome.hops:,} hops differ from {one.judge} {shown} "
            f"({one.differing:,} of {one.bytes:,} bytes, by {one.largest} at most{allowed})",
        )
    moves = f"window {outcome.window} rows, hop {outcome.hop}"
    if outcome.keeps:
        moves = f"{outcome.hop} rows a call, with the file's own state"
    said = "[green]PASSED" if outcome.passed else "[red]FAILED"
    say(
        console,
        f"{outcome.model} on {outcome.target}, {moves}: " + said,
        markup=True,
    )


def print_hops(report: StreamBench, console: Console) -> None:
    """One line per layer, as a hop has it on average, then what the average and the worst cost."""
    grid = table("", "layer", "op", "MACs", *COUNTS, "cycles", "per MAC", *SPENT, left=3)
    for index, entry in enumerate((*report.layers, report.executor)):
        label = "" if entry is report.executor else str(index)
        grid.add_row(label, escape(entry.name), entry.op, *layer_cells(entry))
    console.print(grid)
    say(
        console,
        f"{report.model} on {report.target}, window {report.window} rows, hop {report.hop}: "
        f"{report.macs:,} MACs, {report.instructions:,.0f} instructions and {report.cycles:,.0f} "
        f"cycles a hop on average over {report.hops}; the worst, number {report.worst_hop}: "
        f"{report.instructions_worst:,} and {report.cycles_worst:,}; up to the first answer: "
        f"{report.instructions_first:,} instructions",
    )
    say(console, f"cycles, modelled, not measured: {report.timing}")
    say(console, f"compiled by {report.compiler}; {report.stack_bytes:,} bytes of stack")
