# SPDX-License-Identifier: Apache-2.0
"""Prints the output of `vmcu verify` and `vmcu bench` for streaming models."""

from __future__ import annotations

from rich.console import Console
from vmcu_tools.report.terminal import say
from vmcu_tools.report.text import table

from ..cycles.stream import StreamBench
from ..verify.stream import RUNTIME, StreamVerification
from .costs import layer_table, number
from .verification import print_differing, print_ends, print_sums


def print_verified(outcome: StreamVerification, console: Console) -> None:
    """Prints the number of differing results, a line for each runtime that is compared."""
    shown = "call by call" if outcome.keeps else "on whole windows"
    off = [check for check in outcome.checks if check.differing]
    if off:
        print_differing(off, console)
    print_sums(outcome.checks, RUNTIME, console)
    print_ends(outcome.ends, console)
    for one in outcome.judged:
        allowed = "" if one.strict else "; one step a node may differ, see `vmcu help models.md`"
        differ = f"{one.differing:,} of {one.bytes:,} bytes"
        if one.differing:
            differ += f", by {one.largest} at most{allowed}"
        say(
            console,
            f"{one.wrong:,} of {outcome.hops:,} hops differ from {one.judge} {shown} ({differ})",
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
    """The layers of an average hop, then the average, the worst and the first result."""
    moves = f"window {report.window} rows, hop {report.hop}"
    say(console, f"{report.model} on {report.target}, {moves}: the average of {report.hops} hops")
    console.print(layer_table(report.layers, report.executor, console))
    grid = table("", "MACs", "instructions", "cycles", left=1)
    average = f"{report.instructions:,.0f}", number(report.cycles, 0)
    worst = f"{report.instructions_worst:,}", number(report.cycles_worst, 0)
    grid.add_row("average hop", f"{report.macs:,}", *average)
    grid.add_row(f"worst hop, number {report.worst_hop}", "", *worst)
    grid.add_row("up to the first result", "", f"{report.instructions_first:,}", "")
    console.print(grid)
    say(console, f"cycles: {report.timing}")
    say(console, f"compiler: {report.compiler}; {report.stack_bytes:,} bytes of stack")
