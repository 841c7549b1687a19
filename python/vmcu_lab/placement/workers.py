# SPDX-License-Identifier: Apache-2.0
"""Attempts in child processes, whose number does not change the results."""

from __future__ import annotations

import os
import pickle
import queue
import sys
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from types import TracebackType

from vmcu_tools import child

from .geometry import Geometry
from .portfolio import Attempt, Lowering, Outcome, solve


def cores() -> int:
    """Counts the cores that this process may use."""
    if hasattr(os, "sched_getaffinity"):
        return len(os.sched_getaffinity(0))
    return os.cpu_count() or 1


class Worker:
    """A process that makes attempts until its pipe is closed. `known`: geometries sent so far."""

    def __init__(self, deadline: float):
        self.process, self.known = child.start(__name__), 0
        self.send(deadline)

    def send(self, message: object) -> None:
        """Pickles a message into the pipe."""
        assert self.process.stdin
        pickle.dump(message, self.process.stdin)
        self.process.stdin.flush()

    def solve(self, geometries: Sequence[Geometry], attempt: Attempt | Lowering) -> Outcome:
        """The outcome of an attempt, which is waited for."""
        assert self.process.stdout
        if self.known < len(geometries):
            self.send(list(geometries[self.known :]))
            self.known = len(geometries)
        self.send(attempt)
        outcome: Outcome = pickle.load(self.process.stdout)
        return outcome


class Workers:
    """`solve` maps attempts to outcomes, in order. The processes start when first needed;
    `geometries` may grow."""

    def __init__(self, geometries: Sequence[Geometry], deadline: float, count: int | None):
        self.geometries, self.deadline = geometries, deadline
        self.count = cores() if count is None else count
        self.idle: queue.SimpleQueue[Worker] = queue.SimpleQueue()
        self.all: list[Worker] = []
        self.threads: ThreadPoolExecutor | None = None

    def __enter__(self) -> Workers:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        for worker in self.all:
            worker.process.kill()
        if self.threads:
            self.threads.shutdown(cancel_futures=True)
        for worker in self.all:
            worker.process.communicate()

    def solve_here(self, attempts: Sequence[Attempt | Lowering]) -> list[Outcome]:
        """The outcomes of attempts made in this process: for work that takes less than a start."""
        return [solve(self.geometries[one.component], one, self.deadline) for one in attempts]

    def solve(self, attempts: Sequence[Attempt | Lowering]) -> list[Outcome]:
        """The outcomes of attempts, in their order, made side by side where there are cores."""
        if self.count < 2:
            return self.solve_here(attempts)
        if self.threads is None:
            self.threads = ThreadPoolExecutor(self.count)
            self.all = [Worker(self.deadline) for _ in range(self.count)]
            for worker in self.all:
                self.idle.put(worker)
        return list(self.threads.map(self._ask, attempts))

    def _ask(self, attempt: Attempt | Lowering) -> Outcome:
        worker = self.idle.get()
        try:
            return worker.solve(self.geometries, attempt)
        finally:
            self.idle.put(worker)


def serve() -> None:
    """Serves requests in a child until its parent closes the pipe."""
    requests, answers = sys.stdin.buffer, sys.stdout.buffer
    try:
        deadline = pickle.load(requests)
        geometries: list[Geometry] = []
        while True:
            attempt = pickle.load(requests)
            if isinstance(attempt, list):
                geometries += attempt
                continue
            pickle.dump(solve(geometries[attempt.component], attempt, deadline), answers)
            answers.flush()
    except (EOFError, pickle.UnpicklingError, BrokenPipeError):
        return
