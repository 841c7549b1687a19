# SPDX-License-Identifier: Apache-2.0
"""Offsets for buffers with given lifetimes and sizes, in as few bytes as possible.

    place(problem) -> Allocation

Nothing here knows of networks or needs the rest of vmcu. By module:

    problem, complaints, files   buffers and their check, errors, CSV
    bounds                       lower bounds
    best_fit, skyline            first placements
    search, valleys              branch and bound within a height
    ejection, blocks             for many buffers
    portfolio, workers, child    which searches are made, and in which processes
    first_fit                    buffers with gaps or given offsets
    memories                     several memories
    tasks, ordering/             graphs whose execution order is open
    graph_files, graphs          order and offsets: JSON, the search
    program, dataflow            MODeL's integer program for both
    checker                      checks plans, usable alone
    params                       PlacementParams: every technique and limit
"""

from __future__ import annotations

import time
from collections.abc import Callable

from .bounds import lower_bound
from .complaints import InputError, refuse
from .first_fit import FirstFitSearch, FixedOffsetError
from .params import DEFAULT_PLACEMENT, PlacementParams
from .portfolio import Component, components_of
from .problem import Allocation, Buffer, Gap, Instance, PlacementError, check
from .workers import Workers

__all__ = [
    "Allocation",
    "Buffer",
    "Gap",
    "InputError",
    "Instance",
    "PlacementError",
    "PlacementParams",
    "check",
    "place",
]

# With the work before and after it, a search by default stays below a minute.
SECONDS = 50.0

Watch = Callable[[int, int], None]


def place(
    problem: Instance,
    capacity: int | None = None,
    seconds: float = SECONDS,
    workers: int | None = None,
    watch: Watch = lambda bound, height: None,
    keep: bool = False,
    params: PlacementParams = DEFAULT_PLACEMENT,
) -> Allocation:
    """The lowest placement found within `seconds`, checked.

    With a capacity, the search is also over once it is proven not to suffice. `workers`: processes
    to search in, one per core if None; their number does not change the result. `watch` is told
    bound and height as they get better. `keep`: an interruption (KeyboardInterrupt) ends the search
    with the lowest placement so far.

    The same problem gives the same offsets, unless time runs out: then it depends on how far the
    search has come.
    """
    if any(buffer.is_rigid for buffer in problem.buffers):
        return place_rigid(problem, seconds, watch, params)
    start = time.monotonic()
    buffers = [buffer for buffer in problem.buffers if buffer.size]
    groups = enumerate(components_of(buffers))
    components = [Component(number, group, params) for number, group in groups]
    # The check takes about half as long as the search up to here.
    reserve = (time.monotonic() - start) / 2
    interrupted = False
    try:
        improve(components, capacity, start + seconds - reserve, workers, watch)
    except KeyboardInterrupt:
        if not keep:
            raise
        interrupted = True
    offsets = {buffer.id: 0 for buffer in problem.buffers}
    for component in components:
        for buffer, offset in zip(component.buffers, component.offsets, strict=True):
            offsets[buffer.id] = offset
    height = check(problem, offsets)
    bound = min(height, bound_of(components))
    return Allocation(offsets, height, bound, time.monotonic() - start, interrupted)


def place_rigid(
    problem: Instance, seconds: float, watch: Watch, params: PlacementParams
) -> Allocation:
    """Works as place() does, for buffers with gaps or given offsets; InputError if two of the
    latter share bytes."""
    start = time.monotonic()
    try:
        search = FirstFitSearch(problem.buffers, params)
    except FixedOffsetError as error:
        raise refuse(problem.origin, str(error), "give one of them another offset") from error
    bound = lower_bound(problem.buffers)
    offsets, _ = search.run(bound, start + seconds, watch)
    by_id = {buffer.id: offset for buffer, offset in zip(problem.buffers, offsets, strict=True)}
    height = check(problem, by_id)
    return Allocation(by_id, height, min(bound, height), time.monotonic() - start)


def improve(
    components: list[Component],
    capacity: int | None,
    deadline: float,
    workers: int | None,
    watch: Watch,
) -> None:
    """Searches, the highest component first, until all are as low as the highest bound."""
    for component in sorted(components, key=lambda component: -component.height):
        component.begin(deadline)
    geometries = [component.geometry for component in components]
    with Workers(geometries, deadline, workers) as pool:
        while time.monotonic() < deadline:
            bound = bound_of(components)
            height = max((component.height for component in components), default=0)
            watch(bound, height)
            if height <= bound or (capacity is not None and bound > capacity):
                return
            component = max(components, key=lambda component: component.height)
            if (component.rounds or component.is_large) and not component.looked_for_blocks:
                blocks = component.add_blocks(len(geometries), deadline)
                if blocks is not None:
                    geometries.append(blocks.geometry)
                continue
            is_short = component.rounds == 0 and not component.is_large
            attempts = component.batch(bound)
            if not attempts:
                return
            outcomes = pool.solve_here(attempts) if is_short else pool.solve(attempts)
            for attempt, outcome in zip(attempts, outcomes, strict=True):
                component.learn(attempt, outcome)


def bound_of(components: list[Component]) -> int:
    """Bytes below which no allocation of some component can end."""
    return max((component.bound for component in components), default=0)
