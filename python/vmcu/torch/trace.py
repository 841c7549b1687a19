# SPDX-License-Identifier: Apache-2.0
"""A training step of PyTorch as an FX graph of ATen operators.

Input: a model, its inputs, its loss and its optimiser. Output: TracedStep. Nothing is computed: the
step runs on fake tensors, so a model that is itself made of fake tensors needs no memory. The graph
has the in-place operators of the step, in the order in which PyTorch executes them.
"""

from __future__ import annotations

import copy
from collections import defaultdict
from collections.abc import Callable, Sequence
from contextlib import nullcontext
from dataclasses import dataclass, field
from itertools import pairwise
from typing import Any

import torch
from torch._subclasses.fake_tensor import (
    DynamicOutputShapeException,
    FakeTensor,
    FakeTensorMode,
)
from torch.func import functional_call
from torch.fx import Graph, GraphModule, Node
from torch.fx.experimental.proxy_tensor import make_fx
from torch.fx.experimental.symbolic_shapes import GuardOnDataDependentSymNode, ShapeEnv
from vmcu_tools.errors import Problem, UserError

from .schema import is_effect, span_bytes

# Optimisers whose state is all zeros before their first step.
ZERO_STATE = (torch.optim.SGD, torch.optim.Adam, torch.optim.RMSprop)

# The end of the profiler's mark around the optimiser's step.
EXIT: Any = torch.ops.profiler._record_function_exit._RecordFunction

LAYER_NORM_BACKWARD: Any = torch.ops.aten.native_layer_norm_backward.default

Loss = Callable[..., torch.Tensor]


@dataclass(frozen=True)
class StepTensor:
    """A tensor that exists before the step. `tensor`: the user's, which the step updates."""

    name: str
    tensor: torch.Tensor


@dataclass(frozen=True)
class TracedStep:
    """A step as a graph. `states`: parameters, buffers, optimiser state; `rates`: a learning rate
    per group of parameters, float64; `inputs`: those of the loss; `nodes`: the placeholders of all
    three, by name; `loss`: the node of the scalar; `gradients`: nodes by parameter; `constants`:
    tensors of the code, by the name of their node."""

    graph: Graph
    states: tuple[StepTensor, ...]
    rates: tuple[StepTensor, ...]
    inputs: tuple[StepTensor, ...]
    nodes: dict[str, Node]
    loss: Node
    gradients: dict[str, Node]
    constants: dict[str, torch.Tensor]


def trace(
    model: torch.nn.Module,
    inputs: Sequence[torch.Tensor],
    loss: Loss,
    optimizer: torch.optim.Optimizer,
) -> TracedStep:
    """Traces one step: loss(model, *inputs), its gradients, optimizer.step().

    Creates the state of the optimiser that its first step would create. Raises UserError if the
    step cannot be planned.
    """
    parameters = dict(model.named_parameters())
    optimised = optimised_names(parameters, optimizer)
    mode = FakeTensorMode(allow_non_fake_inputs=True, shape_env=ShapeEnv(allow_scalar_outputs=True))
    create_state(optimizer, {name: parameters[name] for name in optimised}, mode)
    keys = {
        f"model.{name}: {key}": (name, key)
        for name in optimised
        for key, value in optimizer.state[parameters[name]].items()
        if isinstance(value, torch.Tensor)
    }
    named = (*parameters.items(), *model.named_buffers())
    states = [StepTensor(f"model.{name}", tensor) for name, tensor in named]
    for label, (name, key) in keys.items():
        states.append(StepTensor(label, optimizer.state[parameters[name]][key]))
    refuse_shared(states)
    rates = [StepTensor(f"rate {n}", rate) for n, rate in enumerate(rates_of(optimizer))]
    given = [StepTensor(f"input {n}", value) for n, value in enumerate(inputs)]
    step = Step(model, loss, optimizer, [s.name for s in (*states, *rates)], keys)
    fakes = [faked(one.tensor, mode) for one in (*states, *rates, *given)]
    with mode:
        module = computed(step, fakes)
    return traced_step(module, states, rates, given, step.found)


def computed(step: Step, fakes: list[torch.Tensor]) -> GraphModule:
    """The module of a step. UserError if its operators depend on values of tensors."""
    try:
        return make_fx(step, {LAYER_NORM_BACKWARD: contiguous_first})(fakes)
    except (GuardOnDataDependentSymNode, DynamicOutputShapeException) as error:
        reason = f"the step depends on values of tensors: {str(error).splitlines()[0]}"
        raise UserError(Problem(reason, "use torch.where() instead of if and while")) from error


@dataclass
class Step:
    """A step as a function of its tensors. `names`: of those that are no inputs of the loss, which
    follow; `keys`: parameter and key of each state of the optimiser, by name; `found`: the
    parameters that have gradients, in the order in which the function returns them."""

    model: torch.nn.Module
    loss: Loss
    optimizer: torch.optim.Optimizer
    names: list[str]
    keys: dict[str, tuple[str, str]]
    found: list[str] = field(default_factory=list)

    def __call__(self, tensors: list[torch.Tensor]) -> list[torch.Tensor]:
        """Returns the loss and the gradients."""
        inputs = tensors[len(self.names) :]
        own = dict(zip(self.names, tensors, strict=False))
        leaves = {
            name: own[f"model.{name}"].detach().requires_grad_(parameter.requires_grad)
            for name, parameter in self.model.named_parameters()
        }
        value = self.value(own | {f"model.{n}": leaf for n, leaf in leaves.items()}, inputs)
        trained = {name: leaf for name, leaf in leaves.items() if leaf.requires_grad}
        found = torch.autograd.grad(value, list(trained.values()), allow_unused=True)
        gradients = {
            name: accumulated(gradient, trained[name])
            for name, gradient in zip(trained, found, strict=True)
            if gradient is not None
        }
        for name, gradient in gradients.items():
            leaves[name].grad = gradient
        self.update(own, leaves)
        self.found = list(gradients)
        return [value, *gradients.values()]

    def value(self, own: dict[str, torch.Tensor], inputs: list[torch.Tensor]) -> torch.Tensor:
        """The loss with other parameters and buffers. UserError if it is not a scalar."""
        holder = torch.nn.Module()
        holder.model = self.model
        holder.forward = lambda *values: self.loss(self.model, *values)
        names = [n for n, _ in (*holder.named_parameters(), *holder.named_buffers())]
        value = functional_call(holder, {name: own[name] for name in names}, tuple(inputs))
        if not isinstance(value, torch.Tensor) or value.numel() != 1:
            raise UserError(Problem("loss(model, *inputs) does not return a scalar"))
        return value

    def update(self, own: dict[str, torch.Tensor], leaves: dict[str, torch.Tensor]) -> None:
        """Executes the optimiser's step on the leaves."""
        kept = dict(self.model.named_parameters())
        optimizer = replica(self.optimizer, {kept[name]: leaf for name, leaf in leaves.items()})
        for number, group in enumerate(optimizer.param_groups):
            group["lr"] = own[f"rate {number}"].item()
        for label, (name, key) in self.keys.items():
            optimizer.state[leaves[name]][key] = own[label]
        optimizer.step()


def accumulated(gradient: torch.Tensor, leaf: torch.Tensor) -> torch.Tensor:
    """A gradient in the layout in which PyTorch accumulates it: that of its parameter."""
    pairs = zip(leaf.shape, gradient.stride(), leaf.stride(), strict=True)
    if all(size == 1 or own == wanted for size, own, wanted in pairs):
        return gradient
    return torch.empty_like(leaf).copy_(gradient)


def contiguous_first(grad: torch.Tensor, x: torch.Tensor, *others: Any) -> Any:
    """Normalisation on contiguous copies. The kernel makes them inside, and returns a contiguous
    tensor; the fake kernel of PyTorch 2.14 returns one of another layout."""
    if grad.is_contiguous() and x.is_contiguous():
        return NotImplemented
    return LAYER_NORM_BACKWARD(grad.contiguous(), x.contiguous(), *others)


def replica(
    optimizer: torch.optim.Optimizer, leaves: dict[torch.nn.Parameter, torch.Tensor]
) -> torch.optim.Optimizer:
    """The optimiser for other parameters, without state."""
    twin = copy.copy(optimizer)
    twin.param_groups = [
        {**group, "params": [leaves[p] for p in group["params"]]}
        for group in optimizer.param_groups
    ]
    twin.state = defaultdict(dict)
    return twin


def optimised_names(
    parameters: dict[str, torch.nn.Parameter], optimizer: torch.optim.Optimizer
) -> list[str]:
    """The parameters that the optimiser updates, in its order. UserError if one is not the
    model's."""
    names = {parameter: name for name, parameter in parameters.items()}
    used = [p for group in optimizer.param_groups for p in group["params"]]
    if any(parameter not in names for parameter in used):
        raise UserError(
            Problem(
                "the optimizer updates a tensor that is not a parameter of the model",
                "give a module that contains all parameters of the optimizer",
            )
        )
    return [names[parameter] for parameter in used]


def create_state(
    optimizer: torch.optim.Optimizer,
    parameters: dict[str, torch.nn.Parameter],
    mode: FakeTensorMode,
) -> None:
    """Creates the state that the optimiser's first step would create. UserError if its values
    before that step are not known to be zero."""
    leaves = {p: faked(p, mode) for p in parameters.values() if p.requires_grad}
    with mode:
        twin = replica(optimizer, {p: leaves.get(p, p) for p in parameters.values()})
        for leaf in leaves.values():
            leaf.grad = torch.zeros_like(leaf)
        twin.step()
    for parameter, leaf in leaves.items():
        state = optimizer.state[parameter]
        for key, value in twin.state[leaf].items():
            if not isinstance(value, torch.Tensor) or isinstance(state.get(key), torch.Tensor):
                continue
            damped = any(group.get("dampening") for group in optimizer.param_groups)
            if not isinstance(optimizer, ZERO_STATE) or damped:
                raise UserError(
                    Problem(
                        f"the first step of {type(optimizer).__name__} differs from the others",
                        "execute one step in PyTorch, then call vmcu.torch.plan()",
                    )
                )
            with mode if isinstance(parameter, FakeTensor) else nullcontext():
                state[key] = torch.zeros(value.shape, dtype=value.dtype)


def faked(tensor: torch.Tensor, mode: FakeTensorMode) -> torch.Tensor:
    """A tensor of the same layout without data."""
    if isinstance(tensor, FakeTensor):
        # A copied model of fake tensors has them of several modes.
        with mode:
            return torch.empty_strided(tensor.shape, tensor.stride(), dtype=tensor.dtype)
    return mode.from_tensor(tensor.detach(), static_shapes=True)


def rates_of(optimizer: torch.optim.Optimizer) -> list[torch.Tensor]:
    """The learning rate of each group. UserError if one is a tensor."""
    if any(isinstance(group["lr"], torch.Tensor) for group in optimizer.param_groups):
        raise UserError(Problem("the learning rate is a tensor", "give a float"))
    return [torch.tensor(g["lr"], dtype=torch.float64) for g in optimizer.param_groups]


def refuse_shared(states: Sequence[StepTensor]) -> None:
    """UserError if tensors are not on the CPU, or share memory."""
    for one in states:
        if one.tensor.device.type != "cpu":
            reason = f"'{one.name}' is on the device {one.tensor.device}"
            raise UserError(Problem(reason, "move the model to the CPU"))
    found = [one for one in states if not isinstance(one.tensor, FakeTensor)]
    found.sort(key=lambda one: one.tensor.data_ptr())
    for before, after in pairwise(one for one in found if one.tensor.numel()):
        if after.tensor.data_ptr() < before.tensor.data_ptr() + span_bytes(before.tensor):
            reason = f"'{before.name}' and '{after.name}' share memory"
            raise UserError(Problem(reason, "give one of them a copy (clone())"))


def traced_step(
    module: GraphModule,
    states: list[StepTensor],
    rates: list[StepTensor],
    inputs: list[StepTensor],
    trained: list[str],
) -> TracedStep:
    """The step of a traced module, without nodes that nothing needs."""
    graph = module.graph
    for node in reversed(list(graph.find_nodes(op="call_function", target=EXIT))):
        enter = node.args[0]
        graph.erase_node(node)
        graph.erase_node(enter)
    graph.eliminate_dead_code(is_effect)
    placeholders = graph.find_nodes(op="placeholder")
    names = [one.name for one in (*states, *rates, *inputs)]
    results: Any = graph.output_node().args[0]
    loss, *gradients = results
    constants = {
        node.name: getattr(module, str(node.target)) for node in graph.find_nodes(op="get_attr")
    }
    return TracedStep(
        graph,
        tuple(states),
        tuple(rates),
        tuple(inputs),
        dict(zip(names, placeholders, strict=True)),
        loss,
        dict(zip(trained, gradients, strict=True)),
        constants,
    )
