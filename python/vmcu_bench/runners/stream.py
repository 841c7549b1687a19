# SPDX-License-Identifier: Apache-2.0
"""A stream of rows through a plan that keeps its state from hop to hop."""

from __future__ import annotations

import numpy as np
from vmcu_tools.errors import Problem, UserError
from vmcu_tools.machine.mcu import VirtualMcu
from vmcu_tools.plan.plan import Plan
from vmcu_tools.planner.stages.unbounded import hops_in, over_rows

from .base import Runner
from .compiled import CompiledRunner
from .virtual import VirtualRunner
from .zephyr import ZephyrRunner


def streamed(runner: Runner, plan: Plan, rows: np.ndarray) -> np.ndarray:
    """The answers to rows int8 (rows, W, C) that are pushed one by one, int8 (hops, bytes), outputs
    one behind the other. Raises UserError for a target that takes no streams."""
    if isinstance(runner, CompiledRunner | ZephyrRunner):
        return runner.run_stream(plan, rows)
    if isinstance(runner, VirtualRunner):
        return _virtual(plan, rows)
    raise UserError(Problem(f"'{runner.name}' does not run models with --hop", "leave out --on"))


def _virtual(plan: Plan, rows: np.ndarray) -> np.ndarray:
    whole, given = over_rows(plan, rows)
    results = VirtualMcu(whole).run([given])
    hops, ports = hops_in(plan, len(rows)), plan.graph.outputs
    return np.hstack([np.asarray(results[port.tensor]).reshape(hops, -1) for port in ports])
