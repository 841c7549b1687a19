# SPDX-License-Identifier: Apache-2.0
"""When rings of a stage that never ends are in use, within a hop."""

from __future__ import annotations

import numpy as np

from ...plan.trace import NEVER, Steps, Trace, times_of


def in_hop(trace: Trace, number: int) -> tuple[int, int | None]:
    """The first and the last call of a hop in which the ring of tensor `number` holds something,
    counted from the hop's first. None: it does from one hop to the next, all of the time.

    Hops are alike; the last but one stands for them. The calls in front of the first answer come
    in an order of their own, of which this says nothing: the proof does.
    """
    ends = _ends(trace)
    start, stop = int(ends[-3]) + 1, int(ends[-2]) + 1
    first, last = stop - start, 0
    for guest, home in enumerate(trace.homes[: trace.own]):
        if home.owner != number:
            continue
        births = times_of(trace.made[guest])
        deaths = _deaths(trace.freed[guest], births, ends)
        early = births < stop
        if (np.searchsorted(ends, births) != np.searchsorted(ends, deaths))[early].any():
            return 0, None
        here = early & (births >= start)
        first = min([first, *(births[here] - start)])
        last = max([last, *(deaths[here] - start)])
    return int(first), int(last)


def _ends(trace: Trace) -> np.ndarray:
    """The last call of each hop: the one that ends a row of the last layer."""
    across = trace.stage.grids[len(trace.stage.layers) - 1].across
    return trace.stage.order.at[len(trace.stage.layers) - 1][across - 1 :: across]


def _deaths(freed: Steps, births: np.ndarray, ends: np.ndarray) -> np.ndarray:
    """The time of each pixel's last read. An answer, which no layer reads, lives until its hop
    ends."""
    if freed is NEVER:
        return ends[np.searchsorted(ends, births)]
    times = times_of(freed)[: len(births)]
    return np.append(times, np.full(len(births) - len(times), ends[-1]))
