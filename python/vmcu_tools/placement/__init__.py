# SPDX-License-Identifier: Apache-2.0
"""Places buffers with given lifetimes and sizes in as few bytes as possible.

    place(problem) -> Placement

problem.py says what a problem is, files.py reads and writes it, search.py looks for placements
within a height, portfolio.py decides which of them to look for.
"""

from __future__ import annotations

import time
from collections.abc import Callable

from .portfolio import Part, parts_of
from .problem import Buffer, Placement, PlacementError, Problem, check
from .workers import Workers

__all__ = ["Buffer", "Placement", "PlacementError", "Problem", "check", "place"]

# With what starts before and ends after it, a search by default stays below a minute.
SECONDS = 50.0

Watch = Callable[[int, int], None]


def place(
    problem: Problem,
    capacity: int | None = None,
    seconds: float = SECONDS,
    workers: int | None = None,
    watch: Watch = lambda bound, height: None,
    keep: bool = False,
) -> Placement:
    """The lowest placement found within `seconds`, checked.

    With a capacity, the search is also over once it is proven not to suffice. `workers`: processes
    to search in, one per core if None; their number does not change the result. `watch` is told
    bound and height as they get better. `keep`: an interruption (KeyboardInterrupt) ends the search
    with the lowest placement so far.

    The same problem gives the same offsets, unless time runs out: then it depends on how far the
    search has come.
    """
    start = time.monotonic()
    buffers = [buffer for buffer in problem.buffers if buffer.size]
    parts = [Part(number, group) for number, group in enumerate(parts_of(buffers))]
    # The check takes about half as long as what was done up to here.
    reserve = (time.monotonic() - start) / 2
    interrupted = False
    try:
        improve(parts, capacity, start + seconds - reserve, workers, watch)
    except KeyboardInterrupt:
        if not keep:
            raise
        interrupted = True
    offsets = {buffer.id: 0 for buffer in problem.buffers}
    for part in parts:
        for buffer, offset in zip(part.buffers, part.offsets, strict=True):
            offsets[buffer.id] = offset
    height = check(problem, offsets)
    bound = min(height, bound_of(parts))
    return Placement(offsets, height, bound, time.monotonic() - start, interrupted)


def improve(
    parts: list[Part],
    capacity: int | None,
    deadline: float,
    workers: int | None,
    watch: Watch,
) -> None:
    """Searches, the highest part first, until every part is as low as the highest bound."""
    for part in sorted(parts, key=lambda part: -part.height):
        part.begin(deadline)
    with Workers([part.geometry for part in parts], deadline, workers) as pool:
        while time.monotonic() < deadline:
            bound, height = bound_of(parts), max((part.height for part in parts), default=0)
            watch(bound, height)
            if height <= bound or (capacity is not None and bound > capacity):
                return
            part = max(parts, key=lambda part: part.height)
            tasks = part.batch(bound)
            outcomes = pool.here(tasks) if part.rounds == 1 else pool.solve(tasks)
            for task, outcome in zip(tasks, outcomes, strict=True):
                part.learn(task, outcome)


def bound_of(parts: list[Part]) -> int:
    return max((part.bound for part in parts), default=0)
