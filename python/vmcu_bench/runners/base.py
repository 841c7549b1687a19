# SPDX-License-Identifier: Apache-2.0
"""The interface of a target."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Protocol

import numpy as np
from vmcu_tools.errors import Problem, UserError
from vmcu_tools.plan.plan import Plan
from vmcu_tools.planner.stages.unbounded import hops_in


class RunnerError(Exception):
    """An image did not build or run as it should: a defect here, never of the user's model."""


class Runner(Protocol):
    """Something that runs plans."""

    @property
    def name(self) -> str: ...

    @property
    def summary(self) -> str: ...

    def programs(self) -> dict[str, str]:
        """Debian packages that building and running need, by a program of each."""
        ...

    def run(self, plan: Plan, samples: Sequence[Sequence[np.ndarray]]) -> list[list[np.ndarray]]:
        """int8 (H, W, C) of every graph output for every sample, in port order.

        Each sample holds one int8 array per graph input.
        """
        ...


def refuse_stream(plan: Plan) -> None:
    """Raises UserError for a plan that takes no inputs one by one, but rows without end."""
    if plan.graph.state.step_rows:
        reason = "the model keeps state from call to call and cannot run on single inputs"
        remedy = "`vmcu run`, `vmcu verify` and `vmcu bench` push rows without end"
        raise UserError(Problem(reason, remedy, plan.graph.origin))


def refuse_team(plan: Plan, target: str) -> None:
    """Raises UserError for a plan for two workers."""
    if plan.team is not None:
        reason = f"{target} does not run two workers"
        raise UserError(Problem(reason, "leave out --workers, or use --on host", plan.graph.origin))


def split_answers(data: bytes, plan: Plan, rows: int, target: str) -> np.ndarray:
    """int8 (hops, bytes), outputs one behind the other: the answers to a stream of so many rows, of
    a plan with a hop.

    Raises RunnerError if `target` has delivered too few or too many.
    """
    graph = plan.graph
    size = sum(graph.rows_at_once(p) * graph.tensors[p.tensor].row_bytes for p in graph.outputs)
    window = plan.model.tensors[plan.model.inputs[0].tensor].shape[0]
    hops = hops_in(plan, rows)
    answers = np.frombuffer(data, np.int8).reshape(-1, size)
    # A window whose last rows nobody reads is done before they come.
    if len(answers) < hops or (len(answers) - hops) * plan.graph.state.step_rows > window:
        raise RunnerError(f"{target}: {len(answers)} answers, not {hops}")
    return answers[:hops]


def sample_bytes(plan: Plan, samples: Sequence[Sequence[np.ndarray]]) -> bytes:
    """The inputs of all samples, each in port order."""
    tensors = [plan.graph.tensors[port.tensor] for port in plan.graph.inputs]
    data = bytearray()
    for sample in samples:
        for tensor, values in zip(tensors, sample, strict=True):
            data += np.asarray(values, np.int8).reshape(tensor.shape).tobytes()
    return bytes(data)


def split_outputs(data: bytes, plan: Plan, samples: int, target: str) -> list[list[np.ndarray]]:
    """Splits the outputs of all samples into Runner.run()'s results, each in port order.

    Raises RunnerError if `target` has delivered more or less than that.
    """
    tensors = [plan.graph.tensors[port.tensor] for port in plan.graph.outputs]
    expected = samples * sum(tensor.bytes for tensor in tensors)
    if len(data) != expected:
        raise RunnerError(f"{target}: {len(data)} bytes of output, not {expected}")
    values = np.frombuffer(data, np.int8)
    results: list[list[np.ndarray]] = []
    at = 0
    for _ in range(samples):
        outputs = []
        for tensor in tensors:
            outputs.append(values[at : at + tensor.bytes].reshape(tensor.shape))
            at += tensor.bytes
        results.append(outputs)
    return results
