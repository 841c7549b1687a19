# SPDX-License-Identifier: Apache-2.0
"""The runner's side of the serial protocol of MLPerf Tiny, in performance mode."""

from __future__ import annotations

from dataclasses import dataclass

from vmcu_bench.probe.link import Connection
from vmcu_tools.errors import Problem, UserError

# Bytes in one command: the benchmark's runner sends as many.
CHUNK_BYTES = 31
PATIENCE_S, QUIET_S = 120.0, 0.5


@dataclass(frozen=True)
class Inference:
    """The answer to a command `infer`: microseconds, inferences a second, the output's bytes in
    hexadecimal digits. The names are those of results.json."""

    results: list[float]
    elapsed_time: int
    iterations: int
    throughput: float
    output: str


class Device:
    """A device that has started. `log` has all commands but those of inputs, and the answers."""

    def __init__(self, link: Connection):
        self.link, self.log = link, list[str]()
        self._answer("the start")
        # A flashed board may start twice.
        while self.link.read(QUIET_S) is not None:
            pass

    def ask(self, command: str) -> list[str]:
        """Sends a command. Returns the lines of the answer. Raises UserError for an error."""
        self.link.write(f"{command}%")
        lines = self._answer(command)
        if not command.startswith("db "):
            self.log += [f"{command}%", *lines]
        return lines

    def _answer(self, command: str) -> list[str]:
        lines: list[str] = []
        while lines[-1:] != ["m-ready"]:
            line = self.link.read(PATIENCE_S)
            if line is None or line.startswith("e-["):
                reason = f"the device answers '{command}' with {line or 'nothing'}"
                raise UserError(Problem(reason, "does it run samples/mlperf_tiny for this model?"))
            lines.append(line)
        return lines

    def value(self, command: str, name: str) -> list[str]:
        """Returns what follows m-NAME- in the lines of an answer. Raises UserError as ask()."""
        lines = self.ask(command)
        return [line.removeprefix(f"m-{name}-") for line in lines if line.startswith(f"m-{name}-")]

    def infer(self, data: bytes, iterations: int, warmups: int) -> Inference:
        """Sends an input and repeats its inference. Raises UserError as ask()."""
        self.ask(f"db load {len(data)}")
        for at in range(0, len(data), CHUNK_BYTES):
            self.ask(f"db {data[at : at + CHUNK_BYTES].hex()}")
        start, end = map(int, self.value(f"infer {iterations} {warmups}", "lap-us"))
        # The clock of a long run has 32 bits.
        elapsed = (end - start) % 2**32
        (results,) = self.value("results", "results")
        output = "-".join(self.value("output", "output")).replace("-", "")
        values = [float(value) for value in results.strip("[]").split(",")]
        rate = 1e6 * iterations / max(elapsed, 1)
        return Inference(values, elapsed, iterations, rate, output)
