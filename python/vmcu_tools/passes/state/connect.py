# SPDX-License-Identifier: Apache-2.0
"""States that a file has as inputs and outputs: an input receives an output of the previous call.

Formats without variables store streaming models this way. An input has the latest rows of a tensor,
a Concat puts them in front of the new rows, and an output has the last rows of both. The first call
reads zeros there. So the pass replaces the Concat by padding, and the planner allocates a ring
buffer. If a state has another use, layers compute it.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass, replace

import numpy as np

from ...errors import Problem, UserError
from ...graph import Graph, Node, Op, Port, RecurrentState, State, Tensor
from ...ops.concat import Concat
from ...ops.lookup import Lookup
from ...ops.move import Move
from ...ops.pad import Pad
from ...quant import INT8_MAX, INT8_MIN
from ..rewrite import free_name, moved_from, same_quantisation
from .concatenate import can_concatenate_calls
from .options import NO_STATES, STATE_OPTION
from .transpose import transpose_rows

REMEDY = "export the model with an output of the same shape and type for each state input"
# Words in names of states before a call and after it, which do not name the state.
PAST_WORDS = {"in", "input", "prev", "previous", "past", "old", "initial"}
PRESENT_WORDS = {"out", "output", "next", "new", "present", "updated"}
# Hugging Face's name of a cache; the output's is "present".
CACHE = "past_key_values"
# Names of states in exports of recurrent layers, such as h0 and hn.
FIRST, LAST = re.compile(r"^([a-z]+)0$"), re.compile(r"^([a-z]+)n$")


@dataclass(frozen=True)
class _Fit:
    """The Concat that has a state as its first `rows` rows, and the node, if any, that removes the
    state's first rows before it."""

    join: Node
    rows: int
    cut: Node | None = None


def connect_states(graph: Graph, pairs: Sequence[str] | None = None) -> Graph:
    """Connects outputs to inputs of the next call.

    pairs: each "input:output"; none for no states; None connects all whose names and shapes match.
    Raises UserError for a pair that does not exist or does not fit.
    """
    unwanted = pairs is not None and tuple(pairs) in ((), (NO_STATES,))
    if graph.state.names or unwanted or len(graph.inputs) < 2:
        if pairs and not unwanted:
            reason = "no input can receive an output of the previous call"
            raise UserError(Problem(reason, f"leave out {STATE_OPTION}", graph.origin))
        return graph
    if pairs is None:
        found = recognise_states(graph)
        return graph if not found else _connect(graph, found)
    named = [_find_pair(graph, pair) for pair in pairs]
    _check_once(graph, named)
    for ahead, behind in named:
        reason = _difference(ahead, behind)
        if reason:
            reason = f"output '{behind.name}' cannot be fed back as input '{ahead.name}': {reason}"
            raise UserError(Problem(reason, REMEDY, graph.origin))
    return _connect(graph, named)


def _connect(graph: Graph, pairs: Sequence[tuple[Port, Port]]) -> Graph:
    """The graph with ring buffers for its states if all of them fit, else with recurrent ones."""
    upright, fits = _fit_all(graph, pairs)
    if any(isinstance(fit, str) for fit in fits):
        return _make_recurrent(graph, pairs)
    padded = _replace_by_padding(upright, fits, pairs)
    return padded if can_concatenate_calls(padded) else _make_recurrent(graph, pairs)


def _make_recurrent(graph: Graph, pairs: Sequence[tuple[Port, Port]]) -> Graph:
    """The graph whose layers compute its states."""
    states = []
    for before, after in pairs:
        graph, name = _match_bytes(graph, before, after)
        zero = graph.tensors[before.tensor].zero_point
        states.append(RecurrentState(before.tensor, name, zero))
    return _without_ports(graph, pairs, tuple(states))


def _match_bytes(graph: Graph, before: Port, after: Port) -> tuple[Graph, str]:
    """The graph with layers that convert an output to the bytes of the next call's input, and the
    tensor with them."""
    source, target = (graph.tensors[port.tensor] for port in (after, before))
    index = np.empty(target.bytes, np.int64)
    index[_file_order(graph, before)] = _file_order(graph, after)
    index = index.reshape(target.shape)
    ops: list[Op] = []
    if source.shape != target.shape or not np.array_equal(index.ravel(), np.arange(index.size)):
        move = Move.of(index)
        if move is None:
            reason = f"'{after.name}' has its axes in another order than '{before.name}'"
            raise UserError(Problem(reason, REMEDY, graph.origin))
        ops.append(move)
    if before.dtype == "float32" and not same_quantisation(source, target):
        ops.append(Lookup(_requantisation_table(source, target)))
    name = source.name
    for op in ops:
        out = free_name(graph, f"{after.name} as {before.name}")
        kind = target if op is ops[-1] else replace(target, scale=source.scale, zero_point=0)
        node = Node(f"state {after.name}", op, (name,), (out,))
        tensors = {**graph.tensors, out: replace(kind, name=out)}
        graph = replace(graph, tensors=tensors, nodes=(*graph.nodes, node))
        name = out
    return graph, name


def _file_order(graph: Graph, port: Port) -> np.ndarray:
    """The bytes of a port's tensor, by index, in the order of the file."""
    return _to_file_order(graph, port, np.arange(graph.tensors[port.tensor].bytes))


def _requantisation_table(source: Tensor, target: Tensor) -> np.ndarray:
    """The int8 values of one quantisation in another, rounded as runtimes do."""
    steps = np.arange(INT8_MIN, INT8_MAX + 1, dtype=np.float32) - np.float32(source.zero_point)
    real = steps * np.float32(source.scale)
    found = np.rint(real / np.float32(target.scale)) + target.zero_point
    table: np.ndarray = np.clip(found, INT8_MIN, INT8_MAX).astype(np.int8)
    return table


def recognise_states(graph: Graph) -> list[tuple[Port, Port]]:
    """Returns inputs and outputs whose names and shapes match."""
    ins, outs = ([(state_key(p.name, words), p) for p in ports] for ports, words in _sides(graph))
    found = []
    for name, ahead in ins:
        mine = [port for other, port in outs if other == name]
        alone = [other for other, _ in ins].count(name) == 1
        if name and alone and len(mine) == 1:
            found.append((ahead, mine[0]))
    found = [pair for pair in found if not _difference(*pair)]
    _, fits = _fit_all(graph, found)
    rings = [pair for pair, fit in zip(found, fits, strict=True) if not isinstance(fit, str)]
    more = len(graph.inputs) > len(found) and len(graph.outputs) > len(found)
    return found if more else rings


def state_key(name: str, words: set[str]) -> tuple[str, ...]:
    """Returns the parts of a name that are not among `words`: equal for both ends of a state."""
    name = name.lower().replace(CACHE, "past")
    parts = [part for part in re.split(r"[^a-z0-9]+", name) if part]
    step = FIRST if words is PAST_WORDS else LAST
    shorter = [match[1] if (match := step.match(part)) else part for part in parts]
    if parts == shorter or words & set(parts):
        return tuple(part for part in parts if part not in words)
    return tuple(shorter)


def _sides(graph: Graph) -> tuple[tuple[tuple[Port, ...], set[str]], ...]:
    return (graph.inputs, PAST_WORDS), (graph.outputs, PRESENT_WORDS)


def _find_pair(graph: Graph, pair: str) -> tuple[Port, Port]:
    """Returns the ports of "input:output". Names can contain colons."""
    for ahead in graph.inputs:
        for behind in graph.outputs:
            if f"{ahead.name}:{behind.name}" == pair:
                return ahead, behind
    ins, outs = (", ".join(port.name for port in ports) for ports, _ in _sides(graph))
    reason = f"{STATE_OPTION} {pair}: no such pair; the inputs are {ins}, the outputs {outs}"
    raise UserError(Problem(reason, f"write {STATE_OPTION} INPUT:OUTPUT", graph.origin))


def _check_once(graph: Graph, named: Sequence[tuple[Port, Port]]) -> None:
    for side in zip(*named, strict=True):
        names = [port.name for port in side]
        again = next((name for name in names if names.count(name) > 1), None)
        if again is not None:
            reason = f"'{again}' is named in two states"
            raise UserError(Problem(reason, "name each input and output once", graph.origin))


def _fit_all(graph: Graph, pairs: Sequence[tuple[Port, Port]]) -> tuple[Graph, list[_Fit | str]]:
    """Returns the graph with time along H, and for each pair where the state is concatenated, or
    why it cannot be rows of a ring buffer."""
    for upright in (graph, transpose_rows(graph)):
        fits = [_fit(upright, *pair) for pair in pairs]
        if not any(isinstance(fit, str) for fit in fits):
            return upright, fits
    return upright, fits


def _fit(graph: Graph, ahead: Port, behind: Port) -> _Fit | str:
    state, last = graph.tensors[ahead.tensor], graph.tensors[behind.tensor]
    if not same_quantisation(state, last):
        return "their scales or zero points differ"
    cut, front = _cut_rows(graph, state)
    readers = graph.consumers(front.name)
    join = readers[0] if len(readers) == 1 else None
    op = join.op if join is not None else None
    if join is None or not isinstance(op, Concat) or op.axis != 0:
        return f"'{ahead.name}' is not concatenated in front of new rows"
    if len(join.inputs) != 2 or join.inputs[0] != front.name or join.inputs[1] == front.name:
        return f"'{ahead.name}' is not concatenated in front of new rows"
    if any(table is not None for table in op.tables):
        return "the scale or zero point differs from that of the new rows"
    if not _is_last_rows(graph, join, ahead, behind):
        return f"'{behind.name}' is not the last {state.shape[0]} rows"
    return _Fit(join, front.shape[0], cut)


def _cut_rows(graph: Graph, state: Tensor) -> tuple[Node | None, Tensor]:
    """Returns the node that removes a state's first rows, if it is the state's only reader, and the
    tensor that remains."""
    readers = graph.consumers(state.name)
    node = readers[0] if len(readers) == 1 else None
    if node is None or not isinstance(node.op, Move):
        return None, state
    rest = graph.tensors[node.outputs[0]]
    last = np.arange(state.bytes)[-rest.bytes :]
    whole = rest.shape[1:] == state.shape[1:] and same_quantisation(state, rest)
    if not whole or not np.array_equal(node.op.index.ravel(), last):
        return None, state
    return node, rest


def _difference(ahead: Port, behind: Port) -> str:
    """Returns why an output cannot be the next value of an input; "" if it can."""
    if (ahead.file_shape, ahead.dtype) != (behind.file_shape, behind.dtype):
        return f"they are {ahead.dtype} {ahead.file_shape} and {behind.dtype} {behind.file_shape}"
    return f"it contains {ahead.dtype} elements" if ahead.is_wide else ""


def _is_last_rows(graph: Graph, join: Node, ahead: Port, behind: Port) -> bool:
    """True if an output is the last rows of a Concat, in the order of the file's input."""
    joined, new = graph.tensors[join.outputs[0]], graph.tensors[join.inputs[1]]
    name = behind.tensor
    places = np.arange(graph.tensors[name].bytes)
    while name not in (joined.name, new.name):
        maker = graph.producer(name)
        found = moved_from(maker, places) if maker is not None else None
        if maker is None or found is None:
            return False
        places = found
        name = maker.inputs[0]
    start = graph.tensors[name].bytes - len(places)
    wanted = np.arange(start, start + len(places))
    return np.array_equal(
        _to_file_order(graph, behind, places), _to_file_order(graph, ahead, wanted)
    )


def _to_file_order(graph: Graph, port: Port, values: np.ndarray) -> np.ndarray:
    """Rearranges values of a port's tensor to the order of the file."""
    image = values.reshape(graph.tensors[port.tensor].shape)
    return np.ravel(image.transpose(2, 0, 1) if port.layout == "nchw" else image)


def _replace_by_padding(
    graph: Graph, fits: Sequence[_Fit | str], pairs: Sequence[tuple[Port, Port]]
) -> Graph:
    """The graph of a first call: padding in place of each state."""
    pads = {id(fit.join): fit.rows for fit in fits if isinstance(fit, _Fit)}
    cuts = {id(fit.cut) for fit in fits if isinstance(fit, _Fit)}
    left = (node for node in graph.nodes if id(node) not in cuts)
    nodes = tuple(_pad(graph, node, pads.get(id(node), 0)) for node in left)
    ports = {port.tensor for port, _ in pairs}
    tensors = {name: one for name, one in graph.tensors.items() if name not in ports}
    return _without_ports(replace(graph, nodes=nodes, tensors=tensors), pairs)


def _without_ports(
    graph: Graph,
    pairs: Sequence[tuple[Port, Port]],
    recurrent: tuple[RecurrentState, ...] = (),
) -> Graph:
    """The graph without inputs and outputs that are states."""
    names = tuple((before.name, after.name) for before, after in pairs)
    ins, outs = (set(side) for side in zip(*names, strict=True))
    return replace(
        graph,
        inputs=tuple(port for port in graph.inputs if port.name not in ins),
        outputs=tuple(port for port in graph.outputs if port.name not in outs),
        state=State(tuple(before for before, _ in names), names, recurrent),
    )


def _pad(graph: Graph, node: Node, rows: int) -> Node:
    if not rows:
        return node
    zero = graph.tensors[node.outputs[0]].zero_point
    return replace(node, op=Pad(((rows, 0), (0, 0), (0, 0)), zero), inputs=node.inputs[1:])
