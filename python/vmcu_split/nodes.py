# SPDX-License-Identifier: Apache-2.0
"""The nodes of a split: what each computes, sends and receives, in which order, and the cost.

All messages of an inference have one order, and each node handles its own in that order, so that no
two nodes wait for each other.
"""

from __future__ import annotations

import itertools
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field

import numpy as np
from vmcu_tools.errors import PlanError
from vmcu_tools.graph import Graph
from vmcu_tools.machine import reference
from vmcu_tools.plan.plan import Plan

# Bytes of a frame's header, and of an acknowledgement: vmcu/link.h.
HEADER = 16
POOL_ALIGN = 8


@dataclass(frozen=True)
class Link:
    """bits_per_second: of each link; latency_s: from the first bit sent to the first received."""

    bits_per_second: float
    latency_s: float = 0.0

    def seconds(self, payload: int) -> float:
        """Returns the time of a message with its acknowledgement."""
        return (payload + 2 * HEADER) * 8 / self.bits_per_second + 2 * self.latency_s


@dataclass(frozen=True, eq=False)
class Part:
    """A piece that a node computes in one go. phase: parts of one phase run at the same time; cut:
    the piece before the passes that prepare states; rows: by tensor of its border, if only some."""

    node: int
    phase: int
    cut: Graph
    graph: Graph
    plan: Plan
    seconds: float
    cycles: int
    rows: dict[str, range] = field(default_factory=dict)

    def rows_of(self, tensor: str) -> range:
        return self.rows.get(tensor, range(self.cut.tensors[tensor].shape[0]))

    @property
    def row_bytes(self) -> int:
        """Counts the bytes of its input in front of the pool, if rows are pushed."""
        return self.graph.tensors[self.graph.inputs[0].tensor].bytes if self.pushes else 0

    @property
    def pushes(self) -> bool:
        return bool(self.graph.state.names)

    def input_at(self, tensor: str, row: int) -> tuple[int, int]:
        """Returns the index of the input that has a tensor, and the offset of a row."""
        at = (row - self.rows_of(tensor).start) * self.cut.tensors[tensor].row_bytes
        for one in self.graph.state.row_fields:
            if one.port.tensor == tensor:
                return 0, one.first + at
        return [port.tensor for port in self.graph.inputs].index(tensor), at

    def output_at(self, tensor: str, row: int) -> tuple[int, int]:
        """Returns the index of the output that is a tensor, and the offset of a row."""
        names = [port.name for port in self.graph.outputs]
        port = next(port for port in self.cut.outputs if port.tensor == tensor)
        at = (row - self.rows_of(tensor).start) * self.cut.tensors[tensor].row_bytes
        return names.index(port.name), at


@dataclass(frozen=True)
class NodeStep:
    """struct vmcu_node_step. kind: a name without VMCU_NODE_; peer: a node."""

    kind: str
    index: int = 0
    peer: int = 0
    part: int = 0
    offset: int = 0
    bytes: int = 0


@dataclass
class Split:
    """The parts of a network on `count` nodes, by phase.

    inputs: names of the network's inputs, without its states
    steps: by node, its program
    link_bytes: by node, the bytes that it sends in an inference
    latency_s: from the inputs to the last output
    """

    kind: str
    parts: Sequence[Part]
    count: int
    link: Link
    inputs: frozenset[str]
    steps: list[list[NodeStep]] = field(init=False)
    link_bytes: list[int] = field(init=False)
    latency_s: float = field(init=False)

    def __post_init__(self) -> None:
        self.steps = [[] for _ in range(self.count)]
        self.link_bytes = [0] * self.count
        clocks, number = [0.0] * self.count, itertools.count()
        for _, phase in itertools.groupby(self.parts, key=lambda part: part.phase):
            parts = list(phase)
            for part in parts:
                self._continue(part)
            messages = [one for part in parts for one in self._messages(part)]
            # Neighbours at the same time: pairs that begin with an even node first.
            for source, target, sent, received in sorted(
                messages, key=lambda one: (min(one[:2]) % 2, one[:2])
            ):
                part_number = next(number)
                for node, peer, step in ((source, target, sent), (target, source, received)):
                    kind, index, offset, count = step
                    self.steps[node].append(NodeStep(kind, index, peer, part_number, offset, count))
                self.link_bytes[source] += HEADER + sent[3]
                self.link_bytes[target] += HEADER
                end = max(clocks[source], clocks[target]) + self.link.seconds(sent[3])
                clocks[source] = clocks[target] = end
            for part in parts:
                self._compute(part)
                clocks[part.node] += part.seconds
        self.latency_s = max(clocks)

    def parts_of(self, node: int) -> list[Part]:
        return [part for part in self.parts if part.node == node]

    def ram_bytes(self, node: int) -> int:
        """Counts the bytes of a node's pool and of pushed rows in front of it."""
        parts = self.parts_of(node)
        rows = -(-parts[0].row_bytes // POOL_ALIGN) * POOL_ALIGN
        return rows + max(part.plan.pool_bytes for part in parts)

    def peers(self, node: int) -> list[int]:
        """Returns the nodes that a node has a link to."""
        talks = ("RECEIVE", "SEND_INPUT", "SEND_OUTPUT")
        return sorted({step.peer for step in self.steps[node] if step.kind in talks})

    def outside(self, node: int) -> list[tuple[str, range]]:
        """Returns the inputs that a node's application writes, by name, and the rows of each."""
        first = self.parts_of(node)[0]
        return [
            (port.name, first.rows_of(port.tensor))
            for port in first.cut.inputs
            if port.name in self.inputs
        ]

    def _following(self, part: Part) -> Part | None:
        return next((p for p in self.parts_of(part.node) if p.phase > part.phase), None)

    def _continue(self, part: Part) -> None:
        """Copies what the node's part before has computed."""
        mine = self.parts_of(part.node)
        number = mine.index(part)
        if number == 0:
            return
        before, tensor = mine[number - 1], part.cut.inputs[0].tensor
        own = before.rows_of(tensor)
        _, offset = part.input_at(tensor, own.start)
        size = len(own) * part.cut.tensors[tensor].row_bytes
        self.steps[part.node].append(NodeStep("NEXT", number, offset=offset, bytes=size))

    def _messages(
        self, part: Part
    ) -> Iterator[tuple[int, int, tuple[str, int, int, int], tuple[str, int, int, int]]]:
        """The messages with a part's inputs: source, target, and the steps of both."""
        for port in part.cut.inputs:
            tensor = port.tensor
            for source in self.parts:
                made = {one.tensor for one in source.cut.outputs}
                if source.node == part.node or tensor not in made or source.phase >= part.phase:
                    continue
                wanted, own = part.rows_of(tensor), source.rows_of(tensor)
                rows = range(max(wanted.start, own.start), min(wanted.stop, own.stop))
                if not rows:
                    continue
                size = len(rows) * part.cut.tensors[tensor].row_bytes
                after = self._following(source)
                if after is None:
                    sent = ("SEND_OUTPUT", *source.output_at(tensor, rows.start), size)
                else:
                    sent = ("SEND_INPUT", *after.input_at(tensor, rows.start), size)
                received = ("RECEIVE", *part.input_at(tensor, rows.start), size)
                yield source.node, part.node, sent, received

    def _compute(self, part: Part) -> None:
        if not part.pushes:
            self.steps[part.node].append(NodeStep("INVOKE"))
            return
        tensor = part.graph.tensors[part.graph.inputs[0].tensor]
        for row in range(tensor.shape[0]):
            size = tensor.row_bytes
            self.steps[part.node].append(NodeStep("PUSH", offset=row * size, bytes=size))


def check_parts(graph: Graph, split: Split, seed: int = 0) -> None:
    """Raises PlanError if a part computes another byte than the whole graph, by the reference
    semantics, for random inputs."""
    random = np.random.default_rng(seed)
    inputs = []
    for port in graph.inputs:
        tensor = graph.tensors[port.tensor]
        data = random.integers(-128, 128, tensor.bytes, np.int8)
        if port.below:
            data = np.array([seed % port.below], "<i4").view(np.int8)
            data = np.resize(data, tensor.bytes)
        inputs.append(data.reshape(tensor.shape))
    values = reference.run(graph, inputs)
    for part in split.parts:
        some = {
            port.tensor: values[port.tensor][slice(rows.start, rows.stop)]
            for port in (*part.cut.inputs, *part.cut.outputs)
            for rows in [part.rows_of(port.tensor)]
        }
        found = reference.run(part.cut, [some[port.tensor] for port in part.cut.inputs])
        for port in part.cut.outputs:
            if not np.array_equal(found[port.tensor], some[port.tensor]):
                raise PlanError(f"node {part.node} computes another '{port.tensor}'")
