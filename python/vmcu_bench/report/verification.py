# SPDX-License-Identifier: Apache-2.0
"""Prints the output of `vmcu verify`."""

from __future__ import annotations

from collections.abc import Sequence

from rich.console import Console
from rich.markup import escape
from vmcu_tools.report.page.names import short_names
from vmcu_tools.report.terminal import say
from vmcu_tools.report.text import counted, table

from ..verify.end_to_end import FAR, STRIPED, EndToEnd
from ..verify.verify import Check, Verification

# Inputs with a pattern, in the order of runners/samples.py.
EDGES = ("zero", "minimum", "maximum", "ramp", "checkerboard")
WHY_STEPS = (
    "One step is the smallest difference of two int8 values. It passes where the runtime computes "
    "an operator in float: its rounding can decide between two neighbouring values. "
    "`vmcu help models.md` lists the operators and how many bytes may differ."
)


def print_verification(outcome: Verification, console: Console) -> None:
    """The inputs, a line for each tensor that differs, each comparison, then the verdict."""
    title = f"{outcome.model} on {outcome.target}"
    say(console, f"{title}: {_inputs(outcome)}")
    off = [check for check in (*outcome.checks, *outcome.target_checks) if check.differing]
    if off:
        print_differing(off, console)
    print_sums(outcome.checks, outcome.runtime, console)
    if outcome.target_checks:
        differing, total = _sums(outcome.target_checks)
        verdict = f"matches the reference ({total:,} bytes)"
        if differing:
            verdict = f"differs from the reference in {differing:,} of {total:,} bytes"
        say(console, f"{outcome.target} {verdict}")
    print_ends(outcome.ends, console)
    steps = any(check.differing for check in outcome.checks if check.promise.steps)
    if steps or (not outcome.ends.exact and any(b.differing for b in outcome.ends.borders)):
        say(console, WHY_STEPS)
    said = "[green]PASSED" if outcome.passed else "[red]FAILED"
    say(console, f"{escape(title)}: {said}", markup=True)


def _inputs(outcome: Verification) -> str:
    """'8 inputs: 3 random samples + 5 edge cases (zero, ...)'."""
    parts = []
    if outcome.samples > outcome.patterned:
        parts.append(counted(outcome.samples - outcome.patterned, "random sample"))
    if outcome.patterned:
        edges = ", ".join(EDGES[: outcome.patterned])
        parts.append(f"{counted(outcome.patterned, 'edge case')} ({edges})")
    more = f"; {STRIPED} more for the whole file" if outcome.ends.borders else ""
    return f"{counted(outcome.samples, 'input')}: {' + '.join(parts)}{more}"


def print_sums(checks: Sequence[Check], runtime: str, console: Console) -> None:
    """Prints how many bytes of nodes differ: of exact nodes, and of those that may differ."""
    strict = [check for check in checks if check.promise.steps == 0]
    loose = [check for check in checks if check.promise.steps > 0]
    if strict:
        say(console, f"exact tensors ({len(strict)}): {_compared(strict, runtime)}")
    if loose:
        most = counted(max(check.promise.steps for check in loose), "step")
        kind = f"tensors that may differ by {most} ({len(loose)})"
        say(console, f"{kind}: {_compared(loose, runtime)}")


def print_differing(checks: Sequence[Check], console: Console) -> None:
    """Prints a table of the tensors that differ."""
    columns = "differing bytes", "of bytes", "largest step", "allowed"
    grid = table("tensor", "op", *columns)
    names = short_names(check.tensor for check in checks)
    for check in checks:
        counts = f"{check.differing:,}", f"{check.bytes:,}", str(check.largest)
        grid.add_row(names[check.tensor], check.op, *counts, _allowed(check))
    console.print(grid)


def _allowed(check: Check) -> str:
    """States by how many steps a byte may differ, and how many of those of random inputs."""
    steps = check.promise.steps
    return f"{steps} in {check.most:,}" if steps and check.drawn else str(steps)


def print_ends(ends: EndToEnd, console: Console) -> None:
    """A line for each output of the whole model, or why there is none."""
    if ends.unfit:
        say(console, f"end to end: not compared, the runtime does not run this file: {ends.unfit}")
    for border in ends.borders:
        parts = [f"{border.differing:,} of {border.values:,} values differ"]
        if border.differing:
            size = f"{border.largest:.3g}"
            steps = f"{size} step{'s' * (size != '1')}"
            parts[0] += f" ({border.differing / border.values:.2%}), by at most {steps}"
        if border.samples:
            parts.append(f"same largest value for {border.agreeing} of {border.samples} inputs")
        if not border.passed:
            most = "0%" if ends.exact else f"{FAR:.0%}"
            away = f"{border.spread:.0%} of the difference between two inputs"
            parts.append(f"[red]{away}, allowed: {most}")
        output = escape(border.output)
        say(console, f"end to end: output '{output}': {'; '.join(parts)}", markup=True)


def _compared(checks: Sequence[Check], runtime: str) -> str:
    differing, total = _sums(checks)
    return f"{differing:,} of {total:,} bytes differ from {runtime}"


def _sums(checks: Sequence[Check]) -> tuple[int, int]:
    """Bytes that differ, and all bytes."""
    return sum(check.differing for check in checks), sum(check.bytes for check in checks)
