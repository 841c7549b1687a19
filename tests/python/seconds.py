# SPDX-License-Identifier: Apache-2.0
"""Bounds on time, for tests that share a process with thousands of others."""

from __future__ import annotations

import contextlib
import gc
import time
from collections.abc import Iterator

import coverage

# Lines take several times as long where they are counted: no bound is one.
COUNTED = coverage.Coverage.current() is not None


@contextlib.contextmanager
def at_most(seconds: float) -> Iterator[None]:
    """Seconds of this process. What earlier tests left is hidden from the garbage collector, which
    would look at it again and again: three times the time has been seen."""
    gc.collect()
    gc.freeze()
    start = time.process_time()
    try:
        yield
        took = time.process_time() - start
    finally:
        gc.unfreeze()
    assert took < seconds or COUNTED
