# SPDX-License-Identifier: Apache-2.0
"""Many calls of a graph whose layers compute its states.

The rows of a call are a window that moves by all of its rows. At the end of a call a layer copies
the state to bytes that no other layer writes; in the next call a layer copies it to where layers
read it.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace

from ...errors import Problem, UserError
from ...graph import Graph, Node, Port, RecurrentState, Shape, Tensor
from ...ops.hop_count import BYTES, HopCount
from ...ops.look_back import LookBack
from ...ops.recall import Recall, Remember
from ...ops.reshape import Reshape
from .. import optimize
from ..rewrite import free_name

HOPS = "hops"


def attach_states(graph: Graph) -> Graph:
    """Returns the graph of one call with its states as the last inputs and outputs."""

    def port(name: str) -> Port:
        return Port(name, name, (1,), "int8")

    return replace(
        graph,
        inputs=(*graph.inputs, *(port(one.before) for one in graph.state.recurrent)),
        outputs=(*graph.outputs, *(port(one.after) for one in graph.state.recurrent)),
        state=replace(graph.state, recurrent=()),
    )


def optimize_with_states(graph: Graph) -> Graph:
    """Applies all passes, which see the states as inputs and outputs."""
    whole, count = optimize(attach_states(graph), all_channels=True), len(graph.state.recurrent)
    ends = zip(graph.state.recurrent, whole.inputs[-count:], whole.outputs[-count:], strict=True)
    found = (RecurrentState(ahead.tensor, made.tensor, one.initial) for one, ahead, made in ends)
    return replace(
        whole,
        inputs=whole.inputs[:-count],
        outputs=whole.outputs[:-count],
        state=replace(graph.state, recurrent=tuple(found)),
    )


def expand_recurrent_calls(graph: Graph, hop: int, calls: int) -> Graph:
    """Returns the graph of so many calls, each with `hop` rows of the input.

    Raises UserError if a call has another number of rows, no input or no output.
    """
    rows = graph.tensors[graph.inputs[0].tensor].shape[0] if graph.inputs else 0
    reason, remedy = "", "leave out --hop, or export it otherwise"
    if not graph.inputs:
        reason = "the model has no input besides its states"
    elif hop != rows:
        reason = f"the model keeps state and needs {rows} rows a call, not {hop}"
    elif not graph.outputs:
        reason = "the model has no output besides its states"
    if reason:
        raise UserError(Problem(reason, remedy, graph.origin))
    return _Expansion(graph, hop, calls).run()


class _Expansion:
    def __init__(self, graph: Graph, hop: int, calls: int):
        self.graph, self.hop = graph, hop
        self.source = graph.inputs[0].tensor
        self.tensors = dict(graph.tensors)
        first = graph.tensors[self.source]
        self.tensors[self.source] = replace(first, shape=(hop * calls, *first.shape[1:]))
        self.count = free_name(graph, HOPS)
        self.tensors[self.count] = Tensor(self.count, (calls, 1, BYTES), 1.0, 0)
        self.nodes: list[Node] = []

    def run(self) -> Graph:
        # A count of 0 or 1 is a stream without a state, see lib/vmcu/executor.c.
        op = HopCount((self.hop,), (self.hop,), 2)
        self.nodes.append(Node(HOPS, op, (self.source,), (self.count,)))
        places: dict[tuple[str, Shape], str] = {}
        for one in self.graph.state.recurrent:
            # A pass can have removed a Reshape of the state.
            key = one.after, self.tensors[one.before].shape
            if key not in places:
                places[key] = self._free_name(f"{one.after} until the next call")
                kept = replace(self.tensors[one.before], name=places[key])
                self.tensors[kept.name] = kept
            state = places[key]
            recall = Recall(one.initial)
            self.nodes.append(
                Node(f"state {one.before}", recall, (state, self.count), (one.before,))
            )
        for node in self.graph.nodes:
            ins = [self._window(name, node.outputs[0]) for name in node.inputs]
            self.nodes.append(replace(node, inputs=tuple(ins)))
        ports = tuple(
            replace(port, tensor=self._window(port.tensor, "the answer"))
            for port in self.graph.outputs
        )
        self.nodes += self._store(places)
        return replace(
            self.graph,
            tensors=self.tensors,
            nodes=tuple(self.nodes),
            outputs=ports,
            state=replace(self.graph.state, step_rows=self.hop, unbounded_nodes=1),
        )

    def _store(self, places: dict[tuple[str, Shape], str]) -> Iterator[Node]:
        for (made, shape), state in places.items():
            source = self._window(made, state)
            if self.tensors[source].shape != shape:
                shaped = self._free_name(f"{source} as {state}")
                self.tensors[shaped] = replace(self.tensors[state], name=shaped)
                yield Node(f"shape of {made}", Reshape(), (source,), (shaped,))
                source = shaped
            yield Node(f"state {made}", Remember(), (source,), (state,))

    def _free_name(self, name: str) -> str:
        return free_name(replace(self.graph, tensors=self.tensors), name)

    def _window(self, name: str, reader: str) -> str:
        """Returns a tensor as layers of one call read it: for the input, a copy of the window."""
        if name != self.source:
            return name
        label = f"{name} for {reader}"
        if label not in self.tensors:
            self.tensors[label] = replace(self.graph.tensors[name], name=label)
            op = LookBack(self.hop)
            self.nodes.append(Node(f"window of {name}", op, (name, self.count), (label,)))
        return label
