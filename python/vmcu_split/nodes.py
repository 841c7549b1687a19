# SPDX-License-Identifier: Apache-2.0
"""The nodes of a split: the steps of each, in order, and the cost.

All messages of an inference have one order, and each node handles its own in that order, so that no
two nodes wait for each other.
"""

from __future__ import annotations

import itertools
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace

import numpy as np
from vmcu_tools.errors import PlanError
from vmcu_tools.graph import Graph
from vmcu_tools.machine import reference
from vmcu_tools.plan.plan import Plan

# Bytes of a frame's header, and of an acknowledgement: vmcu/link.h.
HEADER = 16
POOL_ALIGN = 8


@dataclass(frozen=True)
class Wire:
    """bits_per_second: of each link; latency_s: from the first bit sent to the first received."""

    bits_per_second: float
    latency_s: float = 0.0

    def seconds(self, payload: int) -> float:
        """Returns the time of a message with its acknowledgement."""
        return (payload + 2 * HEADER) * 8 / self.bits_per_second + 2 * self.latency_s


@dataclass(frozen=True, eq=False)
class NodePart:
    """A piece that a node computes in one go.

    phase: parts of one phase run at the same time
    cut: the piece before the passes that prepare states
    rows: by tensor at its ends, for those of which it has some rows only
    """

    node: int
    phase: int
    cut: Graph
    graph: Graph
    plan: Plan
    seconds: float
    cycles: int
    rows: Mapping[str, range]

    def rows_of(self, tensor: str) -> range:
        return self.rows.get(tensor, range(self.cut.tensors[tensor].shape[0]))

    @property
    def row_bytes(self) -> int:
        """Counts the bytes of its input in front of the pool, if rows are pushed."""
        size = self.graph.tensors[self.graph.inputs[0].tensor].bytes
        return -(-size // POOL_ALIGN) * POOL_ALIGN if self.graph.state.names else 0

    @property
    def ram_bytes(self) -> int:
        return self.row_bytes + self.plan.pool_bytes

    def input_at(self, tensor: str, row: int) -> tuple[int, int]:
        """Returns the index of the input that has a tensor, and the offset of a row."""
        at = (row - self.rows_of(tensor).start) * self.cut.tensors[tensor].row_bytes
        fields = {one.port.tensor: one.first for one in self.graph.state.row_fields}
        if tensor in fields:
            return 0, fields[tensor] + at
        return [port.tensor for port in self.graph.inputs].index(tensor), at

    def output_at(self, tensor: str, row: int) -> tuple[int, int]:
        """Returns the index of the output that is a tensor, and the offset of a row."""
        (name,) = (port.name for port in self.cut.outputs if port.tensor == tensor)
        at = (row - self.rows_of(tensor).start) * self.cut.tensors[tensor].row_bytes
        return [port.name for port in self.graph.outputs].index(name), at


@dataclass(frozen=True)
class NodeStep:
    """struct vmcu_node_step. kind: a name without VMCU_NODE_; peer: a node."""

    kind: str
    index: int = 0
    peer: int = -1
    part: int = 0
    offset: int = 0
    bytes: int = 0


@dataclass
class Split:
    """The parts of a network on `count` nodes, by phase.

    inputs: names of the network's inputs by tensor, without its states
    steps: by node, its program
    link_bytes: by node, the bytes that it sends in an inference
    latency_s: from the inputs to the last output
    """

    kind: str
    parts: Sequence[NodePart]
    count: int
    wire: Wire
    inputs: Mapping[str, str]

    def __post_init__(self) -> None:
        self.steps: list[list[NodeStep]] = [[] for _ in range(self.count)]
        self.link_bytes, clocks = [0] * self.count, [0.0] * self.count
        number = itertools.count()
        for _, phase in itertools.groupby(self.parts, key=lambda part: part.phase):
            parts = list(phase)
            for part in parts:
                self._continue(part)
            messages = [one for part in parts for one in self._messages(part)]
            # Neighbours at the same time: pairs that begin with an even node first.
            messages.sort(key=lambda one: (min(one[0].peer, one[1].peer) % 2, one[1].peer))
            for sent, received in messages:
                source, target, name = received.peer, sent.peer, next(number)
                self.steps[source].append(replace(sent, part=name))
                self.steps[target].append(replace(received, part=name))
                self.link_bytes[source] += HEADER + sent.bytes
                self.link_bytes[target] += HEADER
                end = max(clocks[source], clocks[target]) + self.wire.seconds(sent.bytes)
                clocks[source] = clocks[target] = end
            for part in parts:
                self.steps[part.node] += _run(part)
                clocks[part.node] += part.seconds
        self.latency_s = max(clocks)

    def parts_of(self, node: int) -> list[NodePart]:
        return [part for part in self.parts if part.node == node]

    def ram_bytes(self, node: int) -> int:
        """Counts the bytes of a node's pool and of pushed rows in front of it."""
        return max(part.ram_bytes for part in self.parts_of(node))

    def peers(self, node: int) -> list[int]:
        """Returns the nodes that a node has a link to."""
        return sorted({step.peer for step in self.steps[node]} - {-1})

    def outside(self, node: int) -> list[tuple[str, range]]:
        """Returns the inputs that a node's application writes, by name, and the rows of each."""
        first = self.parts_of(node)[0]
        tensors = [port.tensor for port in first.cut.inputs if port.tensor in self.inputs]
        return [(self.inputs[tensor], first.rows_of(tensor)) for tensor in tensors]

    def _continue(self, part: NodePart) -> None:
        """Copies the output of the node's part before."""
        mine = self.parts_of(part.node)
        number = mine.index(part)
        if number > 0:
            tensor = part.cut.inputs[0].tensor
            own = mine[number - 1].rows_of(tensor)
            size = len(own) * part.cut.tensors[tensor].row_bytes
            _, offset = part.input_at(tensor, own.start)
            self.steps[part.node].append(NodeStep("NEXT", number, offset=offset, bytes=size))

    def _messages(self, part: NodePart) -> Iterator[tuple[NodeStep, NodeStep]]:
        """The messages with a part's inputs: the steps of the source and of the part's node."""
        for tensor in (port.tensor for port in part.cut.inputs):
            for source in self.parts:
                made = {one.tensor for one in source.cut.outputs}
                if source.node == part.node or tensor not in made or source.phase >= part.phase:
                    continue
                wanted, own = part.rows_of(tensor), source.rows_of(tensor)
                rows = range(max(wanted.start, own.start), min(wanted.stop, own.stop))
                size = len(rows) * part.cut.tensors[tensor].row_bytes
                later = [one for one in self.parts_of(source.node) if one.phase == part.phase]
                if later:
                    kind, (index, at) = "SEND_INPUT", later[0].input_at(tensor, rows.start)
                else:
                    kind, (index, at) = "SEND_OUTPUT", source.output_at(tensor, rows.start)
                there = part.input_at(tensor, rows.start)
                if rows:
                    yield (
                        NodeStep(kind, index, part.node, 0, at, size),
                        NodeStep("RECEIVE", there[0], source.node, 0, there[1], size),
                    )


def _run(part: NodePart) -> list[NodeStep]:
    """Returns the steps that compute a part."""
    if not part.row_bytes:
        return [NodeStep("INVOKE")]
    rows = part.graph.tensors[part.graph.inputs[0].tensor]
    return [
        NodeStep("PUSH", offset=at, bytes=rows.row_bytes)
        for at in range(0, rows.bytes, rows.row_bytes)
    ]


def check_parts(graph: Graph, split: Split) -> None:
    """Raises PlanError if a part computes another byte than the whole graph, by the reference
    semantics, for random inputs. Numbers of rows are zero."""
    random, inputs = np.random.default_rng(0), []
    for port in graph.inputs:
        shape = graph.tensors[port.tensor].shape
        inputs.append(random.integers(-128, 128, shape, np.int8) * (port.below == 0))
    values = reference.run(graph, inputs)
    for part in split.parts:
        ports = (*part.cut.inputs, *part.cut.outputs)
        rows = {port.tensor: part.rows_of(port.tensor) for port in ports}
        some = {name: values[name][one.start : one.stop] for name, one in rows.items()}
        computed = reference.run(part.cut, [some[port.tensor] for port in part.cut.inputs])
        for name in (port.tensor for port in part.cut.outputs):
            if not np.array_equal(computed[name], some[name]):
                raise PlanError(f"node {part.node} computes another '{name}'")
