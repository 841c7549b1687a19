# SPDX-License-Identifier: Apache-2.0
"""Plans a training step of PyTorch: execution order and offsets in one buffer.

Input: a model, its inputs, its loss and its optimiser. Output: StepPlan.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from functools import cached_property

import torch
from vmcu_tools.errors import Problem, UserError
from vmcu_tools.placement import caching_allocator, graphs
from vmcu_tools.placement.graph_files import NamedGraph
from vmcu_tools.placement.graphs import GraphPlan
from vmcu_tools.placement.tasks import usage

from .execution import Execution, GradientHook, outside_bytes
from .graph import StepGraph, step_graph
from .trace import Loss, TracedStep, trace


@dataclass(frozen=True)
class StepFigures:
    """Bytes of a training step. `alive`: at the peak of PyTorch's order; `reserved`: by PyTorch's
    caching allocator in that order; `peak`: alive at the peak of the planned order; `height`: of
    the buffer; `bound`: that no order needs less than; `outside`: the most that one operator
    without an out= variant computes outside of the buffer."""

    nodes: int
    alive: int
    reserved: int
    peak: int
    height: int
    bound: int
    outside: int
    seconds: float

    def __str__(self) -> str:
        rows = (
            ("alive at the peak, PyTorch's order", self.alive),
            (f"caching allocator of PyTorch {caching_allocator.VERSION}, replayed", self.reserved),
            ("alive at the peak, planned order", self.peak),
            ("buffer", self.height),
            ("lower bound of all orders", self.bound),
            ("outside of the buffer, at most", self.outside),
        )
        lines = [f"{name:<42}{size:>16,} bytes" for name, size in rows]
        return "\n".join([f"{self.nodes:,} nodes, planned in {self.seconds:.1f} s", *lines])


@dataclass
class StepPlan:
    """A planned step. `figures`: its bytes; `plan`: order and offsets; `graph`: the step in the
    format of `vmcu place --graph`."""

    step: TracedStep
    graph: StepGraph
    plan: GraphPlan
    figures: StepFigures
    optimizer: torch.optim.Optimizer
    settings: str = field(init=False)

    def __post_init__(self) -> None:
        self.settings = settings_of(self.optimizer)

    @cached_property
    def buffer(self) -> torch.Tensor:
        """The memory of the step, uint8. The first run allocates it."""
        return torch.empty(self.plan.height, dtype=torch.uint8)

    @cached_property
    def execution(self) -> Execution:
        """The step in its buffer."""
        return Execution(self.step, self.graph, self.plan, self.buffer)

    def run(self, *inputs: torch.Tensor, on_gradient: GradientHook | None = None) -> torch.Tensor:
        """Executes one step and returns the loss.

        inputs: of the planned shapes and types; those of the plan if none are given. on_gradient:
        called with the name of a parameter and its gradient, which is valid during the call only.
        Parameters, buffers and optimiser state move into the buffer and are updated there. Raises
        UserError if inputs or settings of the optimiser differ from the plan.
        """
        values = inputs or tuple(one.tensor for one in self.step.inputs)
        self.check(values)
        rates = [group["lr"] for group in self.optimizer.param_groups]
        # Schedulers warn if nobody has called optimizer.step().
        vars(self.optimizer)["_opt_called"] = True
        return self.execution.run(values, rates, on_gradient)

    def check(self, inputs: Sequence[torch.Tensor]) -> None:
        """Raises UserError if a step with these inputs is not the planned one."""
        planned = [(one.tensor.shape, one.tensor.dtype) for one in self.step.inputs]
        if [(value.shape, value.dtype) for value in inputs] != planned:
            shapes = ", ".join(f"{tuple(shape)} of {dtype}" for shape, dtype in planned)
            raise UserError(Problem("the inputs differ from the planned ones", f"give {shapes}"))
        if settings_of(self.optimizer) != self.settings:
            raise UserError(
                Problem(
                    "the settings of the optimizer have changed", "call vmcu.torch.plan() again"
                )
            )

    def report(self) -> str:
        """The figures as text."""
        return str(self.figures)


def settings_of(optimizer: torch.optim.Optimizer) -> str:
    """The settings that are constants of a plan: all but the learning rates."""
    others = ("params", "lr", "initial_lr")
    return repr(
        [{k: v for k, v in group.items() if k not in others} for group in optimizer.param_groups]
    )


def plan(
    model: torch.nn.Module,
    inputs: torch.Tensor | Sequence[torch.Tensor],
    loss: Loss,
    optimizer: torch.optim.Optimizer,
    seconds: float | None = None,
) -> StepPlan:
    """Plans one training step: loss(model, *inputs), its gradients, optimizer.step().

    inputs: a tensor or several, which set the shapes. loss: returns a scalar. seconds: a limit for
    the search; without one, the order is the same on every machine. Computes nothing. Raises
    UserError if the step cannot be planned.
    """
    given = (inputs,) if isinstance(inputs, torch.Tensor) else tuple(inputs)
    step = trace(model, given, loss, optimizer)
    graph = step_graph(step)
    named = graphs.parse(graph.data)
    found = graphs.solve(named, seconds)
    return StepPlan(step, graph, found, figures_of(step, named, found), optimizer)


def figures_of(step: TracedStep, named: NamedGraph, found: GraphPlan) -> StepFigures:
    """The bytes of a step before and after planning."""
    order = named.tasks.topological()
    instance = graphs.instance_of(named, order)
    return StepFigures(
        len(named.nodes),
        usage(named.tasks, order).peak,
        caching_allocator.replay(instance).reserved,
        found.peak,
        found.height,
        found.bound,
        outside_bytes(step),
        found.seconds,
    )
