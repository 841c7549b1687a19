# SPDX-License-Identifier: Apache-2.0
"""Plans a training step of PyTorch: execution order and offsets in one buffer.

Input: a model, its inputs, its loss and its optimiser. Output: StepPlan.
"""

from __future__ import annotations

import random
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from functools import cached_property

import numpy as np
import torch
from torch._subclasses.fake_tensor import FakeTensor
from vmcu_lab.placement import caching_allocator, graphs
from vmcu_lab.placement.graph_files import NamedGraph
from vmcu_lab.placement.graphs import GraphPlan
from vmcu_tools.ordering.tasks import usage

from .execution import Execution, GradientHook, outside_bytes
from .graph import StepGraph, step_graph
from .refusals import one_error, refuse
from .rehearsal import Reference, rehearse
from .schema import layout
from .settings import Settings, changed_name, settings_of
from .trace import Loss, TracedStep, optimised_names, rates_of, trace


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
    model: torch.nn.Module
    loss: Loss
    optimizer: torch.optim.Optimizer
    settings: Settings = field(init=False)

    def __post_init__(self) -> None:
        self.settings = self.current_settings()

    @cached_property
    def buffer(self) -> torch.Tensor:
        """The memory of the step, uint8."""
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
        UserError if inputs, or Python values that the step depends on, differ from the plan.
        """
        values = inputs or tuple(one.tensor for one in self.step.inputs)
        self.check(values)
        rates = [rate.item() for rate in rates_of(self.optimizer)]
        # Schedulers warn if nobody has called optimizer.step().
        vars(self.optimizer)["_opt_called"] = True
        self.execution.bind()
        return self.execution.run(values, rates, on_gradient)

    def current_settings(self) -> Settings:
        """The Python values that are constants of the plan."""
        return settings_of(
            model=self.model,
            loss=self.loss,
            optimizer=self.optimizer.param_groups,
            state=list(self.optimizer.state.values()),
            mkldnn=torch.backends.mkldnn.enabled,
            autocast=torch.is_autocast_enabled("cpu"),
        )

    def check(self, inputs: Sequence[torch.Tensor]) -> None:
        """Raises UserError if a step with these inputs is not the planned one."""
        if list(map(layout, inputs)) != [layout(one.tensor) for one in self.step.inputs]:
            given = [(tuple(one.tensor.shape), one.tensor.dtype) for one in self.step.inputs]
            shapes = ", ".join(f"{shape} of {dtype}" for shape, dtype in given)
            refuse("the inputs differ from the planned ones", f"give {shapes}, contiguous")
        again = "call vmcu.torch.plan() again"
        for one in (*self.step.states, *self.step.outside):
            if layout(one.tensor) != layout(self.graph.samples[one.name]):
                refuse(f"'{one.name}' has another shape or type", again)
        name = changed_name(self.settings, self.current_settings())
        if name:
            refuse(f"'{name}' has changed since the plan", again)

    def report(self) -> str:
        """The figures as text."""
        return str(self.figures)


def plan(
    model: torch.nn.Module,
    inputs: torch.Tensor | Sequence[torch.Tensor],
    loss: Loss,
    optimizer: torch.optim.Optimizer,
    seconds: float | None = None,
    clip_norm: float | None = None,
    check: bool = True,
) -> StepPlan:
    """Plans one training step: loss(model, *inputs), its gradients, optimizer.step().

    inputs: a tensor or several, which set the shapes. loss: returns a scalar. seconds: a limit for
    the search; without one, the order is the same on every machine. clip_norm: clips the gradients
    as torch.nn.utils.clip_grad_norm_(model.parameters(), clip_norm). check: executes three steps of
    copies in PyTorch, then planned, unless tensors are fake. Raises UserError if the step cannot be
    planned, or these steps differ.
    """
    given = (inputs,) if isinstance(inputs, torch.Tensor) else tuple(inputs)
    is_fake = any(isinstance(one, FakeTensor) for one in (*given, *model.parameters()))
    with (
        one_error(),
        unchanged(model, loss, optimizer) as refuse_changes,
        torch.random.fork_rng(devices=[]),
    ):
        optimised_names(dict(model.named_parameters()), optimizer)
        reference = None if is_fake or not check else Reference(model, loss, optimizer, clip_norm)
        step = trace(model, given, loss, optimizer, clip_norm)
        refuse_changes()
        graph = step_graph(step)
        named = graphs.parse(graph.data)
        solved = graphs.solve(named, seconds)
        figures = figures_of(step, named, solved)
        planned = StepPlan(step, graph, solved, figures, model, loss, optimizer)
        if reference:
            rehearse(step, reference, lambda: planned.execution)
            refuse_changes()
    return planned


@contextmanager
def unchanged(
    model: torch.nn.Module, loss: Loss, optimizer: torch.optim.Optimizer
) -> Iterator[Callable[[], None]]:
    """Gives a function that raises UserError if Python values have changed, as a plan would not
    change them. Restores the model's attributes, and after an error the optimiser's state."""

    def current() -> Settings:
        drawn = repr(random.getstate()), repr(np.random.get_state(legacy=False))
        return settings_of(model=model, loss=loss, random_numbers=drawn)

    def check() -> None:
        name = changed_name(before, current())
        if name:
            remedy = "keep it in a buffer, draw random numbers with torch.rand()"
            refuse(f"the step changes '{name}', which a plan would not", remedy)

    before = current()
    attributes = [(vars(module), dict(vars(module))) for module in model.modules()]
    states = {parameter: dict(state) for parameter, state in optimizer.state.items()}
    try:
        yield check
    except BaseException:
        optimizer.state.clear()
        optimizer.state.update(states)
        raise
    finally:
        for own, values in attributes:
            own.clear()
            own.update(values)


def figures_of(step: TracedStep, named: NamedGraph, solved: GraphPlan) -> StepFigures:
    """The bytes of a step before and after planning."""
    order = named.tasks.topological()
    instance = graphs.instance_of(named, order)
    return StepFigures(
        len(named.nodes),
        usage(named.tasks, order).peak,
        caching_allocator.replay(instance).reserved,
        solved.peak,
        solved.height,
        solved.bound,
        outside_bytes(step),
        solved.seconds,
    )
