# SPDX-License-Identifier: Apache-2.0
"""A traced step in the graph format of vmcu_lab.placement.graphs.

Input: TracedStep. Output: StepGraph. A tensor of the graph is one piece of memory: views and
results of in-place operators are names of the tensor that they use, and are no tensors themselves.
Views and arithmetic with Python numbers are no nodes: they are evaluated when they are used.
Nodes that write a tensor wait for its earlier readers and writers; later ones wait for them. Random
operators keep their order, so that they draw the numbers that PyTorch draws.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

import torch
from torch.fx import Node

from .schema import aliased, is_arithmetic, is_random, is_view, out_variant, span_bytes, written
from .trace import TracedStep

# PyTorch's CPU allocator aligns to it, and some libraries round otherwise at other addresses.
ALIGNMENT_BYTES = 64

Value = str | list[str | None] | None


@dataclass
class StepGraph:
    """`tensors`, `nodes`: as the format has them; `memory`: by FX node the tensor that has its
    value, a list of them for several results, None for numbers; `samples`: by tensor a fake tensor
    of its layout."""

    tensors: list[dict[str, Any]] = field(default_factory=list)
    nodes: list[dict[str, Any]] = field(default_factory=list)
    memory: dict[Node, Value] = field(default_factory=dict)
    samples: dict[str, torch.Tensor] = field(default_factory=dict)

    @property
    def data(self) -> dict[str, Any]:
        """The graph as JSON."""
        return {"tensors": self.tensors, "nodes": self.nodes}


def step_graph(step: TracedStep) -> StepGraph:
    """The graph of a step. Everything that exists before the step is kept, and so is the loss."""
    builder = Builder(StepGraph())
    names = {node: name for name, node in step.nodes.items()}
    outside = {one.name: one.tensor for one in step.outside}
    for node in step.graph.nodes:
        if node.op == "placeholder":
            builder.given(node, names[node], node.meta["val"])
        elif node.op == "get_attr":
            builder.given(node, names[node], outside[names[node]])
        elif node.op == "call_function":
            builder.add(node)
    builder.keep(step.loss)
    return builder.graph


class Builder:
    """A graph in the making. `writers`: by tensor the node that wrote it last; `readers`: those
    that read it since; `numbers`: by FX node of a number the nodes that it is computed from;
    `random`: the last random node."""

    def __init__(self, graph: StepGraph) -> None:
        self.graph = graph
        self.writers: dict[str, str] = {}
        self.readers: dict[str, list[str]] = {}
        self.numbers: dict[Node, list[str]] = {}
        self.random = ""

    def given(self, node: Node, name: str, value: torch.Tensor) -> None:
        """A tensor that exists before the step."""
        self.tensor(name, value)
        self.graph.tensors[-1]["keep"] = True
        self.graph.memory[node] = name

    def tensor(self, name: str, value: torch.Tensor) -> str:
        """Adds a tensor."""
        size = -(-span_bytes(value) // ALIGNMENT_BYTES) * ALIGNMENT_BYTES
        self.graph.tensors.append({"name": name, "size": size, "alignment": ALIGNMENT_BYTES})
        self.graph.samples[name] = value
        return name

    def keep(self, node: Node) -> None:
        """Keeps the memory of a node's value to the end."""
        name = self.graph.memory[node]
        next(one for one in self.graph.tensors if one["name"] == name)["keep"] = True

    def add(self, node: Node) -> None:
        """A call of the step: a name for memory, or a node of the graph."""
        if is_view(node):
            self.graph.memory[node] = self.viewed(node)
            return
        if is_arithmetic(node):
            self.graph.memory[node] = None
            self.numbers[node] = self.sources(node)
            return
        base = aliased(node)
        outputs = [] if base else self.results(node)
        if base:
            self.graph.memory[node] = self.graph.memory[base]
        self.call(node, [name for name in outputs if name])

    def viewed(self, node: Node) -> Value:
        """The memory of a view, or of one result of several."""
        args: Any = node.args
        value = self.graph.memory[aliased(node) or args[0]]
        if isinstance(value, list):
            number: int = args[1]
            return value[number]
        sample = node.meta["val"]
        return [value] * len(sample) if isinstance(sample, (tuple, list)) else value

    def results(self, node: Node) -> list[str | None]:
        """Adds the tensors that a node makes."""
        value = node.meta.get("val")
        if isinstance(value, torch.Tensor):
            self.graph.memory[node] = node.name
            return [self.tensor(node.name, value)]
        if not isinstance(value, (tuple, list)):
            self.graph.memory[node] = None
            self.numbers[node] = [node.name]
            return []
        # PyTorch does not compute every result that nothing uses; an out= variant needs all.
        used = {user.args[1] for user in node.users}
        is_whole = out_variant(node.target) is not None
        names = [
            self.tensor(f"{node.name}.{number}", one)
            if isinstance(one, torch.Tensor) and (is_whole or number in used)
            else None
            for number, one in enumerate(value)
        ]
        self.graph.memory[node] = names
        return names

    def call(self, node: Node, outputs: list[str]) -> None:
        """Adds a node that makes `outputs`, after those that it must wait for."""
        reads = [name for one in node.all_input_nodes for name in self.names(one)]
        writes = [name for one in written(node) for name in self.names(one)]
        after = self.sources(node)
        after += [self.writers[name] for name in reads if name in self.writers]
        for name in writes:
            after += self.readers.pop(name, [])
            self.writers[name] = node.name
        for name in reads:
            self.readers.setdefault(name, []).append(node.name)
        if is_random(node):
            after += [self.random] if self.random else []
            self.random = node.name
        after = [name for name in dict.fromkeys(after) if name != node.name]
        entry = {"name": node.name, "inputs": list(dict.fromkeys(reads)), "outputs": outputs}
        optional = {
            "after": after,
            "writes": list(dict.fromkeys(writes)),
            "repeatable": not is_random(node),
        }
        self.graph.nodes.append(entry | {name: value for name, value in optional.items() if value})

    def sources(self, node: Node) -> list[str]:
        """The nodes that the numbers among a node's arguments are computed from."""
        return [name for one in node.all_input_nodes for name in self.numbers.get(one, ())]

    def names(self, node: Node) -> list[str]:
        """The tensors that have a node's value."""
        value = self.graph.memory[node]
        names = value if isinstance(value, list) else [value]
        return [name for name in names if name]
