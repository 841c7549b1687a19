# SPDX-License-Identifier: Apache-2.0
"""A graph with states that layers compute from what they were, over all of its calls.

Of the input each call's rows are kept, as of a window that moves on by all of its rows. What a
state is at a call's end is copied to bytes that outlive the call, and from there to where layers
read it in the next one. The first call begins with zeros.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace

from ..errors import Problem, UserError
from ..graph import Graph, Node, Port, RecurrentState, Shape, Tensor
from ..ops.hop_count import BYTES, HopCount
from ..ops.look_back import LookBack
from ..ops.recall import Recall, Remember
from ..ops.reshape import Reshape
from . import optimize
from .rewrite import free_name

HOPS = "hops"


def detached(graph: Graph) -> Graph:
    """The graph without its states among inputs and outputs."""
    ins, outs = ({one.name: one for one in ports} for ports in (graph.inputs, graph.outputs))
    ahead, behind = ({names[n] for names in graph.state.pairs} for n in (0, 1))
    pairs = [(ins[one].tensor, outs[other].tensor) for one, other in graph.state.pairs]
    return replace(
        graph,
        inputs=tuple(port for port in graph.inputs if port.name not in ahead),
        outputs=tuple(port for port in graph.outputs if port.name not in behind),
        state=replace(
            graph.state,
            recurrent=tuple(
                RecurrentState(*pair, graph.tensors[pair[0]].zero_point) for pair in pairs
            ),
        ),
    )


def attached(graph: Graph) -> Graph:
    """detached() the other way round, of a first call: its states are inputs and outputs, last."""

    def port(name: str) -> Port:
        return Port(name, name, (1,), "int8")

    return replace(
        graph,
        inputs=(*graph.inputs, *(port(one.before) for one in graph.state.recurrent)),
        outputs=(*graph.outputs, *(port(one.after) for one in graph.state.recurrent)),
        state=replace(graph.state, recurrent=()),
    )


def optimized(graph: Graph) -> Graph:
    """The graph behind all passes, which see its states as inputs and outputs."""
    whole, count = optimize(attached(graph), all_channels=True), len(graph.state.recurrent)
    ends = zip(graph.state.recurrent, whole.inputs[-count:], whole.outputs[-count:], strict=True)
    found = (RecurrentState(ahead.tensor, made.tensor, one.initial) for one, ahead, made in ends)
    return replace(
        whole,
        inputs=whole.inputs[:-count],
        outputs=whole.outputs[:-count],
        state=replace(graph.state, recurrent=tuple(found)),
    )


def recurring(graph: Graph, hop: int, calls: int) -> Graph:
    """The graph for so many calls, each of which takes the `hop` rows of the graph's input.

    Raises UserError where it cannot go on from call to call.
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
    return _Maker(graph, hop, calls).run()


class _Maker:
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
        # A count of 0 or 1 is a stream that has no state yet, see lib/vmcu/executor.c.
        op = HopCount((self.hop,), (self.hop,), 2)
        self.nodes.append(Node(HOPS, op, (self.source,), (self.count,)))
        places: dict[tuple[str, Shape], str] = {}
        for one in self.graph.state.recurrent:
            # A pass may have left out a Reshape of what is made.
            key = one.after, self.tensors[one.before].shape
            if key not in places:
                places[key] = self._named(f"{one.after} until the next call")
                kept = replace(self.tensors[one.before], name=places[key])
                self.tensors[kept.name] = kept
            state = places[key]
            recall = Recall(one.initial)
            self.nodes.append(
                Node(f"state {one.before}", recall, (state, self.count), (one.before,))
            )
        for node in self.graph.nodes:
            ins = [self._seen(name, node.outputs[0]) for name in node.inputs]
            self.nodes.append(replace(node, inputs=tuple(ins)))
        ports = tuple(
            replace(port, tensor=self._seen(port.tensor, "the answer"))
            for port in self.graph.outputs
        )
        self.nodes += self._kept(places)
        return replace(
            self.graph,
            tensors=self.tensors,
            nodes=tuple(self.nodes),
            outputs=ports,
            state=replace(self.graph.state, step_rows=self.hop, unbounded_nodes=1),
        )

    def _kept(self, places: dict[tuple[str, Shape], str]) -> Iterator[Node]:
        for (made, shape), state in places.items():
            source = self._seen(made, state)
            if self.tensors[source].shape != shape:
                shaped = self._named(f"{source} as {state}")
                self.tensors[shaped] = replace(self.tensors[state], name=shaped)
                yield Node(f"shape of {made}", Reshape(), (source,), (shaped,))
                source = shaped
            yield Node(f"state {made}", Remember(), (source,), (state,))

    def _named(self, name: str) -> str:
        return free_name(replace(self.graph, tensors=self.tensors), name)

    def _seen(self, name: str, reader: str) -> str:
        """A tensor as layers of one call see it; the input's rows are looked back at."""
        if name != self.source:
            return name
        label = f"{name} for {reader}"
        if label not in self.tensors:
            self.tensors[label] = replace(self.graph.tensors[name], name=label)
            op = LookBack(self.hop)
            self.nodes.append(Node(f"window of {name}", op, (name, self.count), (label,)))
        return label
