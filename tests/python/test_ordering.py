# SPDX-License-Identifier: Apache-2.0
"""Orders of anybody's tasks: held against all orders of tiny graphs, and against plain searches."""

from __future__ import annotations

import functools
import itertools
import random
import subprocess
import sys
from typing import Any

import pytest
from drawn import seeds
from vmcu_lab.placement import PlacementParams
from vmcu_tools.ordering import Ordering, best_order
from vmcu_tools.ordering.bounds import least_peak
from vmcu_tools.ordering.direction import Direction
from vmcu_tools.ordering.search import OrderSearch
from vmcu_tools.ordering.sweep import Sweep
from vmcu_tools.ordering.tasks import CycleError, GraphTask, TaskGraph, usage
from vmcu_tools.ordering.windows import Smoother

TINY = 1000
# Here a task that was ready before must not count as one that another one leads to.
RARE = 119_554


def tiny(seed: int) -> TaskGraph:
    """Up to eight tasks, with everything that a task may have."""
    dice = random.Random(seed)
    sizes = [dice.choice((0, 1, 5, 10, 20)) for _ in range(dice.randint(0, 2))]
    tasks: list[GraphTask] = []
    for number in range(dice.randint(1, 8)):
        known = range(len(sizes))
        inputs = tuple(dice.sample(known, min(len(known), dice.randint(0, 3))))
        shared = tuple(dice.randint(0, sizes[t]) for t in inputs) if dice.random() < 0.5 else ()
        made = range(len(sizes), len(sizes) + dice.choice((0, 1, 1, 1, 2)))
        sizes += [dice.randint(0, 30) for _ in made]
        after = (dice.randrange(number),) if number and dice.random() < 0.2 else ()
        # Outputs share bytes with inputs as far as both have some.
        left = sum(sizes[t] for t in made)
        least = []
        for amount in shared:
            least.append(min(amount, left))
            left -= least[-1]
        tasks.append(GraphTask(inputs, tuple(made), after, dice.choice((0, 0, 7)), tuple(least)))
    kept = frozenset(t for t in range(len(sizes)) if dice.random() < 0.2)
    return TaskGraph(tuple(sizes), tuple(tasks), kept)


def wide(seed: int, count: int, shape: str) -> TaskGraph:
    """Random graphs: tasks in layers, or that read others near by, or any."""
    dice = random.Random(seed)
    tasks: list[GraphTask] = []
    layer, before = [], [0]
    for number in range(count):
        if shape == "layers":
            if len(layer) >= dice.randint(1, 9):
                before, layer = layer, []
            reads = {dice.choice(before) for _ in range(dice.randint(1, 2))}
            layer.append(number)
        elif shape == "near":
            reads = {dice.randrange(max(0, number - 15), max(number, 1)) for _ in range(2)}
        else:
            reads = {other for other in range(number) if dice.random() < 2.4 / count}
        tasks.append(GraphTask(tuple(sorted(reads - {number})), (number,)))
    return TaskGraph(tuple(dice.randint(1, 100) for _ in range(count)), tuple(tasks))


def peak_of(graph: TaskGraph, order: tuple[int, ...]) -> int:
    """The worst moment of an order, by sets of what is alive."""
    done: set[int] = set()
    made = {t for task in graph.tasks for t in task.outputs}

    def needed(tensor: int) -> bool:
        readers = {n for n, task in enumerate(graph.tasks) if tensor in task.inputs}
        return tensor in graph.kept or not readers <= done

    alive = {t for t in range(len(graph.sizes)) if t not in made and needed(t)}
    peak = sum(graph.sizes[t] for t in alive)
    for number in order:
        task = graph.tasks[number]
        before = sum(graph.sizes[t] for t in alive)
        assert set(task.after) <= done and set(task.inputs) <= alive
        done.add(number)
        dying = [t for t in dict.fromkeys(task.inputs) if not needed(t)]
        saved = sum(dict(zip(task.inputs, task.shared, strict=False)).get(t, 0) for t in dying)
        out = sum(graph.sizes[t] for t in task.outputs)
        peak = max(peak, task.scratch + max(before, before + out - saved))
        alive = {t for t in (*alive, *task.outputs) if needed(t)}
        peak = max(peak, sum(graph.sizes[t] for t in alive))
    assert len(done) == len(graph.tasks)
    return peak


def best_of_all(graph: TaskGraph) -> int:
    """The smallest peak of all orders, set by set without any rule."""
    best = {0: graph.at_start}
    every = (1 << len(graph.tasks)) - 1
    need = [sum(1 << other for other in others) for others in graph.predecessors]

    def alive(done: int) -> int:
        total = 0
        for tensor, size in enumerate(graph.sizes):
            maker, readers = graph.maker.get(tensor), graph.readers[tensor]
            here = maker is None or done >> maker & 1
            left = tensor in graph.kept or any(not done >> reader & 1 for reader in readers)
            total += size if here and left else 0
        return total

    for done in range(every + 1):
        if done not in best:
            continue
        before = alive(done)
        for number, task in enumerate(graph.tasks):
            if done >> number & 1 or need[number] & ~done:
                continue
            after = done | 1 << number
            shares = dict(zip(task.inputs, task.shared, strict=False))
            saved = sum(
                amount
                for t, amount in shares.items()
                if t not in graph.kept and all(after >> reader & 1 for reader in graph.readers[t])
            )
            out = sum(graph.sizes[t] for t in task.outputs)
            step = task.scratch + max(before, before + out - saved)
            best[after] = min(best.get(after, 1 << 60), max(best[done], step))
    return best[every]


def plain_beam(graph: TaskGraph, width: int) -> int:
    """The peak that a beam search over sets finds, small peaks and then few bytes alive first."""
    need = [sum(1 << other for other in others) for others in graph.predecessors]
    readers = [sum(1 << n for n in numbers) for numbers in graph.readers]
    states = {0: (graph.at_start, graph.at_start)}
    for _ in graph.tasks:
        found: dict[int, tuple[int, int]] = {}
        for done, (peak, now) in states.items():
            for number, task in enumerate(graph.tasks):
                if done >> number & 1 or need[number] & ~done:
                    continue
                after = done | 1 << number
                freed = sum(graph.sizes[t] for t in task.inputs if not readers[t] & ~after)
                out = sum(graph.sizes[t] for t in task.outputs)
                left = sum(graph.sizes[t] for t in task.outputs if readers[t])
                entry = max(peak, now + out), now + left - freed
                if after not in found or entry < found[after]:
                    found[after] = entry
        states = dict(sorted(found.items(), key=lambda item: item[1])[:width])
    return min(peak for peak, _ in states.values())


@functools.cache
def ordered(seed: int, count: int, shape: str) -> Ordering:
    return best_order(wide(seed, count, shape))


def test_tiny_graphs_have_the_best_of_all_orders_and_true_bounds() -> None:
    for seed in range(TINY):
        graph = tiny(seed)
        best = best_of_all(graph)
        found = best_order(graph)
        assert found.is_proven and found.peak == best == peak_of(graph, found.order), seed
        assert least_peak(graph) <= best, seed
        assert usage(graph, found.order).peak == found.peak


OFF = (
    {"beam_width": 0},
    {"backward": False},
    {"windows": False},
    {"free_moves": False, "dominance": False},
    {"dominance": False},
    {"proof_work": 0},
)


@pytest.mark.parametrize("off", OFF, ids=str)
def test_each_technique_can_be_switched_off(off: dict[str, Any]) -> None:
    for seed in range(TINY // 10):
        graph = tiny(seed)
        found = best_order(graph, params=PlacementParams(**off))
        assert found.bound <= best_of_all(graph) <= found.peak == peak_of(graph, found.order)


@pytest.mark.parametrize("effort", (1, 50, 400))
def test_bounds_are_true_however_little_is_searched(effort: int) -> None:
    for seed in range(TINY // 4):
        graph = tiny(seed)
        found = best_order(graph, effort)
        assert found.bound <= best_of_all(graph) <= found.peak == peak_of(graph, found.order)


@pytest.mark.parametrize("backwards", (False, True))
@pytest.mark.parametrize("rules", ((True, True), (True, False), (False, False)))
def test_each_way_finds_the_best_and_shows_that_nothing_is_better(
    backwards: bool, rules: tuple[bool, bool]
) -> None:
    params = PlacementParams(free_moves=rules[0], dominance=rules[1])
    for seed in (*range(TINY // 4), RARE):
        graph = tiny(seed)
        best, way = best_of_all(graph), Direction(graph, backwards, params=params)
        order, complete = Sweep(way, 0, best + 1).run(1 << 30, 1 << 30)
        assert order is not None and complete and peak_of(graph, tuple(order)) == best
        assert Sweep(way, best - 1, best).run(1 << 30, 1 << 30) == (None, True)


@pytest.mark.parametrize("shape", ("layers", "near", "any"))
@pytest.mark.parametrize("count", (20, 40, 60))
@pytest.mark.parametrize("seed", seeds(2, 1))
def test_random_graphs_of_up_to_sixty_tasks_are_proven(seed: int, count: int, shape: str) -> None:
    assert ordered(seed, count, shape).is_proven


@pytest.mark.parametrize("shape", ("layers", "near", "any"))
@pytest.mark.parametrize("count", (20, 60, 100))
def test_never_worse_than_the_files_order_eager_choices_or_a_wide_beam(
    count: int, shape: str
) -> None:
    graph, found = wide(0, count, shape), ordered(0, count, shape)
    assert found.peak == peak_of(graph, found.order)
    assert found.peak <= min(plain_beam(graph, 300), peak_of(graph, tuple(range(count))))
    eager, state = [], set()
    while len(eager) < count:
        ready = [n for n in range(count) if n not in state and set(graph.predecessors[n]) <= state]

        def after(number: int) -> int:
            rest = [n for n in range(count) if n not in state and n != number]
            read = {t for n in rest for t in graph.tasks[n].inputs}
            return sum(graph.sizes[t] for t in {*state, number} & read)

        eager.append(min(ready, key=after))
        state.add(eager[-1])
    assert found.peak <= peak_of(graph, tuple(eager))


@pytest.mark.parametrize("seed", range(3))
def test_beams_are_of_full_width_where_no_effort_is_left(seed: int) -> None:
    graph = wide(seed, 60, "any")
    peaks = []
    for thorough in (False, True):
        search = OrderSearch(graph, 2_000, lambda bound, peak: None, thorough)
        search.run()
        peaks.append(search.peak)
        assert search.left <= 0
    assert peaks[1] < peaks[0]


def test_two_thousand_tasks_have_a_better_order_than_their_own() -> None:
    graph = wide(1, 2000, "near")
    found = best_order(graph, 1_000_000)
    own = peak_of(graph, tuple(range(2000)))
    assert found.peak == peak_of(graph, found.order) < 0.8 * own


def test_a_stretch_is_made_better_where_the_order_is_worst() -> None:
    graph = wide(3, 300, "near")
    before = list(range(300))
    smoother = Smoother(graph, before)
    smoother.run(300_000, 0)
    after = usage(graph, smoother.order)
    assert tuple(smoother.steps) == after.steps and tuple(smoother.alive) == after.alive
    assert after.peak == smoother.peak < usage(graph, before).peak


def test_a_cycle_is_named() -> None:
    tasks = (
        GraphTask((2,), (0,)),
        GraphTask((0,), (1,)),
        GraphTask((1,), (2,)),
        GraphTask((), (3,)),
    )
    with pytest.raises(CycleError) as error:
        best_order(TaskGraph((1, 1, 1, 1), (*tasks, GraphTask((), (3,)))))
    cycle = error.value.tasks
    assert sorted(cycle) == [0, 1, 2]
    assert all((one + 1) % 3 == other for one, other in itertools.pairwise(cycle))


def test_an_interruption_keeps_the_best_so_far(monkeypatch: pytest.MonkeyPatch) -> None:
    def interrupted(self: OrderSearch, way: Direction, whole: bool) -> None:
        raise KeyboardInterrupt

    monkeypatch.setattr(OrderSearch, "beam", interrupted)
    graph = wide(0, 60, "any")
    with pytest.raises(KeyboardInterrupt):
        best_order(graph)
    found = best_order(graph, keep=True)
    assert found.bound < found.peak == peak_of(graph, found.order)


def test_bound_and_peak_are_told_as_they_get_better() -> None:
    told: list[tuple[int, int]] = []
    found = best_order(wide(0, 60, "layers"), watch=lambda bound, peak: told.append((bound, peak)))
    assert told[-1] == (found.bound, found.peak)
    assert all(a[0] <= b[0] and a[1] >= b[1] for a, b in itertools.pairwise(told))


def test_the_same_order_on_every_run() -> None:
    asked = (
        "import sys; sys.path[:0] = ['tests/python']; from test_ordering import wide, best_order; "
        "print(best_order(wide(0, 60, 'near')).order)"
    )
    runs = {
        subprocess.run(
            [sys.executable, "-c", asked],
            env={"PYTHONHASHSEED": seed, "PYTHONPATH": ":".join(sys.path)},
            cwd=sys.path[0] + "/../..",
            capture_output=True,
            text=True,
            check=True,
        ).stdout
        for seed in ("1", "2")
    }
    assert runs == {f"{ordered(0, 60, 'near').order}\n"}
