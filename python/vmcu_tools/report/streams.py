# SPDX-License-Identifier: Apache-2.0
"""Reports on models that keep their rows, for a terminal."""

from __future__ import annotations

from rich.console import Console

from ..verify.stream import StreamVerification
from .terminal import say


def print_verified(outcome: StreamVerification, console: Console) -> None:
    """How many hops differ."""
    said = "[green]PASSED" if outcome.passed else "[red]FAILED"
    say(
        console,
        f"{outcome.model} on {outcome.target}, window {outcome.window} rows, hop {outcome.hop}: "
        f"{outcome.wrong:,} of {outcome.hops:,} hops differ from {outcome.against} on whole windows "
        f"({outcome.differing:,} of {outcome.bytes:,} bytes, by {outcome.largest} at most): {said}",
        markup=True,
    )
