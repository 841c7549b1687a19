# SPDX-License-Identifier: Apache-2.0
"""The protocol of vmcu/probe.h."""

from __future__ import annotations

import re
import time
import zlib
from collections.abc import Callable, Iterator, Sequence
from contextlib import AbstractContextManager
from dataclasses import dataclass

import numpy as np
from vmcu_tools.errors import Problem, UserError
from vmcu_tools.plan.plan import Plan

from .link import Connection

VERSION = 1
# Letters that start a line of an answer; others are the firmware's own, such as a log.
ANSWER = re.compile(r"[=bcdov]( |$)")
# Seconds until firmware has started, between two questions whether it has, and for an answer.
START_S, ASK_S, ANSWER_S = 30.0, 0.5, 120.0
RESULT_BITS = 32
# vmcu_push_row() needs another row.
MORE_ROWS = 1
LAST_LINES = 12

# Firmware that has been started, each time that it is called.
Firmware = Callable[[], AbstractContextManager[Connection]]


class StoppedError(UserError):
    """The firmware gives no answer. `lines`: those of the answer until then; `log`: the last lines
    of other text."""

    def __init__(self, lines: Sequence[str], log: Sequence[str]):
        self.lines, self.log = tuple(lines), tuple(log[-LAST_LINES:])
        said = "; its last lines:\n" + "\n".join(self.log) if self.log else ""
        super().__init__(
            Problem(
                f"the firmware does not answer{said}",
                "see whether it runs, and serves a probe on this port: `vmcu help serial.md`",
            )
        )


@dataclass(frozen=True)
class Ran:
    """One inference, or one hop. `result`: a negative errno, 0, or MORE_ROWS; `lines`: those that
    the mode prints."""

    result: int
    cycles: int
    lines: tuple[str, ...]


class Session:
    """A conversation with firmware that serves a probe of `plan`."""

    def __init__(self, link: Connection, plan: Plan):
        self.link, self.plan = link, plan
        self.log: list[str] = []
        self.hertz = self._greet()

    def _greet(self) -> int:
        """Waits until the firmware answers. Raises StoppedError if it does not, UserError if it has
        another model."""
        end = time.monotonic() + START_S
        while time.monotonic() < end:
            self.link.write("\n?\n")
            try:
                words = self._answer(ASK_S)[-1].split()
            except StoppedError:
                continue
            version, layers, hertz = (int(word, 16) for word in words[1:4])
            if (version, layers) != (VERSION, len(self.plan.steps)):
                reason = (
                    f"the firmware has version {version} of the probe and {layers} layers; this "
                    f"plan requires version {VERSION} and has {len(self.plan.steps)} layers"
                )
                hint = "build both with the same vmcu, from the same file and options"
                raise UserError(Problem(reason, hint, self.plan.graph.origin))
            # Answers to the questions before that one.
            while self.link.read(ASK_S / 5) is not None:
                pass
            return hertz
        raise StoppedError((), self.log)

    def _answer(self, seconds: float = ANSWER_S) -> list[str]:
        """The lines of an answer; the last begins with '='."""
        lines: list[str] = []
        while (line := self.link.read(seconds)) is not None:
            # A log can end in the middle of a line.
            if ANSWER.match(line):
                lines.append(line)
                if line.startswith("="):
                    return lines
            elif line:
                self.log.append(line)
        raise StoppedError(lines, self.log)

    def _ask(self, command: str) -> list[str]:
        self.link.write(command + "\n")
        return self._answer()

    def set_mode(self, mode: str, first: int = 0, last: int = 0) -> None:
        """Resets digests and times, and chooses what runs print."""
        self._ask(f"m{mode} {first:x} {last:x}")

    def send_row(self, number: int, y: int, row: np.ndarray) -> None:
        """Sends row y, int8, of input `number`. Raises UserError if other bytes arrive."""
        data = np.ascontiguousarray(row, np.int8).tobytes()
        digest = int(self._ask(f"i{number:x} {y:x} {data.hex()}")[-1].split()[1], 16)
        if digest != zlib.crc32(data):
            raise UserError(
                Problem(
                    "the firmware received other bytes than were sent",
                    "check the cable, and that no other program uses the port",
                )
            )

    def run_once(self) -> Ran:
        """Runs the model on inputs that were sent, or pushes the row that was."""
        *lines, last = self._ask("r")
        result, cycles = (int(word, 16) for word in last.split()[1:])
        if result >> (RESULT_BITS - 1):
            result -= 1 << RESULT_BITS
        return Ran(result, cycles, tuple(lines))

    def runs(self, sample: Sequence[np.ndarray]) -> Iterator[Ran]:
        """Runs one sample: an int8 array for each input, or the rows of a stream. Yields each call
        of the runtime."""
        for number, (port, values) in enumerate(zip(self.plan.graph.inputs, sample, strict=True)):
            shape = self.plan.graph.tensors[port.tensor].shape
            for y, row in enumerate(np.asarray(values, np.int8).reshape(-1, *shape[1:])):
                self.send_row(number, 0 if self.plan.input_streamed else y, row)
                if self.plan.input_streamed:
                    ran = self.run_once()
                    yield ran
                    if ran.result != MORE_ROWS and not self.plan.graph.state.step_rows:
                        return
        if not self.plan.input_streamed:
            yield self.run_once()

    def outputs(self) -> bytes:
        """All outputs in port order; of a stream, those of the last hop."""
        return bytes.fromhex("".join(line[2:] for line in self._ask("o")[:-1]))

    def layer_values(self) -> list[tuple[int, int]]:
        """Calls and cycles, or digest, of each layer since set_mode()."""
        rows = [line.split() for line in self._ask("v")[:-1]]
        return [(int(calls, 16), int(value, 16)) for _, _, calls, value in rows]


def outputs_of(session: Session, sample: Sequence[np.ndarray]) -> bytes:
    """The outputs of a sample, or of each hop of a stream, one after the other. Raises UserError if
    the model fails."""
    data = b""
    for ran in session.runs(sample):
        if ran.result == 0:
            data += session.outputs()
        elif ran.result != MORE_ROWS:
            raise UserError(
                Problem(
                    f"the inference on the board ended with error {ran.result}",
                    "`vmcu verify --serial` finds the layer",
                    session.plan.graph.origin,
                )
            )
    return data
