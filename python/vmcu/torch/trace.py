# SPDX-License-Identifier: Apache-2.0
"""A training step of PyTorch as an FX graph of ATen operators.

Input: a model, its inputs, its loss and its optimiser. Output: TracedStep. Nothing is computed: the
step runs on fake tensors, so a model that is itself made of fake tensors needs no memory. The graph
has the in-place operators of the step, in the order in which PyTorch executes them.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Sequence
from contextlib import nullcontext
from dataclasses import dataclass, field
from typing import Any

import torch
from torch._subclasses.fake_tensor import FakeTensor, FakeTensorMode
from torch.func import functional_call
from torch.fx import Graph, GraphModule, Node
from torch.fx.experimental.proxy_tensor import make_fx
from torch.fx.experimental.symbolic_shapes import ShapeEnv

from .refusals import OutsideTensors, one_error, refuse, refuse_hooks, refuse_outside, refuse_shared
from .schema import StepTensor, is_effect
from .settings import changed_name, numbers_of

# The end of the profiler's mark around the optimiser's step.
EXIT: Any = torch.ops.profiler._record_function_exit._RecordFunction

LAYER_NORM_BACKWARD: Any = torch.ops.aten.native_layer_norm_backward.default

Loss = Callable[..., torch.Tensor]


@dataclass(frozen=True)
class TracedStep:
    """A step as a graph. `states`: parameters, buffers, optimiser state; `rates`: a learning rate
    per group of parameters, float64; `inputs`: those of the loss; `outside`: other tensors that the
    step reads, such as those of other models; `nodes`: the nodes of all four, by name; `loss`: the
    node of the scalar; `gradients`: nodes by parameter."""

    graph: Graph
    states: tuple[StepTensor, ...]
    rates: tuple[StepTensor, ...]
    inputs: tuple[StepTensor, ...]
    outside: tuple[StepTensor, ...]
    nodes: dict[str, Node]
    loss: Node
    gradients: dict[str, Node]


def trace(
    model: torch.nn.Module,
    inputs: Sequence[torch.Tensor],
    loss: Loss,
    optimizer: torch.optim.Optimizer,
    clip_norm: float | None = None,
) -> TracedStep:
    """Traces one step: loss(model, *inputs), its gradients, optimizer.step().

    Creates the state of the optimiser that its first step would create. Raises UserError if the
    step cannot be planned.
    """
    parameters = dict(model.named_parameters())
    optimised = optimised_names(parameters, optimizer)
    refuse_hooks(parameters, optimizer)
    mode = FakeTensorMode(allow_non_fake_inputs=True, shape_env=ShapeEnv(allow_scalar_outputs=True))
    with one_error():
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
    step = Step(model, loss, optimizer, [s.name for s in (*states, *rates)], keys, clip_norm)
    with one_error():
        fakes = [faked(one.tensor, mode) for one in (*states, *rates, *given)]
        with mode, OutsideTensors():
            module = make_fx(step, {LAYER_NORM_BACKWARD: contiguous_first})(fakes)
    traced = traced_step(module, states, rates, given, step.found)
    refuse_outside(states, traced.outside)
    return traced


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
    clip_norm: float | None
    found: list[str] = field(default_factory=list)

    def __call__(self, tensors: list[torch.Tensor]) -> list[torch.Tensor]:
        """Returns the loss and the gradients."""
        own = dict(zip(self.names, tensors, strict=False))
        leaves = {
            name: own[f"model.{name}"].detach().requires_grad_(parameter.requires_grad)
            for name, parameter in self.model.named_parameters()
        }
        inputs = tensors[len(self.names) :]
        value, gradients = backward(self.model, self.loss, own, leaves, inputs)
        if self.clip_norm is not None and gradients:
            gradients = clipped(gradients, self.clip_norm)
        for name, gradient in gradients.items():
            leaves[name].grad = gradient
        self.update(own, leaves)
        self.found = list(gradients)
        return [value, *gradients.values()]

    def update(self, own: dict[str, torch.Tensor], leaves: dict[str, torch.Tensor]) -> None:
        """Executes the optimiser's step on the leaves."""
        kept = dict(self.model.named_parameters())
        optimizer = replica(self.optimizer, {kept[name]: leaf for name, leaf in leaves.items()})
        for number, group in enumerate(optimizer.param_groups):
            group["lr"] = own[f"rate {number}"].item()
        for label, (name, key) in self.keys.items():
            optimizer.state[leaves[name]][key] = own[label]
        optimizer.step()


def backward(
    model: torch.nn.Module,
    loss: Loss,
    own: dict[str, torch.Tensor],
    leaves: dict[str, torch.Tensor],
    inputs: Sequence[torch.Tensor],
) -> tuple[torch.Tensor, dict[str, torch.Tensor]]:
    """The loss and its gradients by parameter. own: the model's buffers; leaves: its parameters.

    The gradients are computed while the model has these tensors: checkpoints execute layers again.
    """
    trained = {name: leaf for name, leaf in leaves.items() if leaf.requires_grad}

    def values(*given: torch.Tensor) -> tuple[torch.Tensor, tuple[torch.Tensor | None, ...]]:
        value = loss(model, *given)
        if not isinstance(value, torch.Tensor) or value.numel() != 1:
            refuse("loss(model, *inputs) does not return a scalar")
        return value, torch.autograd.grad(value, list(trained.values()), allow_unused=True)

    holder = torch.nn.Module()
    holder.model, holder.forward = model, values
    buffers = {f"model.{name}": own[f"model.{name}"] for name, _ in model.named_buffers()}
    tensors = buffers | {f"model.{name}": leaf for name, leaf in leaves.items()}
    value, gradient_values = functional_call(holder, tensors, tuple(inputs))
    for name, buffer in buffers.items():
        if tensors[name] is not buffer:  # The model has assigned another tensor.
            buffer.copy_(tensors[name].detach())
    gradients = {
        name: accumulated(gradient, trained[name])
        for name, gradient in zip(trained, gradient_values, strict=True)
        if gradient is not None
    }
    return value, gradients


def clipped(gradients: dict[str, torch.Tensor], limit: float) -> dict[str, torch.Tensor]:
    """The gradients that torch.nn.utils.clip_grad_norm_() would leave."""
    # In eager mode PyTorch takes the foreach operators, which it does not for fake tensors.
    norm = torch.nn.utils.get_total_norm(gradients.values(), foreach=True)
    factor = torch.clamp(limit / (norm + 1e-6), max=1.0)
    return {name: gradient * factor for name, gradient in gradients.items()}


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
    twin = object.__new__(type(optimizer))
    vars(twin).update(vars(optimizer))
    # Schedulers of learning rates put a method there that is bound to the original.
    vars(twin).pop("step", None)
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
        remedy = "give a module that contains all parameters of the optimizer"
        refuse("the optimizer updates a tensor that is not a parameter of the model", remedy)
    return [names[parameter] for parameter in used]


def create_state(
    optimizer: torch.optim.Optimizer,
    parameters: dict[str, torch.nn.Parameter],
    mode: FakeTensorMode,
) -> None:
    """Creates the state that the optimiser's first step would create: zeros, which the rehearsal
    compares. UserError if a Python number changes in the step."""
    leaves = {p: faked(p, mode) for p in parameters.values() if p.requires_grad}
    with mode:
        twin = replica(optimizer, {p: leaves.get(p, p) for p in parameters.values()})
        for leaf in leaves.values():
            leaf.grad = torch.zeros_like(leaf)
        before = numbers_of(twin)
        twin.step()
        name = changed_name(before, numbers_of(twin))
    if name:
        refuse(f"the optimizer counts in '{name}'", "count in a tensor")
    for parameter, leaf in leaves.items():
        state = optimizer.state[parameter]
        for key, value in twin.state[leaf].items():
            if not isinstance(value, torch.Tensor) or isinstance(state.get(key), torch.Tensor):
                continue
            with mode if isinstance(parameter, FakeTensor) else nullcontext():
                layout = value.shape, value.stride()
                state[key] = torch.empty_strided(*layout, dtype=value.dtype).zero_()


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
        refuse("the learning rate is a tensor", "give a float")
    return [torch.tensor(g["lr"], dtype=torch.float64) for g in optimizer.param_groups]


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
    outside: dict[Node, StepTensor] = {}
    nodes: dict[int, Node] = {}
    for node in graph.find_nodes(op="get_attr"):
        tensor = getattr(module, str(node.target))
        first = nodes.setdefault(id(tensor), node)
        outside.setdefault(first, StepTensor(first.name, tensor))
        if node is not first:
            node.replace_all_uses_with(first)
            graph.erase_node(node)
    given = (*states, *rates, *inputs, *outside.values())
    placeholders = (*graph.find_nodes(op="placeholder"), *outside)
    results: Any = graph.output_node().args[0]
    loss, *gradients = results
    return TracedStep(
        graph,
        tuple(states),
        tuple(rates),
        tuple(inputs),
        tuple(outside.values()),
        {one.name: node for one, node in zip(given, placeholders, strict=True)},
        loss,
        dict(zip(trained, gradients, strict=True)),
    )
