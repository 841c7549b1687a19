# SPDX-License-Identifier: Apache-2.0
"""A model that keeps its rows from hop to hop, against the file's runtime on each whole window.

The target gets one stream of rows, once. The runtime gets each position of the window by itself and
computes all of it; it keeps nothing. Where the file has variables, it gets the new rows alone.

Where each node equals the runtime's in every byte, so must the answers. Elsewhere steps of states
add up from call to call. There the target's bytes must be those of the file's graph in numpy with
states of its own. And each call of the runtime is judged by itself, from the inputs and states that
the runtime has: node by node, and from end to end, as verify.py does with a model without state.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace

import numpy as np
from vmcu_tools.graph import Graph, Port, Tensor
from vmcu_tools.machine import reference
from vmcu_tools.passes.state.concatenate import concatenate_calls
from vmcu_tools.passes.state.recurrent import attach_states
from vmcu_tools.plan.plan import Plan
from vmcu_tools.progress import bar
from vmcu_tools.quant import INT8_MAX, INT8_MIN

from .. import runners
from ..oracle import node_differences, pooled
from ..runners.samples import random_values
from ..runners.stream import streamed
from .end_to_end import EndToEnd, border_of
from .file_runtime import FileRuntime, RuntimeCall
from .verify import Check, Tally, check_of

# Rows of one kind of sound: noise, then a constant, then noise that is clipped.
SPELL = 97
QUIET, LOUD = 1, 2
RUNTIME = "the file's own runtime"
REFERENCE = "the reference"
NOT_COMPARED = EndToEnd(())


@dataclass(frozen=True)
class Against:
    """`differing` of `bytes` of the answers differ from the results of `judge` on whole windows, in
    `wrong` hops, by at most `largest` steps; `allowed`: how many may be, None for any number."""

    judge: str
    allowed: int | None
    bytes: int
    differing: int
    wrong: int
    largest: int

    @property
    def strict(self) -> bool:
        return self.allowed == 0

    @property
    def passed(self) -> bool:
        return self.allowed is None or self.largest <= self.allowed


@dataclass(frozen=True)
class StreamVerification:
    """`hops` of a stream on a target, whose window of `window` rows moves by `hop`; `keeps`: the
    file keeps its state by itself, and its window is the rows of a call. `checks` are the nodes of
    the file in the runtime's own calls, `ends` its outputs there, with those that are states; both
    are empty where each answer must be the runtime's."""

    model: str
    target: str
    hop: int
    window: int
    hops: int
    judged: tuple[Against, ...]
    keeps: bool
    checks: tuple[Check, ...] = ()
    ends: EndToEnd = NOT_COMPARED

    @property
    def passed(self) -> bool:
        judged = any(one.strict for one in self.judged) and all(one.passed for one in self.judged)
        every = all(check.passed for check in self.checks)
        return self.hops > 0 and judged and every and self.ends.passed


def verify(plan: Plan, target: str, hops: int, seed: int) -> StreamVerification:
    """Runs a stream of so many hops on a target and through the runtime. Raises UserError where
    either cannot."""
    graph = plan.model
    rows = stream_of(graph, plan.graph.state.step_rows, hops, seed)
    target_answers = streamed(runners.get(target), plan, rows)
    runtime = FileRuntime(graph)
    each = list(windows(graph, rows, plan.graph.state.step_rows))
    calls = [runtime.call(window) for window in bar(each, "runtime")]
    answers = [runtime.answer(call.outputs) for call in calls]
    checks: tuple[Check, ...] = ()
    ends = NOT_COMPARED
    if runtime.exact:
        judged = [against(RUNTIME, 0, target_answers, answers)]
    elif runtime.keeps:
        # Its nodes are exact but for those that make outputs.
        judged = [
            against(RUNTIME, runtime.steps, target_answers, answers),
            against(REFERENCE, 0, target_answers, list(meaning(plan, rows))),
        ]
    else:
        own = list(runtime.reference(bar(each, "reference")))
        judged = [
            against(RUNTIME, None, target_answers, answers),
            against(REFERENCE, 0, target_answers, own),
        ]
        height = each[0].shape[0]
        first = [_is_patterned(n * plan.graph.state.step_rows, height) for n in range(len(each))]
        checks, ends = judge_calls(runtime, calls, first, seed)
    return StreamVerification(
        model=graph.name,
        target=target,
        hop=plan.graph.state.step_rows,
        window=graph.tensors[graph.inputs[0].tensor].shape[0],
        hops=len(target_answers),
        judged=tuple(judged),
        keeps=bool(graph.state.names),
        checks=checks,
        ends=ends,
    )


def judge_calls(
    runtime: FileRuntime, calls: Sequence[RuntimeCall], patterned: Sequence[bool], seed: int
) -> tuple[tuple[Check, ...], EndToEnd]:
    """Judges calls of the runtime by themselves: its nodes, each over all calls, and its outputs.
    patterned: of each call whether its rows are."""
    file, tally = runtime.file, Tally()
    rng = np.random.default_rng(seed)
    # Neighbours may be alike, and an output is compared with the difference between two of them.
    order = rng.permutation(len(calls))
    order = order[np.argsort(np.array(patterned)[order], kind="stable")]
    runs, made = [], []
    for number in bar(list(order), "comparing"):
        ins = calls[number].inputs
        runs.append(node_differences(file, runtime.oracle.run(runtime.memory(ins))))
        made.append(runtime.computed(ins))
    drawn = len(calls) - sum(patterned)
    for some, is_drawn in ((runs[:drawn], True), (runs[drawn:], False)):
        for off in pooled(some) if some else ():
            tally.add(check_of(runtime.oracle, off, drawn=is_drawn))
    borders = tuple(
        border_of(
            [values[n] for values in made],
            [calls[number].outputs[n] for number in order],
            file,
            port,
            False,
            drawn or len(calls),
        )
        for n, port in enumerate(file.outputs)
    )
    return tuple(tally.checks.values()), EndToEnd(borders)


def against(
    said: str, allowed: int | None, answers: np.ndarray, wanted: Sequence[np.ndarray]
) -> Against:
    """Answers int8 (hops, bytes) beside those of a judge."""
    off = np.abs(answers.astype(np.int64) - np.stack(wanted))
    wrong = int(off.any(axis=1).sum())
    return Against(said, allowed, off.size, int(np.count_nonzero(off)), wrong, int(off.max()))


def stream_of(graph: Graph, hop: int, hops: int, seed: int) -> np.ndarray:
    """Rows for so many hops, int8 (rows, W, C): spells of noise, of silence and of clipping."""
    tensor = graph.tensors[graph.inputs[0].tensor]
    rng = np.random.default_rng(seed)
    if graph.state.row_fields:
        every = [_calls_of(rng, one.port, one.tensor, hops) for one in graph.state.row_fields]
        return np.concatenate([rows.reshape(hops, 1, -1) for rows in every], axis=2)
    count = tensor.shape[0] + (hops - 1) * hop
    return _rows(rng, graph.inputs[0], tensor, count)


def _calls_of(rng: np.random.Generator, port: Port, tensor: Tensor, calls: int) -> np.ndarray:
    """Draws an input for so many calls, int8 (calls, H * W, C)."""
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


def _is_patterned(start: int, height: int) -> bool:
    """True if a window of a stream has rows of _rows() that are not plain noise."""
    spells = range(start // SPELL, (start + height - 1) // SPELL + 1)
    return any(number % 4 in (QUIET, LOUD) for number in spells)


def windows(graph: Graph, rows: np.ndarray, hop: int) -> Iterator[np.ndarray]:
    """Each position of the window."""
    height = graph.tensors[graph.inputs[0].tensor].shape[0]
    for start in range(0, len(rows) - height + 1, hop):
        yield rows[start : start + height]


def meaning(plan: Plan, rows: np.ndarray) -> Iterator[np.ndarray]:
    """Yields the reference result of each hop of a stream, int8 (bytes,), outputs one behind the
    other: of whole windows, or, where a file keeps its state, of all rows up to there."""
    graph, hop = plan.model, plan.graph.state.step_rows
    names = [port.tensor for port in graph.outputs]
    if graph.state.recurrent:
        yield from _calls(graph, rows.reshape(-1, *graph.tensors[graph.inputs[0].tensor].shape))
        return
    if graph.state.names:
        calls = len(rows) // hop
        results = reference.run(concatenate_calls(graph, hop, calls), [rows])
        yield from np.concatenate([results[name].reshape(calls, -1) for name in names], axis=1)
        return
    for window in windows(graph, rows, hop):
        results = reference.run(graph, [window])
        yield np.concatenate([np.ravel(results[name]) for name in names])


def _calls(graph: Graph, calls: np.ndarray) -> Iterator[np.ndarray]:
    """Yields the reference results of calls, one after the other, of a graph whose layers compute
    its states."""
    whole = attach_states(graph)
    shapes = [graph.tensors[one.before].shape for one in graph.state.recurrent]
    begins = zip(shapes, graph.state.recurrent, strict=True)
    states = [np.full(shape, one.initial, np.int8) for shape, one in begins]
    for rows in calls:
        results = reference.run(whole, [rows, *states])
        made = [results[one.after] for one in graph.state.recurrent]
        states = [state.reshape(shape) for state, shape in zip(made, shapes, strict=True)]
        yield np.concatenate([np.ravel(results[port.tensor]) for port in graph.outputs])
