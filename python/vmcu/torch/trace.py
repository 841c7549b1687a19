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
from dataclasses import dataclass
from typing import Any

import torch
from torch._subclasses.fake_tensor import FakeTensor, FakeTensorMode
from torch.func import functional_call
from torch.fx import Graph, GraphModule, Node
from torch.fx.experimental.proxy_tensor import make_fx
from torch.fx.experimental.symbolic_shapes import ShapeEnv

from vmcu_tools.errors import Problem, UserError

from .schema import is_effect

# Optimisers whose state is all zeros before their first step.
ZERO_STATE = (torch.optim.SGD, torch.optim.Adam, torch.optim.RMSprop)

Loss = Callable[..., torch.Tensor]


@dataclass(frozen=True)
class StepTensor:
    """A tensor that exists before the step. `tensor`: the user's, which the step updates."""

    name: str
    tensor: torch.Tensor


@dataclass(frozen=True)
class TracedStep:
    """A step as a graph. `states`: parameters, buffers, optimiser state; `inputs`: those of the
    loss; `nodes`: the placeholders of both, by name; `loss`: the node of the scalar; `gradients`:
    nodes by parameter; `constants`: tensors of the code, by the name of their node."""

    graph: Graph
    states: tuple[StepTensor, ...]
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
    optimiser or a tensor does not allow a plan.
    """
    parameters = dict(model.named_parameters())
    states = [StepTensor(*item) for item in (*parameters.items(), *model.named_buffers())]
    optimised = optimised_names(parameters, optimizer)
    mode = FakeTensorMode(
        allow_non_fake_inputs=True, shape_env=ShapeEnv(allow_scalar_outputs=True)
    )
    create_state(optimizer, {name: parameters[name] for name in optimised}, mode)
    keys: list[tuple[str, str]] = []
    for name in optimised:
        for key, value in optimizer.state[parameters[name]].items():
            if isinstance(value, torch.Tensor):
                keys.append((name, key))
                states.append(StepTensor(f"{name}: {key}", value))
    given = [StepTensor(f"input {number}", value) for number, value in enumerate(inputs)]
    refuse_shared([*states, *given])
    step = Step(model, loss, optimizer, [s.name for s in states], keys)
    fakes = [faked(one.tensor, mode) for one in (*states, *given)]
    with mode:
        module = make_fx(step)(fakes)
    return traced_step(module, states, given, step.found)


@dataclass
class Step:
    """A step as a function of its tensors. `names`: of those that are no inputs of the loss, which
    follow; `keys`: parameter and key of each state of the optimiser, the last of them; `found`:
    the parameters that have gradients, in the order in which the function returns them."""

    model: torch.nn.Module
    loss: Loss
    optimizer: torch.optim.Optimizer
    names: list[str]
    keys: list[tuple[str, str]]

    def __post_init__(self) -> None:
        self.found: list[str] = []

    def __call__(self, tensors: list[torch.Tensor]) -> list[torch.Tensor]:
        """Returns the loss and the gradients."""
        states, inputs = tensors[: len(self.names)], tensors[len(self.names) :]
        own, kept = dict(zip(self.names, states, strict=True)), dict(self.model.named_parameters())
        leaves = {
            name: own[name].detach().requires_grad_(parameter.requires_grad)
            for name, parameter in kept.items()
        }
        buffers = {name: own[name] for name, _ in self.model.named_buffers()}
        holder = torch.nn.Module()
        holder.model = self.model
        holder.forward = lambda *values: self.loss(self.model, *values)
        used = {f"model.{name}": value for name, value in {**leaves, **buffers}.items()}
        value = functional_call(holder, used, tuple(inputs))
        trained = {name: leaf for name, leaf in leaves.items() if leaf.requires_grad}
        found = torch.autograd.grad(value, list(trained.values()), allow_unused=True)
        gradients = {n: g for n, g in zip(trained, found, strict=True) if g is not None}
        optimizer = replica(self.optimizer, {kept[name]: leaf for name, leaf in leaves.items()})
        for name, key in self.keys:
            optimizer.state[leaves[name]][key] = own[f"{name}: {key}"]
        for name, gradient in gradients.items():
            leaves[name].grad = gradient
        optimizer.step()
        self.found = list(gradients)
        return [value, *gradients.values()]


def replica(
    optimizer: torch.optim.Optimizer, leaves: dict[torch.nn.Parameter, torch.Tensor]
) -> torch.optim.Optimizer:
    """The optimiser for other parameters, without state."""
    twin = copy.copy(optimizer)
    twin.param_groups = [
        {**group, "params": [leaves[p] for p in group["params"]]} for group in optimizer.param_groups
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


def refuse_shared(tensors: Sequence[StepTensor]) -> None:
    """UserError if tensors are not on the CPU, or share memory."""
    owners: dict[int, str] = {}
    for one in tensors:
        if one.tensor.device.type != "cpu":
            raise UserError(
                Problem(f"'{one.name}' is on {one.tensor.device}", "move the model to the CPU")
            )
        if isinstance(one.tensor, FakeTensor) or not one.tensor.numel():
            continue
        other = owners.setdefault(one.tensor.data_ptr(), one.name)
        if other != one.name:
            reason = f"'{one.name}' and '{other}' share memory"
            raise UserError(Problem(reason, "give one of them a copy (clone())"))


def traced_step(
    module: GraphModule,
    states: list[StepTensor],
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
    names = [one.name for one in (*states, *inputs)]
    loss, *gradients = graph.output_node().args[0]
    constants = {
        node.name: getattr(module, str(node.target)) for node in graph.find_nodes(op="get_attr")
    }
    return TracedStep(
        graph,
        tuple(states),
        tuple(inputs),
        dict(zip(names, placeholders, strict=True)),
        loss,
        dict(zip(trained, gradients, strict=True)),
        constants,
    )


# Marks of the profiler around the optimiser's step.
EXIT: Any = torch.ops.profiler._record_function_exit._RecordFunction
