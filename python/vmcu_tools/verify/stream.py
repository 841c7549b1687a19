# SPDX-License-Identifier: Apache-2.0
"""A model that keeps its rows from hop to hop, against the file's runtime on each whole window.

The target gets one stream of rows, once. The runtime gets each position of the window by itself and
computes all of it; it keeps nothing. Where the file has variables, it gets the new rows alone.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path

import numpy as np

from .. import oracle, runners
from ..errors import Problem, UserError
from ..graph import Graph, Port, Tensor
from ..machine import reference
from ..oracle import whole
from ..passes.moving import moving
from ..passes.recurring import attached
from ..plan.plan import Plan
from ..progress import bar
from ..quant import INT8_MAX, INT8_MIN
from ..runners.borders import to_file, to_memory
from ..runners.samples import random_values
from ..runners.stream import streamed

# Rows of one kind of sound: noise, then a constant, then noise that is clipped.
SPELL = 97
QUIET, LOUD = 1, 2


@dataclass(frozen=True)
class Against:
    """`differing` of `bytes` of the answers differ from what `judge` makes of whole windows, in
    `wrong` hops, by at most `largest`; `strict`: none may."""

    judge: str
    strict: bool
    bytes: int
    differing: int
    wrong: int
    largest: int


@dataclass(frozen=True)
class StreamVerification:
    """`hops` of a stream on a target, whose window of `window` rows moves by `hop`; `keeps`: the
    file keeps its state by itself, and its window is the rows of a call."""

    model: str
    target: str
    hop: int
    window: int
    hops: int
    judged: tuple[Against, ...]
    keeps: bool

    @property
    def passed(self) -> bool:
        return self.hops > 0 and not any(one.strict and one.differing for one in self.judged)


def verify(plan: Plan, target: str, hops: int, seed: int) -> StreamVerification:
    """Runs a stream of so many hops on a target and through the runtime. Raises UserError where
    either cannot."""
    graph = plan.model
    rows = stream_of(graph, plan.graph.hop, hops, seed)
    found = streamed(runners.get(target), plan, rows)
    said, exact, runtime = judge(graph)
    each = bar(list(windows(graph, rows, plan.graph.hop)), "runtime")
    judged = [against(said, exact, found, [runtime(window) for window in each])]
    if not exact:
        # Steps that the runtime is off in one node are more behind the next.
        wanted = list(meaning(plan, rows))
        judged.append(against("the reference", True, found, wanted))
    height = graph.tensors[graph.inputs[0].tensor].shape[0]
    return StreamVerification(
        model=graph.name,
        target=target,
        hop=plan.graph.hop,
        window=height,
        hops=len(found),
        judged=tuple(judged),
        keeps=bool(graph.states),
    )


def against(said: str, strict: bool, found: np.ndarray, wanted: Sequence[np.ndarray]) -> Against:
    """Answers int8 (hops, bytes) beside those of a judge."""
    off = np.abs(found.astype(np.int64) - np.stack(wanted))
    wrong = int(off.any(axis=1).sum())
    return Against(said, strict, off.size, int(np.count_nonzero(off)), wrong, int(off.max()))


def stream_of(graph: Graph, hop: int, hops: int, seed: int) -> np.ndarray:
    """Rows for so many hops, int8 (rows, W, C): spells of noise, of silence and of clipping."""
    tensor = graph.tensors[graph.inputs[0].tensor]
    rng = np.random.default_rng(seed)
    if graph.fields:
        every = [_calls_of(rng, one.port, one.tensor, hops) for one in graph.fields]
        return np.concatenate([rows.reshape(hops, 1, -1) for rows in every], axis=2)
    count = tensor.shape[0] + (hops - 1) * hop
    return _rows(rng, graph.inputs[0], tensor, count)


def _calls_of(rng: np.random.Generator, port: Port, tensor: Tensor, calls: int) -> np.ndarray:
    """What an input is given by so many calls, int8 (calls, H * W, C)."""
    height, width, channels = tensor.shape
    flat = replace(tensor, shape=(1, height * width, channels))
    return _rows(rng, port, flat, calls)


def _rows(rng: np.random.Generator, port: Port, tensor: Tensor, count: int) -> np.ndarray:
    """int8 (count, W, C)."""
    if port.below:
        return random_values(rng, port, (count, *tensor.shape[1:]))
    rows = rng.integers(INT8_MIN, INT8_MAX + 1, (count, *tensor.shape[1:]))
    for number, start in enumerate(range(0, count, SPELL)):
        spell = rows[start : start + SPELL]
        if number % 4 == QUIET:
            spell[:] = tensor.zero_point
        elif number % 4 == LOUD:
            spell[:] = np.clip(4 * spell, INT8_MIN, INT8_MAX)
    return rows.astype(np.int8)


def windows(graph: Graph, rows: np.ndarray, hop: int) -> Iterator[np.ndarray]:
    """Each position of the window."""
    height = graph.tensors[graph.inputs[0].tensor].shape[0]
    for start in range(0, len(rows) - height + 1, hop):
        yield rows[start : start + height]


def meaning(plan: Plan, rows: np.ndarray) -> Iterator[np.ndarray]:
    """What each hop of a stream means, int8 (bytes,), outputs one behind the other: of whole
    windows, or, where a file keeps its state, of all rows up to there."""
    graph, hop = plan.model, plan.graph.hop
    names = [port.tensor for port in graph.outputs]
    if graph.recurs:
        yield from _calls(graph, rows.reshape(-1, *graph.tensors[graph.inputs[0].tensor].shape))
        return
    if graph.states:
        found = reference.run(moving(graph, hop, len(rows) // hop), [rows])
        yield from found[names[0]].reshape(len(rows) // hop, -1)
        return
    for window in windows(graph, rows, hop):
        found = reference.run(graph, [window])
        yield np.concatenate([np.ravel(found[name]) for name in names])


def _calls(graph: Graph, calls: np.ndarray) -> Iterator[np.ndarray]:
    """What calls mean, one after the other, of a graph whose layers compute its states."""
    whole = attached(graph)
    shapes = [graph.tensors[one.ahead].shape for one in graph.recurs]
    begins = zip(shapes, graph.recurs, strict=True)
    states = [np.full(shape, one.begin, np.int8) for shape, one in begins]
    for rows in calls:
        found = reference.run(whole, [rows, *states])
        made = [found[one.made] for one in graph.recurs]
        states = [state.reshape(shape) for state, shape in zip(made, shapes, strict=True)]
        yield np.concatenate([np.ravel(found[port.tensor]) for port in graph.outputs])


class _State:
    """What a runtime is given in place of variables: of each state the output of the call before.
    `file`: the graph of the file as it is, with inputs and outputs for them."""

    def __init__(self, graph: Graph, file: Graph):
        self.file, self.outs = file, {behind: ahead for ahead, behind in graph.fed}
        self.held = {}
        for port in file.inputs:
            tensor = file.tensors[port.tensor]
            zeros = np.full(tensor.shape, tensor.zero_point, np.int8)
            self.held[port.name] = to_file(zeros, file, port)

    def before(self, given: Mapping[str, np.ndarray]) -> list[np.ndarray]:
        """All inputs of a call."""
        states = self.outs.values()
        return [(self.held if p.name in states else given)[p.name] for p in self.file.inputs]

    def after(self, values: Sequence[np.ndarray]) -> list[np.ndarray]:
        """The outputs of a call that are no state."""
        named = {port.name: one for port, one in zip(self.file.outputs, values, strict=True)}
        self.held |= {ahead: named[behind] for behind, ahead in self.outs.items()}
        return [one for name, one in named.items() if name not in self.outs]


def _given(window: np.ndarray, graph: Graph, file: Graph) -> dict[str, np.ndarray]:
    """What a window int8 (H, W, C) is in the file, by input."""
    if not graph.fields:
        port = graph.inputs[0]
        return {port.name: to_file(window, graph, port)}
    bytes_of = np.split(window.ravel(), [one.first for one in graph.fields[1:]])
    named = {one.port.name: part for one, part in zip(graph.fields, bytes_of, strict=True)}
    return {p.name: to_file(named[p.name], file, p) for p in file.inputs if p.name in named}


def judge(graph: Graph) -> tuple[str, bool, Callable[[np.ndarray], np.ndarray]]:
    """The file's runtime: its name, whether it computes what the graph means in every byte, and
    what it makes of a window int8 (H, W, C): its outputs' bytes, one behind the other."""
    theirs = oracle.open(graph.origin)
    state = _State(graph, theirs.graph)
    try:
        run, exact = whole.runner(Path(graph.origin), theirs.graph)
    except whole.UnfitError as error:
        raise UserError(Problem(str(error), "leave out --hop", graph.origin)) from error
    exact = exact and theirs.equals(theirs.graph)

    def of_window(window: np.ndarray) -> np.ndarray:
        values = state.after(run(state.before(_given(window, graph, theirs.graph))))
        pairs = zip(values, graph.outputs, strict=True)
        found = [np.ravel(to_memory(one, graph, port)) for one, port in pairs]
        return np.concatenate(found).astype(np.int64)

    return "the file's own runtime", exact, of_window
