# SPDX-License-Identifier: Apache-2.0
"""Finds the first layer, tensor and byte that firmware computes wrongly, in three runs at most."""

from __future__ import annotations

import itertools
import re
from collections.abc import Sequence
from contextlib import ExitStack
from dataclasses import dataclass, replace

import numpy as np
from vmcu_tools.plan.plan import Plan

from .expected import Computed, Expected, expected_of
from .session import MORE_ROWS, Firmware, Session, StoppedError

STOPPED = "the firmware stopped"
HEX = re.compile("[0-9a-f]+")
VARIES = "it computes wrong bytes at times only"


@dataclass(frozen=True)
class Fault:
    """The first wrong byte: layer `number` of the plan computes `actual`, not `expected`, at column
    x and channel `channel` of row y of `tensor`, unsigned. Fields are None that are not known.
    `reason`: how the firmware ended, if it did. `runs`: runs of the firmware until it was found."""

    number: int
    node: str
    op: str
    tensor: str
    y: int | None = None
    x: int | None = None
    channel: int | None = None
    expected: int | None = None
    actual: int | None = None
    reason: str = ""
    runs: int = 1


@dataclass(frozen=True)
class Inspected:
    """One sample on firmware: its outputs, for a stream those of each hop, and the first fault.
    `layers`: how many were compared."""

    outputs: bytes
    layers: int
    fault: Fault | None


@dataclass(frozen=True)
class BoardRun:
    """The lines that a mode has printed, and the values of all layers at the end; None if the
    firmware stopped. `reason`: how it ended, if it failed."""

    lines: tuple[tuple[str, ...], ...]
    values: tuple[int, ...] | None
    outputs: bytes
    reason: str


class Board:
    """Firmware that serves a probe of a plan. It is started when it is needed, and again after it
    has stopped. Raises UserError if it does not start."""

    def __init__(self, plan: Plan, firmware: Firmware):
        self.plan, self.firmware = plan, firmware
        self.stack = ExitStack()
        self.session: Session | None = None

    def __enter__(self) -> Board:
        return self

    def __exit__(self, *error: object) -> None:
        self.stop()

    def stop(self) -> None:
        """Ends the session."""
        self.session = None
        self.stack.close()

    def run(
        self, sample: Sequence[np.ndarray], mode: str, first: int = 0, last: int = 0
    ) -> BoardRun:
        """Runs a sample, of a plan with a hop the rows of a stream, in a mode of vmcu/probe.h."""
        if self.session is None:
            self.session = Session(self.stack.enter_context(self.firmware()), self.plan)
        session, outputs = self.session, b""
        lines: list[str] = []
        try:
            session.set_mode(mode, first, last)
            for ran in session.runs(sample):
                lines += ran.lines
                if ran.result == 0:
                    outputs += session.outputs()
                elif ran.result != MORE_ROWS:
                    reason = f"the model ended with error {ran.result}"
                    return BoardRun(_words(lines), _values(session), outputs, reason)
            return BoardRun(_words(lines), _values(session), outputs, "")
        except StoppedError as stopped:
            self.stop()
            log = f" after: {' / '.join(stopped.log)}" if stopped.log else ""
            return BoardRun(_words([*lines, *stopped.lines]), None, outputs, STOPPED + log)


def inspect(board: Board, sample: Sequence[np.ndarray]) -> Inspected:
    """Runs a sample and compares each layer."""
    expected = expected_of(board.plan, sample)
    run = board.run(sample, "d")
    wrong = _wrong_layers(expected, run)
    count = len(board.plan.steps)
    layers = count - len(expected.unknown)
    if not wrong and not run.reason:
        return Inspected(run.outputs, layers, None)
    first = wrong[0] if wrong else count - 1
    last = max(wrong, default=first)
    if run.values is not None and not board.plan.graph.state.step_rows:
        # The stages before are right. In a stage, a later layer can damage what an earlier reads.
        ends = itertools.accumulate(len(stage) for stage in board.plan.stages)
        stage_end = next(end for end in ends if end > first)
        last = max((number for number in wrong if number < stage_end), default=first)
    fault = _fault(board, sample, expected, (first, last))
    return Inspected(run.outputs, layers, replace(fault, reason=run.reason or fault.reason))


def _words(lines: Sequence[str]) -> tuple[tuple[str, ...], ...]:
    """The numbers of each line; those after other text, as of a fault handler, are left out."""
    return tuple(tuple(itertools.takewhile(HEX.fullmatch, line.split()[1:])) for line in lines)


def _values(session: Session) -> tuple[int, ...]:
    return tuple(value for _, value in session.layer_values())


def _wrong_layers(expected: Expected, run: BoardRun) -> list[int]:
    """The layers whose digests differ; if the firmware stopped and none does, those that were not
    complete."""
    digests = expected.digests()
    known = sorted(digests.keys() - expected.unknown)
    if run.values is not None:
        return [number for number in known if run.values[number] != digests[number]]
    last = {int(words[0], 16): int(words[1], 16) for words in run.lines if len(words) == 2}
    wrong = [n for n in known if n in last and last[n] != digests[n]]
    return wrong or [n for n in known if n not in last]


def _fault(
    board: Board, sample: Sequence[np.ndarray], expected: Expected, layers: tuple[int, int]
) -> Fault:
    """The first wrong byte in layers [first, last], in two runs."""
    plan = board.plan
    run = board.run(sample, "c", *layers)
    calls = [call for call in expected.calls if layers[0] <= call.layer <= layers[1]]
    for place, (call, words) in enumerate(itertools.zip_longest(calls, run.lines, fillvalue=None)):
        if call is None or words is None or len(words) < 5:
            where = call or calls[-1]
            why = run.reason or "it computes another number of rows"
            return _in_layer(plan, where.layer, where.y, why, 2)
        number, y, x, _, digest = (int(word, 16) for word in words)
        if (number, x) != (call.layer, call.x):
            return _in_layer(plan, call.layer, call.y, "it computes other pixels", 2)
        if digest != call.digest:
            same = [words[:2] for words in run.lines[:place]].count(words[:2])
            again = board.run(sample, "b", number, y)
            bytes_ = [bytes.fromhex("".join(words[4:])) for words in again.lines]
            actual = bytes_[same] if same < len(bytes_) else b""
            return _at_byte(plan, call, actual, run.reason)
    return _in_layer(plan, layers[0], None, run.reason or VARIES, 2)


def _in_layer(plan: Plan, number: int, y: int | None, reason: str, runs: int) -> Fault:
    node = plan.steps[number].node
    return Fault(number, node.name, node.kind, node.outputs[0], y, reason=reason, runs=runs)


def _at_byte(plan: Plan, call: Computed, actual: bytes, reason: str) -> Fault:
    fault = _in_layer(plan, call.layer, call.y, reason, 3)
    channels = plan.graph.tensors[fault.tensor].shape[2]
    for place, (wanted, got) in enumerate(zip(call.data, actual, strict=False)):
        if wanted != got:
            x, channel = call.x + place // channels, place % channels
            return replace(fault, x=x, channel=channel, expected=wanted, actual=got)
    return replace(fault, reason=reason or VARIES)
