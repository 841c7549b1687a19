# SPDX-License-Identifier: Apache-2.0
"""Segment overlap with a direction for each layer: the pool of the worst step, without wraps.

Of two pools the smaller wins, then the one that wraps less: a linear pool is tried first at every
size.
"""

from __future__ import annotations

from ..graph import Graph
from ..plan import Plan
from .walk import Search, plan_of, sizes_from, tasks_of


def plan(graph: Graph) -> Plan:
    """The smallest pool found, in the file's order of nodes."""
    free, ascending = tasks_of(graph, both_ways=True), tasks_of(graph, both_ways=False)
    bound = max(task.bound() for task in free)
    for size in sizes_from(bound):
        for tasks, wraps in ((free, False), (free, True), (ascending, True)):
            search = Search(tasks, size, wraps)
            if search.run():
                return plan_of("vmcu", graph, search, bound)
    raise AssertionError("sizes_from() does not end")
