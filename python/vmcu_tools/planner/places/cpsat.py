# SPDX-License-Identifier: Apache-2.0
"""OR-tools' CP-SAT, the same way everywhere: one worker and a limit on work instead of time, so
that the same model gives the same answer on every machine; and an interrupt is one."""

from __future__ import annotations

import functools
import importlib.util
import sys
from concurrent.futures import ThreadPoolExecutor
from typing import TYPE_CHECKING

from ...errors import pip_line

if TYPE_CHECKING:
    # Takes a while, and many networks need no solver.
    from .constraints import cp_model


@functools.cache
def can_solve() -> bool:
    """Whether OR-tools is installed; prints a note, once a process, if it is not.

    Planners then use what they found without a solver.
    """
    if importlib.util.find_spec("ortools") is not None:
        return True
    note = "planned without the constraint solver, which may find a smaller pool"
    print(f"note: {note}. hint: {pip_line('ortools', 'solver')}", file=sys.stderr)
    return False


def new_solver(effort: float) -> cp_model.CpSolver:
    """A solver with so much effort, in its own deterministic seconds."""
    from .constraints import cp_model

    solver = cp_model.CpSolver()
    solver.parameters.num_workers = 1
    solver.parameters.random_seed = 1
    solver.parameters.max_deterministic_time = effort
    # Its own handler allocates memory, which may never return, goes on with less effort than was
    # given, and takes Python's handler away.
    solver.parameters.catch_sigint_signal = False
    return solver


def solved(
    solver: cp_model.CpSolver,
    model: cp_model.CpModel,
    callback: cp_model.CpSolverSolutionCallback | None = None,
) -> bool:
    """True if a solution was found, which the solver has then; Ctrl-C ends the search.

    It runs in a thread of its own, for the main one sees no signal while it is in C++.
    """
    from .constraints import cp_model

    with ThreadPoolExecutor(1) as thread:
        search = thread.submit(solver.solve, model, callback)
        try:
            return search.result() in (cp_model.OPTIMAL, cp_model.FEASIBLE)
        except KeyboardInterrupt:
            solver.stop_search()
            raise
