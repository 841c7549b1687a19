# SPDX-License-Identifier: Apache-2.0
"""Executes a planned step in one buffer.

Each tensor of the step is a view of the buffer at its planned offset. An operator writes its
results there through its out= variant. Some operators of PyTorch have none: their results are
computed in memory of PyTorch, then copied; `outside_bytes` has the most that one node needs so.
Memory that an operator allocates and frees inside its kernel is not visible here.
"""

from __future__ import annotations

import operator
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import torch
from torch.fx import Node
from torch.fx.node import map_arg
from vmcu_lab.placement.graphs import GraphPlan

from .graph import StepGraph
from .refusals import one_error, refuse
from .schema import OUTPUT_ARGUMENTS, aliased, is_view, out_variant, span_bytes
from .trace import TracedStep

aten = torch.ops.aten
UNINITIALISED = (
    *(aten.empty.memory_format, aten.empty_like.default, aten.empty_strided.default),
    *(aten.new_empty.default, aten.new_empty_strided.default),
)
COPIES = (aten.clone.default, aten._to_copy.default)

GradientHook = Callable[[str, torch.Tensor], None]
Function = Callable[..., Any]


def view_at(buffer: torch.Tensor, offset: int, sample: torch.Tensor) -> torch.Tensor:
    """The bytes from an offset on as a tensor of the sample's layout. buffer: of uint8.

    Its storage begins at the offset and ends with the tensor: as_strided() counts from there, and
    torch.save() writes no other bytes.
    """
    piece = torch.from_numpy(buffer.numpy()[offset : offset + span_bytes(sample)])
    return piece.view(sample.dtype).as_strided(sample.shape, sample.stride())


def is_outside(node: Node) -> bool:
    """Whether a node's results are computed outside of the buffer."""
    target = node.target
    return not (
        is_view(node)
        or aliased(node)
        or target in (*UNINITIALISED, *COPIES)
        or not tensors_of(node)
        or out_variant(target)
    )


def tensors_of(node: Node) -> list[torch.Tensor]:
    """The tensors among a node's results, without data."""
    value = node.meta.get("val")
    values = value if isinstance(value, (tuple, list)) else [value]
    return [one for one in values if isinstance(one, torch.Tensor)]


def outside_bytes(step: TracedStep) -> int:
    """The most bytes of results that one node computes outside of the buffer."""
    calls = (node for node in step.graph.nodes if node.op == "call_function")
    nodes = filter(is_outside, calls)
    return max((sum(map(span_bytes, tensors_of(node))) for node in nodes), default=0)


@dataclass(frozen=True)
class Place:
    """The results of a node: views of the buffer, None where it has no result."""

    node: str
    views: tuple[torch.Tensor | None, ...]
    is_tuple: bool

    @property
    def value(self) -> Any:
        """The node's value."""
        return self.views if self.is_tuple else self.views[0]


class Execution:
    """A step in a buffer: a tensor of uint8 with plan.height bytes at least."""

    def __init__(
        self, step: TracedStep, graph: StepGraph, plan: GraphPlan, buffer: torch.Tensor
    ) -> None:
        assert plan.offsets is not None
        self.step, self.samples = step, graph.samples
        self.views = {
            name: view_at(buffer, plan.offsets[name], sample)
            for name, sample in graph.samples.items()
        }
        nodes = {node.name: node for node in step.graph.nodes}
        self.calls = [self.call(nodes[name], graph) for name in plan.order]
        self.fixed: dict[Node, Any] = {node: self.views[name] for name, node in step.nodes.items()}
        self.written = {name for node in graph.nodes for name in node.get("writes", ())}
        self.hooks: dict[Node, list[str]] = {}
        for name, node in step.gradients.items():
            self.hooks.setdefault(maker(node), []).append(name)

    def call(self, node: Node, graph: StepGraph) -> tuple[Node, Function]:
        """A node, and the function of its arguments that returns its value."""
        target: Any = node.target
        if torch.Tag.inplace_view in getattr(target, "tags", ()):
            # The view in the buffer keeps its shape.
            return node, lambda tensor, *args: target(tensor.detach(), *args)
        if aliased(node) or not tensors_of(node):
            return node, target
        memory = graph.memory[node]
        names = memory if isinstance(memory, list) else [memory]
        views = tuple(self.views[name] if name else None for name in names)
        return node, function_of(target, Place(node.name, views, isinstance(memory, list)))

    def bind(self) -> None:
        """Moves the user's tensors into the buffer. They stay there: those of a former step are
        not copied."""
        for one in self.step.states:
            view = self.views[one.name]
            if one.tensor.data_ptr() != view.data_ptr():
                one.tensor.data = view.copy_(one.tensor.detach())

    def run(
        self,
        inputs: Sequence[torch.Tensor],
        rates: Sequence[float],
        on_gradient: GradientHook | None = None,
    ) -> torch.Tensor:
        """Executes the step and returns a copy of the loss. Copies tensors that are not the
        step's own into the buffer, and back those that it writes."""
        copied = [(one.name, one.tensor) for one in self.step.outside]
        copied += zip((one.name for one in self.step.inputs), inputs, strict=True)
        # The casts of autocast are nodes.
        with torch.no_grad(), torch.autocast("cpu", enabled=False):
            for name, value in copied:
                self.views[name].copy_(value)
            for one, rate in zip(self.step.rates, rates, strict=True):
                self.views[one.name].fill_(rate)
            loss = self.compute(on_gradient)
            for name, value in copied:
                if name in self.written:
                    value.copy_(self.views[name])
        return loss

    def compute(self, on_gradient: GradientHook | None) -> torch.Tensor:
        """Executes the operators and returns a copy of the loss."""
        values = dict(self.fixed)
        for node, function in self.calls:
            args, kwargs = map_arg((node.args, node.kwargs), lambda n: evaluated(n, values))
            with one_error(node.name, str(node.target)):
                values[node] = function(*args, **kwargs)
            if on_gradient:
                for name in self.hooks.get(node, ()):
                    on_gradient(name, evaluated(self.step.gradients[name], values))
        loss: torch.Tensor = evaluated(self.step.loss, values)
        return loss.clone()


def evaluated(node: Node, values: dict[Node, Any]) -> Any:
    """The value of a node that was executed, or of a view of one, or of arithmetic."""
    if node not in values:
        target: Any = node.target
        args, kwargs = map_arg((node.args, node.kwargs), lambda n: evaluated(n, values))
        values[node] = target(*args, **kwargs)
    return values[node]


def maker(node: Node) -> Node:
    """The node whose result a node is a view of."""
    while is_view(node):
        base = node.args[0] if node.target is operator.getitem else aliased(node)
        assert isinstance(base, Node)
        node = base
    return node


def function_of(target: Any, place: Place) -> Function:
    """An operator as a function that puts its results into the buffer and returns them."""
    if target in UNINITIALISED:
        return lambda *args, **kwargs: place.value
    if target in COPIES:
        return lambda source, **kwargs: copied(source, place, str(target))
    variant = out_variant(target)
    if variant is None:
        return lambda *args, **kwargs: copied(target(*args, **kwargs), place, str(target))
    overload, names = variant
    outs = dict(zip(names, place.views, strict=True))
    dropped = OUTPUT_ARGUMENTS - {argument.name for argument in overload._schema.arguments}

    def call(*args: Any, **kwargs: Any) -> Any:
        used = {name: value for name, value in kwargs.items() if name not in dropped}
        overload(*args, **used, **outs)
        return place.value

    return call


def copied(results: Any, place: Place, op: str) -> Any:
    """Copies results into the buffer and returns them there. UserError if PyTorch's fake operator
    has announced others."""
    for view, result in zip(place.views, results if place.is_tuple else [results], strict=True):
        if view is None:
            continue
        if result is None or result.shape != view.shape:
            reason = "the operator returns another shape than its fake tensor"
            remedy = "plan and execute under torch.backends.mkldnn.flags(enabled=False)"
            refuse(reason, remedy, place.node, op)
        view.copy_(result)
    return place.value
