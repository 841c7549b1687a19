# SPDX-License-Identifier: Apache-2.0
"""Python's collector of cycles, which looks again and again for garbage in the data of a search."""

from __future__ import annotations

import gc
from collections.abc import Iterator
from contextlib import contextmanager

# New objects, net of those that are gone, after which it looks at them. Python's own 700 cost a
# search up to a quarter of its time; the memory in cycles is as much as ever, or little.
SELDOM = 100_000


@contextmanager
def seldom() -> Iterator[None]:
    """Meanwhile the collector comes after SELDOM objects, or later, or, if it is off, never."""
    before = gc.get_threshold()
    if before[0]:
        gc.set_threshold(max(before[0], SELDOM), *before[1:])
    try:
        yield
    finally:
        gc.set_threshold(*before)
