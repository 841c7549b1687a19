# SPDX-License-Identifier: Apache-2.0
"""A stream of rows through a plan that keeps what the next hop needs."""

from __future__ import annotations

import numpy as np

from ..errors import Problem, UserError
from ..graph import Shape
from ..machine.mcu import VirtualMcu
from ..plan.plan import Plan
from ..planner.stages.endless import over
from .base import Runner
from .compiled import CompiledRunner
from .virtual import VirtualRunner


def streamed(runner: Runner, plan: Plan, rows: np.ndarray) -> np.ndarray:
    """The answers to rows int8 (rows, W, C) that are pushed one by one, int8 (hops, H, W, C). Raises
    UserError for a target that takes no streams."""
    if isinstance(runner, CompiledRunner):
        return runner.run_stream(plan, rows)
    if isinstance(runner, VirtualRunner):
        return _virtual(plan, rows)
    raise UserError(Problem(f"'{runner.name}' runs no models with --hop", "choose host or qemu:m4"))


def answer_of(plan: Plan) -> Shape:
    """Rows, columns and channels of an answer."""
    port = plan.graph.outputs[0]
    return plan.graph.at_once(port), *plan.graph.tensors[port.tensor].shape[1:]


def _virtual(plan: Plan, rows: np.ndarray) -> np.ndarray:
    source = plan.graph.inputs[0].tensor
    hops = (len(rows) - plan.model.tensors[source].shape[0]) // plan.graph.hop + 1
    whole = over(plan, plan.graph.hop, hops)
    given = rows[: whole.graph.tensors[source].shape[0]]
    found = np.asarray(VirtualMcu(whole).run([given])[plan.graph.outputs[0].tensor])
    return found.reshape(-1, *answer_of(plan))
