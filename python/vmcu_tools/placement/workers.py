# SPDX-License-Identifier: Apache-2.0
"""Searches in processes of their own.

Plain child processes with pickles on their pipes: unlike multiprocessing's, they neither fork the
caller's threads nor import the caller's main module again.
"""

from __future__ import annotations

import os
import pickle
import queue
import subprocess
import sys
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from types import TracebackType

from .partial import Geometry
from .portfolio import Attempt, Lowering, Outcome, solve

# What this package is imported from, whatever it is part of.
ROOT = Path(__file__).resolve().parents[__name__.count(".")]


def cores() -> int:
    """How many this process may use."""
    if hasattr(os, "sched_getaffinity"):
        return len(os.sched_getaffinity(0))
    return os.cpu_count() or 1


class Worker:
    """A process that makes attempts until its pipe is closed."""

    def __init__(self, geometries: Sequence[Geometry], deadline: float):
        self.geometries, self.known = geometries, 0
        paths = [str(ROOT), os.environ.get("PYTHONPATH", "")]
        self.process = subprocess.Popen(
            [sys.executable, "-c", f"from {__name__} import serve; serve()"],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            # Else a terminal would interrupt the children too, and each would say so.
            start_new_session=True,
            env={**os.environ, "PYTHONPATH": os.pathsep.join(filter(None, paths))},
        )
        self.send(deadline)

    def send(self, message: object) -> None:
        """Pickles a message into the pipe."""
        assert self.process.stdin
        pickle.dump(message, self.process.stdin)
        self.process.stdin.flush()

    def solve(self, attempt: Attempt | Lowering) -> Outcome:
        """The outcome of an attempt, which is waited for."""
        assert self.process.stdout
        if self.known < len(self.geometries):
            self.send(list(self.geometries[self.known :]))
            self.known = len(self.geometries)
        self.send(attempt)
        found: Outcome = pickle.load(self.process.stdout)
        return found


class Workers:
    """`solve` maps attempts to outcomes, in order. The processes start when first needed;
    `geometries` may grow."""

    def __init__(self, geometries: Sequence[Geometry], deadline: float, count: int | None):
        self.geometries = geometries
        self.deadline = deadline
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

    def here(self, attempts: Sequence[Attempt | Lowering]) -> list[Outcome]:
        """The outcomes of attempts made in this process: for what is over before another is up."""
        return [
            solve(self.geometries[attempt.component], attempt, self.deadline)
            for attempt in attempts
        ]

    def solve(self, attempts: Sequence[Attempt | Lowering]) -> list[Outcome]:
        """The outcomes of attempts, in their order, made side by side where there are processes for
        it."""
        if self.count < 2:
            return self.here(attempts)
        if self.threads is None:
            self.threads = ThreadPoolExecutor(self.count)
            for _ in range(self.count):
                self.all.append(Worker(self.geometries, self.deadline))
                self.idle.put(self.all[-1])
        return list(self.threads.map(self.ask, attempts))

    def ask(self, attempt: Attempt | Lowering) -> Outcome:
        """An attempt in the next process that has nothing to do."""
        worker = self.idle.get()
        try:
            return worker.solve(attempt)
        finally:
            self.idle.put(worker)


def serve() -> None:
    """What a child does until its parent closes the pipe."""
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
