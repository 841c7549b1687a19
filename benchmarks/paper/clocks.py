# SPDX-License-Identifier: Apache-2.0
"""The clock that limits a measured search."""

from __future__ import annotations

import time
from collections.abc import Iterator
from contextlib import contextmanager


@contextmanager
def cpu_clock() -> Iterator[None]:
    """Searches read the CPU's clock, so that other load does not count."""
    wall = time.monotonic
    time.monotonic = time.process_time
    try:
        yield
    finally:
        time.monotonic = wall
