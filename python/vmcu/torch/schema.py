# SPDX-License-Identifier: Apache-2.0
"""Tensors of a step, and the reads, writes and results of ATen's operators by their schema."""

from __future__ import annotations

import operator
from collections.abc import Iterator
from dataclasses import dataclass
from functools import cache
from typing import Any

import torch
from torch.fx import Node

aten = torch.ops.aten
# Arguments that an operator writes although its schema does not say so.
HIDDEN_WRITES: dict[Any, frozenset[str]] = {
    aten.native_batch_norm.default: frozenset(("running_mean", "running_var"))
}
# Arguments that choose an output tensor, and that its out= variant does not have.
OUTPUT_ARGUMENTS = frozenset(("dtype", "layout", "device", "pin_memory", "memory_format"))


@dataclass(frozen=True)
class StepTensor:
    """A tensor that exists before the step. `tensor`: the user's, which the step updates."""

    name: str
    tensor: torch.Tensor


def layout(tensor: torch.Tensor) -> tuple[Any, ...]:
    """The type and shape of a tensor, and its strides where they matter."""
    pairs = zip(tensor.shape, tensor.stride(), strict=True)
    return tensor.dtype, *tensor.shape, *(stride for size, stride in pairs if size > 1)


def span_bytes(tensor: torch.Tensor) -> int:
    """The bytes from a tensor's first element to the end of its last one."""
    if not tensor.numel():
        return 0
    last = sum((n - 1) * s for n, s in zip(tensor.shape, tensor.stride(), strict=True))
    size: int = (last + 1) * tensor.element_size()
    return size


def is_effect(node: Node) -> bool:
    """Whether a node has an effect besides its results."""
    schema = getattr(node.target, "_schema", None)
    return node.op in ("placeholder", "output") or bool(
        schema and (schema.is_mutable or node.target in HIDDEN_WRITES or is_random(node))
    )


def is_random(node: Node) -> bool:
    """Whether a node draws from PyTorch's generator."""
    return torch.Tag.nondeterministic_seeded in getattr(node.target, "tags", ())


def is_view(node: Node) -> bool:
    """Whether a node's results are its first aliased argument in another layout, or one of a
    list."""
    if node.target is operator.getitem:
        return True
    schema = getattr(node.target, "_schema", None)
    returns = schema.returns if schema else ()
    return any(r.alias_info is not None and not r.alias_info.is_write for r in returns)


def is_arithmetic(node: Node) -> bool:
    """Whether a node computes a Python number from others."""
    return not hasattr(node.target, "_schema") and not is_view(node)


def arguments(node: Node) -> Iterator[tuple[Any, Any]]:
    """The arguments of a node as pairs of schema entry and value."""
    target: Any = node.target
    schema = target._schema.arguments
    yield from zip(schema, node.args, strict=False)
    named = {argument.name: argument for argument in schema}
    yield from ((named[name], value) for name, value in node.kwargs.items())


def nodes_in(value: Any) -> list[Node]:
    """The nodes in an argument's value."""
    if isinstance(value, Node):
        return [value]
    if isinstance(value, (list, tuple)):
        return [node for one in value for node in nodes_in(one)]
    return []


def written(node: Node) -> list[Node]:
    """The nodes whose values a node overwrites."""
    if not hasattr(node.target, "_schema"):
        return []
    hidden = HIDDEN_WRITES.get(node.target, frozenset())
    return [
        one
        for argument, value in arguments(node)
        if (argument.alias_info and argument.alias_info.is_write) or argument.name in hidden
        for one in nodes_in(value)
    ]


def aliased(node: Node) -> Node | None:
    """The node whose memory a node's results use; None if they are new."""
    schema = getattr(node.target, "_schema", None)
    if not schema or all(r.alias_info is None for r in schema.returns):
        return None
    inputs = [n for a, value in arguments(node) if a.alias_info for n in nodes_in(value)]
    return inputs[0] if inputs else None


@cache
def out_variant(target: Any) -> tuple[Any, tuple[str, ...]] | None:
    """The overload that writes into given tensors, and the names of these; None if there is none
    that writes without a temporary tensor."""
    wanted = target._schema
    inputs = [(a.name, str(a.type)) for a in wanted.arguments]
    fewer = [one for one in inputs if one[0] not in OUTPUT_ARGUMENTS]
    if "reduction" in dict(inputs) and len(wanted.returns) == 1:
        return None  # Losses compute all elements in the output before they reduce them.
    packet = target.overloadpacket
    for name in packet.overloads():
        overload = getattr(packet, name)
        given = overload._schema.arguments
        outs = tuple(a.name for a in given if a.is_out)
        if len(outs) != len(wanted.returns) or torch.Tag.generated in overload.tags:
            continue
        if [(a.name, str(a.type)) for a in given if not a.is_out] in (inputs, fewer):
            return overload, outs
    return None
