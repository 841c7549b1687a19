# SPDX-License-Identifier: Apache-2.0
"""The proof of two workers finds each wait that is missing, late or too short, and lists that do
not compute an inference."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import replace
from typing import Any

import numpy as np
import pytest
from builders.teams import random_plan
from drawn import seeds
from random_graphs import Builder, convolution
from random_networks import wide
from vmcu_tools import paths
from vmcu_tools.compiler import compile_model
from vmcu_tools.errors import PlanError
from vmcu_tools.graph import Window
from vmcu_tools.machine.events import planned_calls
from vmcu_tools.machine.workers import prove
from vmcu_tools.ops.pad import Pad
from vmcu_tools.plan.plan import Plan, pool_scratch
from vmcu_tools.plan.workers import Entry, Wait, WorkerTask
from vmcu_tools.planner.options import CompileOptions
from vmcu_tools.planner.registry import make_plan
from vmcu_tools.planner.workers.pieces import CallPiece, pieces_of
from vmcu_tools.planner.workers.share import share

# Of the damages to a plan's waits.
DRAWN = 24
# Both workers compute columns of a layer that needs scratch in the pool.
SCRATCH_SEED = 7
# A ring buffer splits rows of a Pad, whose kernel computes whole ones.
SPLIT_SEED = 114
# Rows are written over bytes of the same kernel's input that it does not read: a strided
# convolution, a kernel written by hand.
UNREAD_SEEDS = (385, 264)

# The second worker's scratch and longer ring buffers of `wide` make it faster.
WORTH_SEED = 0

Entries = tuple[Entry, ...]


def check(plan: Plan) -> None:
    prove(plan)


def with_entries(plan: Plan, worker: int, entries: Sequence[Entry]) -> Plan:
    assert plan.team is not None
    lists = list(plan.team.entries)
    lists[worker] = tuple(entries)
    return replace(plan, team=replace(plan.team, entries=tuple(lists)))


def damages(entries: Entries, exact: bool) -> Iterator[Entries]:
    """The list with one of its waits removed; if waits are exact, also with it behind the task that
    needs it, or too short."""
    for at, wait in enumerate(entries):
        if isinstance(wait, Wait):
            before, behind = entries[:at], entries[at + 1 :]
            yield (*before, *behind)
            if exact:
                yield (*before, Wait(wait.tasks - 1), *behind)
            if exact and behind:
                yield (*before, behind[0], wait, *behind[1:])


@pytest.mark.parametrize("seed", seeds(80, 8))
def test_each_wait_is_needed(seed: int) -> None:
    plan = random_plan(seed)
    assert plan.team is not None
    check(plan)
    # The planner orders tasks by the step's scratch before it gives some of them their own.
    exact = plan.team.scratch_bytes == 0
    damaged = [
        with_entries(plan, worker, entries)
        for worker, its in enumerate(plan.team.entries)
        for entries in damages(its, exact)
    ]
    chosen = np.random.default_rng(seed).permutation(len(damaged))[:DRAWN]
    for number in chosen:
        with pytest.raises(PlanError):
            check(damaged[number])


@pytest.fixture(scope="module")
def digits() -> Plan:
    path = paths.root() / "samples" / "digits" / "digits.onnx"
    return compile_model(path, CompileOptions(workers=2))


def entries_of(plan: Plan, worker: int) -> tuple[Entries, int, WorkerTask]:
    """A worker's list, and its last task with its place."""
    assert plan.team is not None
    entries = plan.team.entries[worker]
    at, task = [(n, one) for n, one in enumerate(entries) if isinstance(one, WorkerTask)][-1]
    return entries, at, task


@pytest.mark.parametrize("worker", [0, 1])
def test_lists_that_are_no_inference(digits: Plan, worker: int) -> None:
    entries, at, task = entries_of(digits, worker)
    layers, before, behind = len(digits.steps), entries[:at], entries[at + 1 :]
    for others, said in (
        ((), "do not compute each call"),
        ((task, task), "do not compute each call"),
        ((task._replace(step=layers),), "there is no"),
        ((task._replace(y=99),), "there is no"),
        ((task._replace(x=99),), "there is no"),
        ((task._replace(columns=0),), "computes whole rows"),
        ((Wait(10_000), task), "waits for ever"),
    ):
        with pytest.raises(PlanError, match=said):
            check(with_entries(digits, worker, (*before, *others, *behind)))


def test_only_rings_split_rows_of_kernels_that_compute_whole_ones() -> None:
    plan = random_plan(SPLIT_SEED)
    check(plan)
    (number,) = [n for n, step in enumerate(plan.steps) if isinstance(step.node.op, Pad)]
    worker, task = next(
        (worker, one)
        for worker in (0, 1)
        for one in entries_of(plan, worker)[0]
        if isinstance(one, WorkerTask) and one[:2] == (number, 0)
    )
    entries = entries_of(plan, worker)[0]
    halves = task._replace(columns=1), task._replace(x=1, columns=task.columns - 1)
    at = entries.index(task)
    with pytest.raises(PlanError, match="computes whole rows"):
        check(with_entries(plan, worker, (*entries[:at], *halves, *entries[at + 1 :])))


@pytest.mark.parametrize("seed", UNREAD_SEEDS)
def test_bytes_that_no_task_reads_may_be_gone(seed: int) -> None:
    check(random_plan(seed))


def test_bytes_that_a_task_reads_may_not_be_gone(digits: Plan) -> None:
    """One worker does all tasks, in order and not."""
    assert digits.team is not None
    calls = [call for n in range(len(digits.stages)) for call in planned_calls(digits, n)]
    numbers = {id(step): number for number, step in enumerate(digits.steps)}
    tasks = [WorkerTask(numbers[id(step)], call.y, call.x, call.columns) for step, _, call in calls]
    alone = with_entries(with_entries(digits, 0, tasks), 1, ())
    check(alone)
    with pytest.raises(PlanError, match=r"of tensor '.*' \(pool byte .*\) is gone"):
        check(with_entries(alone, 0, (*tasks[:-2], tasks[-1], tasks[-2])))


def test_two_waits_for_each_other(digits: Plan) -> None:
    damaged = digits
    for worker in (0, 1):
        damaged = with_entries(damaged, worker, (Wait(1), *entries_of(digits, worker)[0]))
    with pytest.raises(PlanError, match="waits for ever"):
        check(damaged)


def test_scratch_that_a_worker_does_not_have() -> None:
    """The first worker has none but the step's; the second one's has to be large enough."""
    plan = random_plan(SCRATCH_SEED)
    assert plan.team is not None
    none = replace(plan, team=replace(plan.team, scratch_bytes=0))
    own = {
        one.step for one in plan.team.entries[1] if isinstance(one, WorkerTask) and one.own_scratch
    }
    first = [
        one._replace(own_scratch=True) if isinstance(one, WorkerTask) and one.step in own else one
        for one in plan.team.entries[0]
    ]
    for damaged in (none, with_entries(plan, 0, first)):
        with pytest.raises(PlanError, match="cannot work in its worker's scratch"):
            check(damaged)


def test_scratch_that_ends_beyond_the_pool() -> None:
    plan = random_plan(SCRATCH_SEED)
    for beyond in (0, 1):
        moved = [
            [
                replace(step, scratch=plan.pool_bytes - size + beyond) if size else step
                for step, size in ((one, pool_scratch(one.bind(plan.graph))) for one in stage)
            ]
            for stage in plan.stages
        ]
        damaged = replace(plan, stages=tuple(map(tuple, moved)))
        with pytest.raises(PlanError) as error:
            check(damaged)
        assert ("its scratch ends beyond the pool" in str(error.value)) == bool(beyond)


def test_the_search_ends(monkeypatch: pytest.MonkeyPatch) -> None:
    """A share that one try finds, and what the search says when it has no more pieces."""
    module = "vmcu_tools.planner.workers.share"
    tried = []

    def counted(*arguments: Any) -> list[CallPiece]:
        tried.append(arguments)
        return pieces_of(*arguments)

    monkeypatch.setattr(f"{module}.pieces_of", counted)
    plan = make_plan(wide(WORTH_SEED), CompileOptions(), prove=False)
    assert not any("search" in note for note in share(plan).notes)
    assert len(tried) > 1
    tried.clear()
    monkeypatch.setattr(f"{module}.MOST_PIECES", 0)
    assert "The search of a share ended after" in share(plan).notes[-1]
    assert len(tried) == 1


def test_a_small_gain_is_not_worth_bytes(monkeypatch: pytest.MonkeyPatch) -> None:
    plan = make_plan(wide(WORTH_SEED), CompileOptions(), prove=False)
    monkeypatch.setattr("vmcu_tools.planner.workers.share.LEAST_GAIN", 0.0)
    most = share(plan)
    monkeypatch.setattr("vmcu_tools.planner.workers.share.LEAST_GAIN", 1.0)
    least = share(plan)
    assert plan.pool_bytes == least.ram_bytes < most.ram_bytes
    assert least.team and most.team and most.team.cycles < least.team.cycles


def test_scratch_for_which_there_is_no_room() -> None:
    """A network whose only kernel needs more scratch than the second worker can have."""
    b = Builder(np.random.default_rng(0))
    window = Window((3, 3), (1, 1), (1, 1), (1, 1, 1, 1))
    out = convolution(b, b.input((4, 4, 64)), window, 4, 4, 32)
    plan = share(make_plan(b.graph([out.name]), prove=False))
    assert plan.team is not None and plan.team.scratch_bytes == 0
    assert plan.team.count(1) == 0
    check(plan)
