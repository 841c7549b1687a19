# SPDX-License-Identifier: Apache-2.0
"""States that a file has as inputs and outputs: an input receives an output of the previous call.

Formats without variables store streaming models this way. An input has the latest rows of a tensor,
a Concat puts them in front of the new rows, and an output has the last rows of both. The first call
reads zeros there. So the pass replaces the Concat by padding, and the planner allocates a ring
buffer. If a state has another use, layers compute it.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace

import numpy as np

from ...errors import Problem, UserError
from ...graph import Graph, Node, Op, Port, RecurrentState, Shape, State, Tensor
from ...ops.lookup import Lookup
from ...ops.move import Move
from ...ops.pad import Pad
from ...ops.reshape import Reshape
from ...quant import INT8_MAX, INT8_MIN
from ..rewrite import free_name, moved_from, same_quantisation, with_nodes, with_tensor
from .concatenate import why_not_concatenated
from .join_inputs import join_inputs
from .joins import Join, find_join
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
    """What puts a state of `rows` rows in front of new ones, the nodes, if any, that remove the
    state's first rows before it, and whether a row is whatever a call appends."""

    join: Join
    rows: int
    cut: tuple[Node, ...]
    flat: bool


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
    least: dict[str, str] | None = None
    for upright, fits in _forms(graph, pairs):
        named = zip(pairs, fits, strict=True)
        reasons = {one.name: fit for (one, _), fit in named if isinstance(fit, str)}
        if not reasons:
            padded = join_inputs(_replace_by_padding(upright, fits, pairs), in_rows=True)
            reason = why_not_concatenated(padded)
            if not reason:
                return padded
            reasons = {one.name: reason for one, _ in pairs}
        if least is None or len(reasons) < len(least):
            least = reasons
    assert least
    other = f"'{next(iter(least))}' is copied"
    copied = tuple((one.name, least.get(one.name, other)) for one, _ in pairs)
    return _make_recurrent(graph, pairs).with_state(copied=copied)


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
    index[_file_order(graph, before)] = latest(_file_order(graph, after), before)
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
        graph = with_tensor(with_nodes(graph, (*graph.nodes, node)), replace(kind, name=out))
        name = out
    return graph, name


def _file_order(graph: Graph, port: Port) -> np.ndarray:
    """The bytes of a port's tensor, by index, in the order and shape of the file."""
    return _to_file_order(graph, port, np.arange(graph.tensors[port.tensor].bytes))


def latest(values: np.ndarray, ahead: Port) -> np.ndarray:
    """Returns what a state input of the next call receives of an output in the file's shape, which
    may have more rows in front: exporters write the whole of a cache."""
    sizes = zip(values.shape, ahead.file_shape, strict=True)
    return values[tuple(slice(whole - size, None) for whole, size in sizes)]


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
    rings: list[tuple[Port, Port]] = []
    for _, fits in _forms(graph, found):
        if len(rings) < len(found):
            fitting = zip(found, fits, strict=True)
            rings = max(rings, [pair for pair, fit in fitting if not isinstance(fit, str)], key=len)
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


def _forms(
    graph: Graph, pairs: Sequence[tuple[Port, Port]]
) -> Iterator[tuple[Graph, list[_Fit | str]]]:
    """Yields graphs with time along H, and for each pair where the state is concatenated, or why it
    cannot be rows of a ring buffer."""
    for form in range(3):
        upright = transpose_rows(graph) if form == 1 else graph
        yield upright, [_fit(upright, *pair, form == 2) for pair in pairs]


def _fit(graph: Graph, ahead: Port, behind: Port, flat: bool) -> _Fit | str:
    state, last = graph.tensors[ahead.tensor], graph.tensors[behind.tensor]
    if not same_quantisation(state, last):
        return "its scale or zero point differs from that of the output"
    cut, front = _cut_rows(graph, state)
    readers = graph.consumers(front.name)
    if len(readers) != 1:
        return "it is not concatenated in front of new rows"
    join = find_join(graph, readers[0], front.name, flat)
    if isinstance(join, str):
        return join
    if state.bytes % join.row or front.bytes % join.row:
        return f"its {state.bytes} bytes are no rows of {join.row}"
    if not _is_last_rows(graph, join, ahead, behind):
        return f"'{behind.name}' is not the last {state.shape[0]} rows"
    return _Fit(join, front.bytes // join.row, cut, flat)


def _cut_rows(graph: Graph, state: Tensor) -> tuple[tuple[Node, ...], Tensor]:
    """Returns the nodes that remove a state's first bytes, if nothing else reads it, and the tensor
    that remains."""
    nodes: list[Node] = []
    front, places = state, np.arange(state.bytes)
    while len(readers := graph.consumers(front.name)) == 1:
        rest = graph.tensors[readers[0].outputs[0]]
        moved = moved_from(readers[0], np.arange(rest.bytes))
        if moved is None or not same_quantisation(state, rest):
            break
        places = places[moved]
        if not np.array_equal(places, np.arange(state.bytes)[-rest.bytes :]):
            break
        nodes, front = [*nodes, readers[0]], rest
    return tuple(nodes), front


def _difference(ahead: Port, behind: Port) -> str:
    """Returns why an output cannot be the next value of an input; "" if it can."""
    more = [b - a for a, b in zip(ahead.file_shape, behind.file_shape, strict=False) if a != b]
    fits = ahead.dtype == behind.dtype and len(ahead.file_shape) == len(behind.file_shape)
    if not fits or len(more) > 1 or min(more, default=0) < 0:
        return f"they are {ahead.dtype} {ahead.file_shape} and {behind.dtype} {behind.file_shape}"
    return f"it contains {ahead.dtype} elements" if ahead.is_wide else ""


def _is_last_rows(graph: Graph, join: Join, ahead: Port, behind: Port) -> bool:
    """True if an output is the last rows of a join, in the order of the file's input."""
    ends = {join.whole, join.new if join.table is None else ""}
    name = behind.tensor
    places = np.arange(graph.tensors[name].bytes)
    while name not in ends:
        maker = graph.producer(name)
        found = moved_from(maker, places) if maker is not None else None
        if maker is None or found is None:
            return False
        places = found
        name = maker.inputs[0]
    whole, state = graph.tensors[name].bytes, graph.tensors[ahead.tensor].bytes
    wanted = _to_file_order(graph, ahead, np.arange(whole - state, whole))
    return np.array_equal(latest(_to_file_order(graph, behind, places), ahead), wanted)


def _to_file_order(graph: Graph, port: Port, values: np.ndarray) -> np.ndarray:
    """Rearranges values of a port's tensor to the order and shape of the file."""
    image = values.reshape(graph.tensors[port.tensor].shape)
    axes = ["hwc".index(axis) for axis in port.layout[1:]]
    return image.transpose(axes).reshape(port.file_shape)


def _replace_by_padding(
    graph: Graph, fits: Sequence[_Fit | str], pairs: Sequence[tuple[Port, Port]]
) -> Graph:
    """The graph of a first call: padding in place of each state."""
    states = {port.name for port, _ in pairs}
    source = next((port.tensor for port in graph.inputs if port.name not in states), "")
    gone: set[int] = set()
    made: dict[int, list[Node]] = {}
    tensors = dict(graph.tensors)
    for fit in fits:
        assert isinstance(fit, _Fit)
        gone.update(id(node) for node in (*fit.cut, *fit.join.nodes))
        made[id(fit.join.nodes[-1])] = _pad(tensors, fit, source)
    parts = [made.get(id(node), [node] * (id(node) not in gone)) for node in graph.nodes]
    nodes = tuple(node for part in parts for node in part)
    ports = {port.tensor for port, _ in pairs}
    tensors = {name: one for name, one in tensors.items() if name not in ports}
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


def _pad(tensors: dict[str, Tensor], fit: _Fit, source: str) -> list[Node]:
    """Returns the nodes that put padding in front of new rows."""
    join, nodes = fit.join, list[Node]()
    whole, name = tensors[join.whole], join.new

    def add(label: str, op: Op | None, like: Tensor, shape: Shape, out: str = "") -> None:
        nonlocal name
        assert op is not None
        made = out or f"{whole.name}/{label}"
        tensors[made] = replace(like, name=made, shape=shape)
        nodes.append(Node(made, op, (name,), (made,)))
        name = made

    row, table = (1, 1, join.row), join.table
    if not join.new:
        name, table = source, np.full(256, join.byte, np.int8)
        add("byte", Move.of(np.zeros(row, np.int64)), tensors[source], row)
    if table is not None:
        add("new", Lookup(table), whole, tensors[name].shape)
    if fit.flat:
        add("row", Reshape(), tensors[name], row)
    pad = Pad(((fit.rows, 0), (0, 0), (0, 0)), whole.zero_point)
    if fit.flat:
        add("rows", pad, whole, (fit.rows + 1, 1, join.row))
    add("", Reshape() if fit.flat else pad, whole, whole.shape, whole.name)
    return nodes
