# SPDX-License-Identifier: Apache-2.0
"""What a verification found, as text. Apart from text.py, for it brings the oracles along."""

from __future__ import annotations

from collections.abc import Sequence

from rich.console import Console
from rich.markup import escape

from ..verify.end_to_end import FAR, EndToEnd
from ..verify.verify import Check, Verification
from .terminal import say
from .text import table


def print_verification(outcome: Verification, console: Console) -> None:
    """A line per tensor that differs, then one that says how it went."""
    grid = table("tensor", "op", "differing", "of bytes", "largest", "allowed")
    off = [check for check in (*outcome.checks, *outcome.target_checks) if check.differing]
    for check in off:
        grid.add_row(
            check.tensor,
            check.op,
            f"{check.differing:,}",
            f"{check.bytes:,}",
            str(check.largest),
            _allowed(check),
        )
    if off:
        console.print(grid)
    print_ends(outcome.ends, console)
    strict = [check for check in outcome.checks if check.promise.steps == 0]
    loose = [check for check in outcome.checks if check.promise.steps > 0]
    parts = [differing(strict, "tensors")]
    if loose:
        most = max(check.promise.steps for check in loose)
        parts.append(differing(loose, f"tensors, {most} step{'s' * (most > 1)} allowed"))
    say(
        console,
        f"{outcome.model} on {outcome.target}, {outcome.samples} inputs: "
        f"oracle: {'; '.join(parts)}; "
        f"this target against the meaning: {differing(outcome.target_checks, 'tensors')}: "
        + ("[green]PASSED" if outcome.passed else "[red]FAILED"),
        markup=True,
    )


def _allowed(check: Check) -> str:
    """By how many steps a byte may differ, and how many of those of random inputs."""
    steps = check.promise.steps
    return f"{steps} in {check.most:,}" if steps and check.drawn else str(steps)


def print_ends(ends: EndToEnd, console: Console) -> None:
    """A line an output, or why there is none."""
    if ends.unfit:
        line = f"end to end: left out, the runtime does not run this file as it is: {ends.unfit}"
        say(console, line)
    for border in ends.borders:
        parts = [f"{border.differing:,} of {border.values:,} values differ"]
        if border.differing:
            parts[0] += f" ({border.differing / border.values:.2%})"
            parts.append(f"by {border.largest:.3g} steps at most")
        if border.samples:
            parts.append(f"the same largest value in {border.agreeing} of {border.samples} inputs")
        if not border.passed:
            allowed = "none may" if ends.exact else f"{FAR:.0%} may be"
            parts.append(f"[red]{border.spread:.0%} of what another input makes, {allowed}")
        say(
            console,
            f"end to end: output '{escape(border.output)}': {', '.join(parts)}",
            markup=True,
        )


def differing(checks: Sequence[Check], what: str) -> str:
    """How many bytes differ in all checks of a kind."""
    total = sum(check.differing for check in checks)
    return f"{total:,} of {sum(c.bytes for c in checks):,} bytes differ ({len(checks)} {what})"
