# SPDX-License-Identifier: Apache-2.0
"""Benchmarks of a model that keeps its rows. `asdict` of a StreamBench is the JSON of `vmcu bench
MODEL --hop N --json`."""

from __future__ import annotations

import functools
import tempfile
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from vmcu_tools.boards.counts import Counts
from vmcu_tools.emit import emit
from vmcu_tools.plan.plan import Plan
from vmcu_tools.plan.turns import first_rows, macs_of_hop

from ..cores.instructions import Spent
from ..runners.base import RunnerError
from ..runners.compiled import MODEL_NAME
from ..runners.counting import CountingRunner, blocks_of, calls_in, markers_of
from ..runners.qemu import QemuRunner
from ..verify.stream import meaning, stream_of
from .model import LayerBench, board, compiler, cycles_of, row
from .timing import said_of

# Hops that are counted, and compared with whole windows.
HOPS = 128


@dataclass(frozen=True)
class StreamBench:
    """The costs of a hop: the `hop` calls of vmcu_push_row() that lead from one answer to the next.

    instructions, cycles: of a hop on average over `hops` of them; `_worst`: of the most expensive
    one, number `worst_hop` of them; `_first`: of all rows up to the first answer. `layers` and
    `executor` are a hop's costs of them on average.
    """

    model: str
    target: str
    window: int
    hop: int
    hops: int
    macs: int
    instructions: float
    instructions_worst: int
    instructions_first: int
    worst_hop: int
    cycles: float | None
    cycles_worst: int | None
    stack_bytes: int
    layers: tuple[LayerBench, ...]
    executor: LayerBench
    compiler: str
    timing: str


@dataclass(frozen=True, eq=False)
class _Run:
    """The costs of some rows. counts, cycles: the executor's, then each layer's; calls:
    instructions of each call of vmcu_push_row()."""

    counts: list[Counts]
    cycles: list[Spent] | None
    calls: list[int]
    answers: np.ndarray

    @property
    def total(self) -> float | None:
        return None if self.cycles is None else sum(spent.total for spent in self.cycles)

    def since(self, before: _Run) -> float | None:
        """Cycles beyond those of a run of fewer rows."""
        if self.total is None or before.total is None:
            return None
        return self.total - before.total


@dataclass(frozen=True, eq=False)
class StreamSubject:
    """The counted image, which `build` makes in a folder. begun: rows up to its first answer;
    layers: names, kinds, multiply-accumulates a hop; wanted: the answers to rows."""

    plan: Plan
    begun: int
    layers: tuple[tuple[str, str, int], ...]
    build: Callable[[Path], Path]
    wanted: Callable[[np.ndarray], Iterable[np.ndarray]]


def bench(
    plan: Plan, name: str, target: str, seed: int = 0, keep: Path | None = None
) -> StreamBench:
    """Counts a stream on an emulated board. keep: a folder for its image. Raises RunnerError if
    answers are not those of whole windows."""
    machine = board(target).suited(plan)
    files = emit(plan, MODEL_NAME).files
    subject = StreamSubject(
        plan,
        first_rows(plan),
        tuple(
            (step.node.name, step.node.kind, macs)
            for step, macs in zip(plan.steps, macs_of_hop(plan), strict=True)
        ),
        lambda folder: machine.build(files, MODEL_NAME, folder),
        functools.partial(meaning, plan),
    )
    return counted(subject, machine, name, target, seed, keep)


def counted(
    subject: StreamSubject,
    machine: QemuRunner,
    name: str,
    target: str,
    seed: int,
    keep: Path | None,
) -> StreamBench:
    """bench() of a subject."""
    plan, begun = subject.plan, subject.begun
    rows, hop = (
        stream_of(plan.model, plan.graph.state.step_rows, HOPS + 1, seed),
        plan.graph.state.step_rows,
    )
    with tempfile.TemporaryDirectory(prefix="vmcu-") as text:
        folder = Path(text)
        image = subject.build(folder)

        def run(hops: int) -> _Run:
            return _counted(machine, image, plan, rows[: begun + hops * hop])

        first, all_ = run(0), run(HOPS)
        costs = np.array(all_.calls[begun:]).reshape(HOPS, hop).sum(axis=1)
        worst = int(costs.argmax())
        peak = run(worst + 1).since(run(worst))
        cycles = all_.since(first)
        if keep is not None:
            machine.keep(image, keep, name)
    _check(subject.wanted(rows), all_.answers, target)
    executor, *layers = _hop(subject, first, all_)
    return StreamBench(
        name,
        target,
        plan.model.tensors[plan.model.inputs[0].tensor].shape[0],
        hop,
        HOPS,
        sum(macs for _, _, macs in subject.layers),
        round(float(costs.mean()), 1),
        int(costs[worst]),
        sum(first.calls),
        worst,
        None if cycles is None else round(cycles / HOPS, 1),
        None if peak is None else round(peak),
        all_.counts[0].stack_bytes,
        tuple(layers),
        executor,
        compiler(machine),
        said_of(machine),
    )


def _counted(machine: QemuRunner, image: Path, plan: Plan, rows: np.ndarray) -> _Run:
    folder = image.parent
    counting = CountingRunner.of(machine, markers_of(image, MODEL_NAME))
    answers, counts = counting.count(folder, lambda t: t.stream(image, plan, rows))
    cycles = cycles_of(machine, image, blocks_of(folder), len(counts))
    return _Run(counts, cycles, calls_in(folder).sum(axis=1).tolist(), answers)


def _hop(subject: StreamSubject, first: _Run, all_: _Run) -> list[LayerBench]:
    """The executor and each layer in a hop, on average."""
    named = [("(between layers)", "executor", 0), *subject.layers]
    rows, none = [], [None] * len(named)
    for who, *parts in zip(
        named,
        first.counts,
        all_.counts,
        first.cycles or none,
        all_.cycles or none,
        strict=True,
    ):
        before, after, started, ended = parts
        spent = None if ended is None else _mean(started, ended)
        rows.append(row(*who, _mean(before, after), spent, None))
    return rows


def _mean(before: Any, after: Any) -> Any:
    """Returns the mean of a hop, from counts or cycles with and without the hops."""
    kind = type(after)
    means = ((getattr(after, f) - getattr(before, f)) / HOPS for f in vars(after))
    return kind(*(round(mean) if kind is Counts else mean for mean in means))


def _check(wanted: Iterable[np.ndarray], answers: Iterable[np.ndarray], target: str) -> None:
    """Raises RunnerError where answers are not those that are wanted."""
    for hop, (one, answer) in enumerate(zip(wanted, answers, strict=False)):
        wrong = np.count_nonzero(one != answer)
        if wrong:
            raise RunnerError(f"{target}: {wrong} bytes of hop {hop} are wrong")
