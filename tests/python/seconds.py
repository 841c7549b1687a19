# SPDX-License-Identifier: Apache-2.0
"""Bounds on time, for tests that share a process with thousands of others, on any machine."""

from __future__ import annotations

import contextlib
import gc
import os
import time
from collections.abc import Callable, Iterator

import coverage

# Lines take several times as long where they are counted: no bound is one.
COUNTED = coverage.Coverage.current() is not None
# Seconds of work() where the bounds of tests were chosen.
REFERENCE, FASTEST = 0.05, 4


def work() -> float:
    """Seconds that this machine takes, at the moment, for what planning and reports consist of:
    calls, small objects, dictionaries, sorting and text."""
    start = time.process_time()
    total = 0
    for turn in range(12):
        rows = [(number * 7919 % 1009, f"t{number}") for number in range(3000)]
        sizes = {name: size for size, name in sorted(rows)}
        total += sum(size for name, size in sizes.items() if name.endswith(str(turn % 10)))
    assert total > 0
    return time.process_time() - start


@contextlib.contextmanager
def _measured(allowed: Callable[[float], float]) -> Iterator[None]:
    """What earlier tests left is hidden from the garbage collector, which would look at it again
    and again: three times the time has been seen. The kernel's seconds do not count: those for new
    memory differ threefold from run to run."""
    gc.collect()
    gc.freeze()
    start = os.times().user
    try:
        yield
        took = os.times().user - start
        most = allowed(took)
    finally:
        gc.unfreeze()
    assert took < most or COUNTED


def within(seconds: float) -> contextlib.AbstractContextManager[None]:
    """Bounds seconds of this process, whatever the machine."""
    return _measured(lambda took: seconds)


def at_most(seconds: float) -> contextlib.AbstractContextManager[None]:
    """Bounds seconds of a machine that needs REFERENCE for work(); another one gets as much more or
    less as its work() takes. No machine of tests is FASTEST times as fast as that one."""

    def allowed(took: float) -> float:
        if took < seconds / FASTEST:
            return seconds
        return seconds * max(work() for _ in range(3)) / REFERENCE

    return _measured(allowed)
