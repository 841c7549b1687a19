# SPDX-License-Identifier: Apache-2.0
"""Placing a layout's tensors in the smallest pool, by order, directions and overlap.

In the layout's order a walk that places each tensor against its neighbours (walk.py) tries to fit
everything into the worst step's bytes; for chains it does. Where branches stand in its way, the
constraint solver takes over (solve.py). Of two pools the smaller wins, then the one that wraps
less: a linear pool is tried first.
"""

from __future__ import annotations

from ..graph import Graph
from ..plan import Plan
from .layout import Layout
from .order import reordered
from .solve import Model, most_of
from .tasks import Task, tasks_of
from .walk import Search, plan_of


def plan(graph: Graph, seconds: float) -> Plan:
    """The smallest pool found for layers one by one, in the order whose worst step is smallest."""
    return place("vmcu", Layout.singles(reordered(graph)), seconds)


def place(planner: str, layout: Layout, seconds: float) -> Plan:
    """The smallest pool found for a layout.

    `seconds` bounds the constraint solver, in its deterministic measure of time: about so many on
    a desktop computer, and the same outcome on every machine.
    """
    return walked(planner, layout) or packed(planner, layout, seconds)


def packed(planner: str, layout: Layout, seconds: float) -> Plan:
    """The constraint solver's plan."""
    free = tasks_of(layout, both_ways=True)
    bound = max(task.bound() for task in free)
    return plan_of(planner, layout, *solved(free, bound, seconds))


def walked(planner: str, layout: Layout) -> Plan | None:
    """A plan in no more than the worst step's bytes, if the walk finds one."""
    free, ascending = tasks_of(layout, both_ways=True), tasks_of(layout, both_ways=False)
    bound = max(task.bound() for task in free)
    for tasks, wraps in ((free, False), (free, True), (ascending, True)):
        search = Search(tasks, bound, wraps)
        if search.run():
            return plan_of(planner, layout, search, bound)
    return None


def least(plan: Plan) -> int:
    """The bytes of the worst step of a plan's order, below which no placement of layers one by one
    can go."""
    return max(task.bound() for task in tasks_of(plan.graph, both_ways=True))


def solved(tasks: list[Task], bound: int, seconds: float) -> tuple[Search, int]:
    """The solver's placement as a finished search, and the bound it proved."""
    solution = Model(tasks, bound, most_of(tasks)).solve(seconds)
    if solution is None:
        # Never without time for a first solution: side by side is one.
        raise AssertionError("the solver found no placement")
    search = Search(tasks, solution.pool, False)
    search.bases, search.descending = solution.bases, solution.descending
    search.scratch = solution.scratch
    return search, max(bound, solution.bound)
