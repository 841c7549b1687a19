# SPDX-License-Identifier: Apache-2.0
"""A graph some of whose inputs are to be given what an output was in the call before.

Formats without variables have streaming models written so: an input of the latest rows of a tensor,
put in front of the new ones, and an output of the last rows of both. A first call sees zeros there,
all later ones the rows that were: the concatenation is padding, and the graph keeps a state.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass, replace

import numpy as np

from ..errors import Problem, UserError
from ..graph import Graph, Node, Op, Port, State, Tensor
from ..ops.concat import Concat
from ..ops.lookup import Lookup
from ..ops.move import Move
from ..ops.pad import Pad
from ..quant import INT8_MAX, INT8_MIN
from .carried import goes_on
from .rewrite import free_name, moved_from, same_quantisation
from .turned import turned

STATE_OPTION = "--state"
NONE = "none"
REMEDY = "export the model with an output of the same shape and type for each state input"
# What names of a state say besides which one it is, before a call and after it.
PAST_WORDS = {"in", "input", "prev", "previous", "past", "old", "initial"}
PRESENT_WORDS = {"out", "output", "next", "new", "present", "updated"}
# As Hugging Face names a cache, whose output is "present".
CACHE = "past_key_values"
# As exporters of recurrent layers number steps: the first, and the one behind the last.
FIRST, LAST = re.compile(r"^([a-z]+)0$"), re.compile(r"^([a-z]+)n$")


@dataclass(frozen=True)
class _Fit:
    """Where a state goes: the concatenation that has it in front, of which it has `rows` rows, and
    the node, if there is one, that cuts off the state's first rows before."""

    join: Node
    rows: int
    cut: Node | None = None


def fed_back(graph: Graph, pairs: Sequence[str] | None = None) -> Graph:
    """The graph that keeps the states which `pairs` name, each as "input:output"; None: all whose
    names say so and that fit. Raises UserError for one that does not fit, or is not there."""
    unwanted = pairs is not None and tuple(pairs) in ((), (NONE,))
    if graph.state.names or unwanted or len(graph.inputs) < 2:
        if pairs and not unwanted:
            reason = "no input can receive an output of the previous call"
            raise UserError(Problem(reason, f"leave out {STATE_OPTION}", graph.origin))
        return graph
    if pairs is None:
        found = recognised(graph)
        return graph if not found else _keeping(graph, found)
    named = [_named(graph, pair) for pair in pairs]
    _check_once(graph, named)
    for ahead, behind in named:
        reason = _unlike(ahead, behind)
        if reason:
            reason = f"output '{behind.name}' cannot be fed back as input '{ahead.name}': {reason}"
            raise UserError(Problem(reason, REMEDY, graph.origin))
    return _keeping(graph, named)


def _keeping(graph: Graph, pairs: Sequence[tuple[Port, Port]]) -> Graph:
    """With rings for its states, if that is what all of them are."""
    upright, fits = _fitting(graph, pairs)
    if any(isinstance(fit, str) for fit in fits):
        return _computed(graph, pairs)
    kept = _without(upright, fits, pairs)
    return kept if goes_on(kept) else _computed(graph, pairs)


def recurs(graph: Graph) -> bool:
    """True if states are among its inputs and outputs still: layers compute them."""
    return bool({ahead for ahead, _ in graph.state.pairs} & {port.name for port in graph.inputs})


def _computed(graph: Graph, pairs: Sequence[tuple[Port, Port]]) -> Graph:
    """The graph whose outputs have bytes as its inputs take them: with the input first."""
    names = {ahead.name for ahead, _ in pairs}
    ins = sorted(graph.inputs, key=lambda port: port.name in names)
    graph = replace(graph, inputs=tuple(ins), state=_state_of(pairs))
    for ahead, behind in pairs:
        graph = _alike(graph, ahead, behind)
    return graph


def _alike(graph: Graph, ahead: Port, behind: Port) -> Graph:
    """With what it takes for an output to be what the next call's input is, byte for byte."""
    before, after = (graph.tensors[port.tensor] for port in (ahead, behind))
    index = np.empty(before.bytes, np.int64)
    index[_places(graph, ahead)] = _places(graph, behind)
    index = index.reshape(before.shape)
    ops: list[Op] = []
    if before.shape != after.shape or not np.array_equal(index.ravel(), np.arange(index.size)):
        move = Move.of(index)
        if move is None:
            reason = f"'{behind.name}' has its axes in another order than '{ahead.name}'"
            raise UserError(Problem(reason, REMEDY, graph.origin))
        ops.append(move)
    if ahead.dtype == "float32" and not same_quantisation(before, after):
        ops.append(Lookup(_table(after, before)))
    name = after.name
    for op in ops:
        out = free_name(graph, f"{behind.name} as {ahead.name}")
        told = before if op is ops[-1] else replace(before, scale=after.scale, zero_point=0)
        node = Node(f"state {behind.name}", op, (name,), (out,))
        graph = replace(
            graph,
            tensors={**graph.tensors, out: replace(told, name=out)},
            nodes=(*graph.nodes, node),
        )
        name = out
    ports = tuple(replace(p, tensor=name) if p.name == behind.name else p for p in graph.outputs)
    return replace(graph, outputs=ports)


def _places(graph: Graph, port: Port) -> np.ndarray:
    """Where in its tensor a port's values are, in the order of the file."""
    return _in_file(graph, port, np.arange(graph.tensors[port.tensor].bytes))


def _table(source: Tensor, target: Tensor) -> np.ndarray:
    """Real numbers of one quantisation in another, as runtimes make and take them."""
    steps = np.arange(INT8_MIN, INT8_MAX + 1, dtype=np.float32) - np.float32(source.zero_point)
    real = steps * np.float32(source.scale)
    found = np.rint(real / np.float32(target.scale)) + target.zero_point
    table: np.ndarray = np.clip(found, INT8_MIN, INT8_MAX).astype(np.int8)
    return table


def recognised(graph: Graph) -> list[tuple[Port, Port]]:
    """Inputs and outputs that are states by their names, and fit."""
    ins, outs = ([(key(p.name, words), p) for p in ports] for ports, words in _sides(graph))
    found = []
    for name, ahead in ins:
        mine = [port for other, port in outs if other == name]
        alone = [other for other, _ in ins].count(name) == 1
        if name and alone and len(mine) == 1:
            found.append((ahead, mine[0]))
    found = [pair for pair in found if not _unlike(*pair)]
    _, fits = _fitting(graph, found)
    rings = [pair for pair, fit in zip(found, fits, strict=True) if not isinstance(fit, str)]
    more = len(graph.inputs) > len(found) and len(graph.outputs) > len(found)
    return found if more else rings


def key(name: str, words: set[str]) -> tuple[str, ...]:
    """What a name says of a state besides whether it is before or after a call; words: those that
    say that."""
    name = name.lower().replace(CACHE, "past")
    parts = [part for part in re.split(r"[^a-z0-9]+", name) if part]
    step = FIRST if words is PAST_WORDS else LAST
    shorter = [match[1] if (match := step.match(part)) else part for part in parts]
    if parts == shorter or words & set(parts):
        return tuple(part for part in parts if part not in words)
    return tuple(shorter)


def _sides(graph: Graph) -> tuple[tuple[tuple[Port, ...], set[str]], ...]:
    return (graph.inputs, PAST_WORDS), (graph.outputs, PRESENT_WORDS)


def _named(graph: Graph, pair: str) -> tuple[Port, Port]:
    """The ports that "input:output" means; names may have colons themselves."""
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


def _fitting(graph: Graph, pairs: Sequence[tuple[Port, Port]]) -> tuple[Graph, list[_Fit | str]]:
    """By pair where the state goes, or why it cannot be one, in a graph whose time is H."""
    for upright in (graph, turned(graph)):
        fits = [_fit(upright, *pair) for pair in pairs]
        if not any(isinstance(fit, str) for fit in fits):
            return upright, fits
    return upright, fits


def _fit(graph: Graph, ahead: Port, behind: Port) -> _Fit | str:
    state, last = graph.tensors[ahead.tensor], graph.tensors[behind.tensor]
    if not same_quantisation(state, last):
        return "their scales or zero points differ"
    cut, front = _only_last_rows(graph, state)
    readers = graph.consumers(front.name)
    join = readers[0] if len(readers) == 1 else None
    op = join.op if join is not None else None
    if join is None or not isinstance(op, Concat) or op.axis != 0:
        return f"'{ahead.name}' is not concatenated in front of new rows"
    if len(join.inputs) != 2 or join.inputs[0] != front.name or join.inputs[1] == front.name:
        return f"'{ahead.name}' is not concatenated in front of new rows"
    if any(table is not None for table in op.tables):
        return "the scale or zero point differs from that of the new rows"
    if not _gets_last_rows(graph, join, ahead, behind):
        return f"'{behind.name}' is not the last {state.shape[0]} rows"
    return _Fit(join, front.shape[0], cut)


def _only_last_rows(graph: Graph, state: Tensor) -> tuple[Node | None, Tensor]:
    """What leaves out the first rows of a state, if that is all that is done with it, and what is
    left."""
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


def _unlike(ahead: Port, behind: Port) -> str:
    """Why an output's values are none of an input; "" if they are."""
    if (ahead.file_shape, ahead.dtype) != (behind.file_shape, behind.dtype):
        return f"they are {ahead.dtype} {ahead.file_shape} and {behind.dtype} {behind.file_shape}"
    return f"it contains {ahead.dtype} elements" if ahead.is_wide else ""


def _gets_last_rows(graph: Graph, join: Node, ahead: Port, behind: Port) -> bool:
    """True if an output is the last rows of what a node joins, in the order in which the file has
    them as an input."""
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
    return np.array_equal(_in_file(graph, behind, places), _in_file(graph, ahead, wanted))


def _in_file(graph: Graph, port: Port, values: np.ndarray) -> np.ndarray:
    """What a port has in its tensor's order, in the order of the file."""
    image = values.reshape(graph.tensors[port.tensor].shape)
    return np.ravel(image.transpose(2, 0, 1) if port.layout == "nchw" else image)


def _without(graph: Graph, fits: Sequence[_Fit | str], pairs: Sequence[tuple[Port, Port]]) -> Graph:
    """The graph of a first call."""
    pads = {id(fit.join): fit.rows for fit in fits if isinstance(fit, _Fit)}
    cuts = {id(fit.cut) for fit in fits if isinstance(fit, _Fit)}
    left = (node for node in graph.nodes if id(node) not in cuts)
    nodes = tuple(_padded(graph, node, pads.get(id(node), 0)) for node in left)
    ins, outs = ({port.name for port in side} for side in zip(*pairs, strict=True))
    return replace(
        graph,
        nodes=nodes,
        inputs=tuple(port for port in graph.inputs if port.name not in ins),
        outputs=tuple(port for port in graph.outputs if port.name not in outs),
        tensors={n: t for n, t in graph.tensors.items() if n not in {p.tensor for p, _ in pairs}},
        state=_state_of(pairs),
    )


def _state_of(pairs: Sequence[tuple[Port, Port]]) -> State:
    names = tuple((ahead.name, behind.name) for ahead, behind in pairs)
    return State(names=tuple(ahead for ahead, _ in names), pairs=names)


def _padded(graph: Graph, node: Node, rows: int) -> Node:
    if not rows:
        return node
    zero = graph.tensors[node.outputs[0]].zero_point
    return replace(node, op=Pad(((rows, 0), (0, 0), (0, 0)), zero), inputs=node.inputs[1:])
