# SPDX-License-Identifier: Apache-2.0
"""The time of an inference on a board, by estimate, with its waits for constants in serial flash
or in a weights file."""

from __future__ import annotations

from ..boards.flash import SerialFlash
from ..boards.table import CORE_FACTORS, OPERATOR_FACTORS, Board, flash_of
from ..plan.plan import Plan
from ..planner.stages.costs import cycles_of, waits_of
from .cycles import cycle_seconds, printed
from .weights import compute_s, waits_s

# How much longer a published board needs than the estimate, at least and at most. A test compares
# them with the tables of doc/cycles.md.
BOARD_FACTORS = (0.9, 2.1)
PAGE = "`vmcu help cycles.md`"
# Of the time, from which on a person should know how to avoid the wait.
MUCH = 0.25


def estimated_time(plan: Plan, board: Board, serial: SerialFlash | None = None) -> str:
    """A sentence on how long an inference takes on a board, or why that is unknown. serial: the
    flash that its code and constants are in, if somebody says so."""
    lacks = reason_without(plan, board, serial)
    if lacks:
        return f"no estimate of milliseconds on {board.name}: {lacks}"
    time, waited = (1000 * seconds for seconds in board_seconds(plan, board, serial))
    least, most = BOARD_FACTORS
    where = "the weights file" if plan.weights else "constants in serial flash"
    wait = f", {printed(waited)} of them waiting for {where}" if waited else ""
    is_known = board.waits is not None or board.external
    waits = "" if is_known else ", and longer if its flash has wait states"
    often = waited > MUCH * time and plan.weights is None
    hint = ". --external-weights reads constants once an inference, into RAM" if often else ""
    return (
        f"estimated {printed(time)} ms at {board.megahertz} MHz on {board.name}{wait}: modelled, "
        f"not measured. A board needs {least:g} to {most:g} times the estimate{waits} ({PAGE})"
        f"{hint}"
    )


def reason_without(plan: Plan, board: Board, serial: SerialFlash | None = None) -> str:
    """Returns the reason why a board has no estimate for a plan; empty if it has one."""
    reason = board.lacks(CORE_FACTORS, serial is not None)
    if not reason and board.cpu in OPERATOR_FACTORS and plan.graph.target != "helium":
        return "add --target helium, whose kernels the estimate is for"
    return reason


def brief_time(plan: Plan, board: Board | None, serial: SerialFlash | None = None) -> str:
    """estimated_time() in a few words."""
    if board is None or reason_without(plan, board, serial):
        return "no estimate of milliseconds"
    milliseconds = printed(1000 * board_seconds(plan, board, serial)[0])
    return f"{milliseconds} ms on {board.name.partition('/')[0]}, estimated"


def board_seconds(
    plan: Plan, board: Board, serial: SerialFlash | None = None
) -> tuple[float, float]:
    """Seconds of an inference on a board with an estimate, and those of them in which it waits for
    constants."""
    waits = wait_seconds(plan, board, serial)
    factors = OPERATOR_FACTORS.get(board.cpu, {})
    kinds = (step.node.kind for steps in plan.stages for step in steps)
    cycles = (
        factors.get(kind, 1) * cycles for kind, cycles in zip(kinds, cycles_of(plan), strict=True)
    )
    return cycle_seconds(board) * sum(cycles) + waits, waits


def wait_seconds(plan: Plan, board: Board, serial: SerialFlash | None) -> float:
    """Seconds of an inference in which a board waits for constants, by estimate."""
    if plan.weights is not None:
        return sum(waits_s(plan.weights, compute_s(plan, cycle_seconds(board))))
    flash = flash_of(board, serial)
    if flash is None or not flash.bus:
        return 0.0
    assert board.megahertz is not None
    return waits_of(plan, flash) / board.megahertz / 1e6
