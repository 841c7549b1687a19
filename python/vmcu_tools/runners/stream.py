# SPDX-License-Identifier: Apache-2.0
"""A stream of rows through a plan that keeps what the next hop needs."""

from __future__ import annotations

import numpy as np

from ..errors import Problem, UserError
from ..machine.mcu import VirtualMcu
from ..plan.plan import Plan
from .base import Runner
from .compiled import CompiledRunner
from .virtual import VirtualRunner


def streamed(runner: Runner, plan: Plan, rows: np.ndarray) -> np.ndarray:
    """The answers to rows int8 (rows, W, C) that are pushed one by one, int8 (hops, W, C). Raises
    UserError for a target that takes no streams."""
    if isinstance(runner, CompiledRunner):
        return runner.run_stream(plan, rows)
    if isinstance(runner, VirtualRunner):
        return _virtual(plan, rows)
    raise UserError(Problem(f"'{runner.name}' runs no models with --hop", "choose host or qemu:m4"))


def _virtual(plan: Plan, rows: np.ndarray) -> np.ndarray:
    """By as many replays as the rows take, each of which begins empty: a replay has an end."""
    source, answer = (
        plan.graph.tensors[p[0].tensor] for p in (plan.graph.inputs, plan.graph.outputs)
    )
    window = plan.model.tensors[source.name].shape[0]
    hops, found = (len(rows) - window) // plan.graph.hop + 1, []
    machine = VirtualMcu(plan)
    for first in range(0, hops, answer.shape[0]):
        here = rows[first * plan.graph.hop :][: source.shape[0]]
        filled = np.zeros(source.shape, np.int8)
        filled[: len(here)] = here
        found.append(np.asarray(machine.run([filled])[answer.name]))
    return np.concatenate(found)[:hops]
