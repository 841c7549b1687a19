# SPDX-License-Identifier: Apache-2.0
"""Prints the result of `vmcu fit` on a terminal."""

from __future__ import annotations

from collections.abc import Sequence

from rich.console import Console
from vmcu_tools.report.terminal import say
from vmcu_tools.report.text import table

from ..fit.figures import CONTEXT_BYTES, MOST_STACK, Fit, Remedy
from ..fit.ways import INT4


def print_fit(outcome: Fit, console: Console) -> None:
    """Prints whether it fits, then the changes with which it would, the best first."""
    limits, footprint = outcome.limits, outcome.measured
    on = f" of {limits.board}" if limits.board else ""
    for what, size, most, missing in (
        ("RAM", footprint.pool_bytes, limits.ram, outcome.ram_lacking),
        ("flash", footprint.flash_bytes, limits.flash, outcome.flash_lacking),
    ):
        if most is None:
            say(console, f"{outcome.model}: {size:,} bytes of {what}")
        elif missing:
            say(
                console,
                f"{outcome.model}: does not fit: needs {size:,} bytes of {what}, {missing:,} more "
                f"than the {most:,}{on}",
            )
        else:
            say(console, f"{outcome.model}: fits: {size:,} of {most:,} bytes of {what}{on}")
    say(
        console,
        f"RAM is the pool, without {CONTEXT_BYTES} bytes of context and at most {MOST_STACK:,} "
        "bytes of stack. Flash is weights and tables, without code.",
    )
    if outcome.ways:
        _print_ways(outcome.ways, console)
        best = outcome.ways[0]
        if best.fits:
            say(console, f"It fits with {best.what}{_how(best)}")
    if not outcome.fits and not any(way.fits for way in outcome.ways):
        say(console, "No option and no smaller shape that vmcu tried fits.")
    if outcome.grown:
        say(console, "These larger shapes fit as well, after a new training:")
        _print_ways(outcome.grown, console)
    for reason in outcome.refused:
        say(console, f"rejected: {reason}")


def _how(way: Remedy) -> str:
    if way.options:
        return f": vmcu build {way.options}"
    if way.kind == INT4:
        return ", once it is quantised again: for .onnx, vmcu quantize --weights int4"
    return ", after a new training"


def _print_ways(ways: Sequence[Remedy], console: Console) -> None:
    extra = any(way.measured.macs_extra for way in ways)
    columns = "RAM", "flash", "MACs", *["recomputation"] * extra
    grid = table("", "what", *columns, left=2)
    for way in ways:
        missing = way.ram_lacking or way.flash_lacking
        footprint = way.measured
        share = 100 * footprint.macs_extra / max(footprint.macs, 1)
        grid.add_row(
            "fits" if way.fits else f"{missing:,} too many",
            way.what,
            f"{footprint.pool_bytes:,}",
            f"{footprint.flash_bytes:,}",
            f"{footprint.macs:,}",
            *([f"{share:.1f} %"] * extra),
        )
    console.print(grid)
