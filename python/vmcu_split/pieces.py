# SPDX-License-Identifier: Apache-2.0
"""Pieces of a graph: consecutive layers, or a band of rows of them."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from vmcu_tools.compiler import load_prepared
from vmcu_tools.errors import Problem, UserError
from vmcu_tools.frontends import load
from vmcu_tools.graph import Graph, Node, Port
from vmcu_tools.ops import bind
from vmcu_tools.ops.concat import Concat
from vmcu_tools.ops.pad import Pad
from vmcu_tools.passes import state
from vmcu_tools.passes.rewrite import free_name, reading
from vmcu_tools.passes.state.connect import recognise_states
from vmcu_tools.planner.options import CompileOptions


@dataclass(frozen=True)
class Network:
    """A graph that can be split. states: pairs of ports, if layers compute states; the passes then
    run on each piece (`prepare`), otherwise they have run on the whole."""

    graph: Graph
    states: tuple[tuple[Port, Port], ...] = ()

    def prepare(self, piece: Graph) -> Graph:
        """Returns a piece as planners need it."""
        if not self.states:
            return piece
        here = {port.name for port in piece.inputs}
        pairs = [f"{a.name}:{b.name}" for a, b in self.states if a.name in here]
        return state.prepare(piece, pairs)

    def borders(self) -> list[int]:
        """Returns the numbers of nodes in front of which the graph can be cut: no loop and no
        state is on both sides."""
        inside = [n for loop in self.graph.loops for n in range(loop.start + 1, loop.stop)]
        for before, after in self.states:
            ends = [
                number
                for number, node in enumerate(self.graph.nodes)
                if before.tensor in node.inputs or after.tensor in node.outputs
            ]
            inside += range(min(ends) + 1, max(ends) + 1)
        return sorted({*range(1, len(self.graph.nodes))} - {*inside})

    def crossing(self, border: int) -> list[str]:
        """Returns the tensors that layers behind a border read and layers in front compute."""
        made = {name for node in self.graph.nodes[:border] for name in node.outputs}
        read = {name: None for node in self.graph.nodes[border:] for name in node.inputs}
        return [name for name in read if name in made]

    def crossing_bytes(self, border: int) -> int:
        return sum(self.graph.tensors[name].bytes for name in self.crossing(border))


def read_network(path: Path, options: CompileOptions) -> Network:
    """Reads a model file. Raises UserError for one that no split is for."""
    loaded = load(path)
    if loaded.state.names or loaded.is_recurrent:
        reason = "the file stores its states in variables or in recurrent operators"
        raise UserError(Problem(reason, "export states as inputs and outputs", str(path)))
    states = tuple(recognise_states(loaded)) if len(loaded.inputs) > 1 else ()
    return Network(loaded if states else load_prepared(path, options), states)


def _piece(graph: Graph, nodes: Iterable[Node], inputs: list[Port], outputs: list[Port]) -> Graph:
    nodes = tuple(nodes)
    used = {port.tensor for port in (*inputs, *outputs)}
    used |= {name for node in nodes for name in (*node.inputs, *node.outputs)}
    tensors = {name: tensor for name, tensor in graph.tensors.items() if name in used}
    ports = tuple(inputs), tuple(outputs)
    return Graph(graph.name, graph.origin, tensors, nodes, *ports, graph.target)


def _port(graph: Graph, name: str) -> Port:
    return Port(name, name, (1, *graph.tensors[name].shape), "int8")


def segment(graph: Graph, first: int, stop: int) -> Graph:
    """Returns the graph of nodes first .. stop - 1; tensors of other pieces are int8 inputs and
    outputs."""
    nodes = graph.nodes[first:stop]
    made = {name for node in nodes for name in node.outputs}
    read = {name: None for node in nodes for name in node.inputs if name not in made}
    later = {name for node in graph.nodes[stop:] for name in node.inputs}
    known = {port.tensor: port for port in graph.inputs}
    inputs = [known.get(name) or _port(graph, name) for name in read]
    outputs = [port for port in graph.outputs if port.tensor in made]
    named = {port.tensor for port in outputs}
    outputs += [_port(graph, name) for name in sorted((made & later) - named)]
    return _piece(graph, nodes, inputs, outputs)


def can_band(node: Node) -> bool:
    """True if an output row needs a range of input rows, wherever it is in the image."""
    op = node.op
    by_rows = op.windowed or op.elementwise or (isinstance(op, Concat) and op.axis > 0)
    return by_rows and not node.is_recurrent


def band(graph: Graph, first: int, stop: int, rows: range) -> tuple[Graph, range]:
    """Returns the graph that computes some rows of the only output of nodes first .. stop - 1, and
    the rows of its only input that it needs. Rows between bands are computed twice.

    The padding of a window stays at the image's edges. A layer that needs fewer rows of a tensor
    than others has a Pad in front that leaves out the rest.
    """
    nodes = graph.nodes[first:stop]
    layers = [bind(graph, node) for node in nodes]
    need = {nodes[-1].outputs[0]: rows}
    reads: list[range] = []
    for layer in reversed(layers):
        made = need[layer.node.outputs[0]]
        # Taps of dilated windows: a later row can need an earlier one. Some see padding alone.
        rows_of = [some for y in made if (some := layer.input_rows(0, y))] or [range(1)]
        read = range(min(some[0] for some in rows_of), max(some[-1] for some in rows_of) + 1)
        reads.append(read)
        for name in layer.node.inputs:
            known = need.get(name, read)
            need[name] = range(min(known.start, read.start), max(known.stop, read.stop))
    tensors = dict(graph.tensors)
    for name, some in need.items():
        tensors[name] = replace(tensors[name], shape=(len(some), *tensors[name].shape[1:]))
    banded: list[Node] = []
    for layer, read in zip(layers, reversed(reads), strict=True):
        node = _at_rows(layer.node, need[layer.node.outputs[0]], read)
        for name in dict.fromkeys(node.inputs):
            if need[name] != read:
                cropped = free_name(replace(graph, tensors=tensors), name)
                source = tensors[name]
                shape = (len(read), *source.shape[1:])
                tensors[cropped] = replace(source, name=cropped, shape=shape)
                ends = (need[name].start - read.start, read.stop - need[name].stop)
                crop = Pad((ends, (0, 0), (0, 0)), source.zero_point)
                banded.append(Node(f"rows of {name}", crop, (name,), (cropped,)))
                node = reading(node, name, cropped)
        banded.append(node)
    changed = replace(graph, tensors=tensors)
    head, target = nodes[0].inputs[0], nodes[-1].outputs[0]
    piece = _piece(changed, banded, [_port(changed, head)], [_port(changed, target)])
    return piece, need[head]


def _at_rows(node: Node, made: range, read: range) -> Node:
    """Returns a node for some rows of its output and input, with the padding that they still
    have."""
    op: Any = node.op
    if not op.windowed:
        return node
    window, (_, left, _, right) = op.window, op.window.pad
    top = read.start - window.first(0, made[0])
    bottom = window.first(0, made[-1]) + window.extent(0) - read.stop
    return replace(node, op=replace(op, window=replace(window, pad=(top, left, bottom, right))))
