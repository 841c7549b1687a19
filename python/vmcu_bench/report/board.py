# SPDX-License-Identifier: Apache-2.0
"""Prints the output of `vmcu verify --serial`."""

from __future__ import annotations

from rich.console import Console
from rich.markup import escape
from vmcu_tools.report.terminal import say
from vmcu_tools.report.text import counted

from ..probe.locate import Fault
from ..verify.board import BoardAccuracy, BoardVerification


def print_board(outcome: BoardVerification, console: Console) -> None:
    """The first wrong byte if there is one, then the verdict."""
    title = f"{outcome.model} on {outcome.target}"
    compared = f"{counted(outcome.samples, 'input')}, {counted(outcome.layers, 'layer')} of each"
    if outcome.fault is None:
        say(console, f"{title}: {compared}: every digest matches the reference")
    else:
        say(console, f"{title}: input {outcome.sample}: {_described(outcome.fault)}")
    said = "[green]PASSED" if outcome.passed else "[red]FAILED"
    say(console, f"{escape(title)}: {said}", markup=True)


def _described(fault: Fault) -> str:
    """'layer 3 conv1 (Conv2D) is the first that differs: tensor ...'."""
    parts = [f"layer {fault.number} {fault.node} ({fault.op}) is the first that differs: "]
    where = "" if fault.y is None else f", row {fault.y}"
    if fault.actual is not None:
        place = f"{where}, column {fault.x}, channel {fault.channel}"
        parts.append(
            f"tensor '{fault.tensor}'{place} is {_signed(fault.actual)}, expected "
            f"{_signed(fault.expected or 0)}"
        )
    else:
        parts.append(f"tensor '{fault.tensor}'{where}")
    if fault.reason:
        parts.append(f"; {fault.reason}")
    return "".join(parts) + f" ({counted(fault.runs, 'run')})"


def _signed(byte: int) -> int:
    return (byte ^ 0x80) - 0x80


def print_accuracy(counts: BoardAccuracy, console: Console) -> None:
    """The share of right answers on the board and in the file's runtime."""
    total = counts.samples
    say(
        console,
        f"accuracy on the board: {counts.board / total:.1%} of {counted(total, 'input')}; in the "
        f"file's own runtime: {counts.runtime / total:.1%}; same answer: {counts.same:,}",
    )
