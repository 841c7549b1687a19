# SPDX-License-Identifier: Apache-2.0
"""What each technique of placement and ordering is worth: a table of run.py.

Buffers have a known optimum (benchmarks/placement), graphs are those of benchmarks/dags and
benchmarks/training. The clock of the searches is that of the CPU, so that other load does not
count.
"""

from __future__ import annotations

import random
import sys
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path
from typing import Any

ROOT = Path(__file__).resolve().parents[2]
for beside in ("paper", "placement", "dags"):
    sys.path.append(str(ROOT / "benchmarks" / beside))
sys.path.append(str(ROOT / "tests" / "python"))

import generate  # noqa: E402
import known  # noqa: E402
from builders.dags import long_graph  # noqa: E402
from clocks import cpu_clock  # noqa: E402
from pages import Table  # noqa: E402
from vmcu_lab.placement import (  # noqa: E402
    Buffer,
    Gap,
    Instance,
    PlacementParams,
    graphs,
    place,
)
from vmcu_lab.placement.graph_files import NamedGraph, NamedTensor  # noqa: E402
from vmcu_lab.placement.memories import MemoryBank, place_in  # noqa: E402
from vmcu_lab.placement.params import DEFAULT_PLACEMENT  # noqa: E402
from vmcu_lab.placement.spilling import Prices, need_of, solve_within  # noqa: E402
from vmcu_tools.ordering import best_order  # noqa: E402

from scripts import script  # noqa: E402

STEPS = ROOT / "benchmarks" / "training" / "steps"
FEW, MANY, LARGE = 200, 1000, 10_000
SECONDS = {"few": 3.0, "many": 8.0, "soon": 1.0, "gaps": 3.0, "memories": 3.0, "graphs": 30.0}
BUFFERS: dict[str, dict[str, Any]] = {
    "skyline": {"skyline": False},
    "branch and bound": {"valleys": ()},
    "ejection": {"ejection": False},
    "blocks": {"blocks": False},
    "stacked pairs": {"block_pairs": False},
}
PLANS: dict[str, dict[str, Any]] = {"offsets in the file's order": {"own_order": False}}
NODES = 2000
SHAPES, SIZES = ("layers", "near", "any", "series"), (20, 40, 60, 100, 200)
SEEDS, ORDER_WORK = 1, 3_000_000


@dataclass(frozen=True)
class Cost:
    """Sums over problems: bytes (or cost), bounds, proven optima, and CPU seconds."""

    found: int
    bound: int
    optimal: int
    seconds: float


def few() -> Iterator[Instance]:
    """Rectangles of a few hundred buffers."""
    for family in generate.FAMILIES.values():
        rows = enumerate(generate.generate(family, FEW, 0))
        yield Instance(tuple(Buffer(str(number), *row) for number, row in rows))


def many() -> Iterator[Instance]:
    """Rectangles of a thousand buffers and of ten thousand."""
    yield known.cut(MANY, MANY // 5, 1)
    for name in ("pinwheel", "long"):
        rows = enumerate(generate.generate(generate.FAMILIES[name], MANY, 0))
        yield Instance(tuple(Buffer(str(number), *row) for number, row in rows))
    yield known.cut(LARGE, LARGE // 5, 1)


def drawn(seed: int, count: int) -> Instance:
    """Buffers with gaps and accesses."""
    dice = random.Random(seed)
    buffers = []
    for number in range(count):
        lower, length = dice.randrange(2 * count), dice.randint(8, 40)
        size, gap = dice.randint(1, 500), dice.randint(1, 5)
        gaps = (Gap(lower + 2, lower + 2 + gap, 0, size // 4),) if dice.random() < 0.5 else ()
        accesses = dice.randint(1, 20) * size
        buffers.append(
            Buffer(str(number), lower, lower + length, size, gaps=gaps, accesses=accesses)
        )
    return Instance(tuple(buffers))


def gapped() -> Iterator[Instance]:
    yield from (drawn(seed, 60) for seed in range(4))


def heights(
    problems: Callable[[], Iterator[Instance]], seconds: float, params: PlacementParams
) -> Cost:
    """Heights of placements."""
    start = time.process_time()
    found = [place(one, None, seconds, 1, params=params) for one in problems()]
    spent = time.process_time() - start
    bytes_ = sum(one.height for one in found), sum(one.bound for one in found)
    return Cost(*bytes_, sum(one.is_optimal for one in found), spent)


def memories(params: PlacementParams) -> Cost:
    """Costs of divisions between two memories."""
    banks = (MemoryBank("fast", 1500, 0.0), MemoryBank("slow", 1 << 20, 1.0))
    start = time.process_time()
    found = []
    for seed in range(4):
        plain = tuple(replace(b, gaps=()) for b in drawn(seed, 80).buffers)
        placed = place_in(Instance(plain), banks, SECONDS["memories"], 1, params)
        assert placed is not None, "the slow memory has room for all"
        found.append(placed)
    sums = round(sum(one.cost for one in found)), round(sum(one.bound for one in found))
    return Cost(*sums, sum(one.is_optimal for one in found), time.process_time() - start)


def orders(params: PlacementParams) -> Cost:
    """Peaks of orders of random graphs."""
    dags = script("dags", "benchmarks/dags/run.py")
    graphs_ = [dags.draw(count, shape, seed) for count in SIZES for shape in SHAPES
               for seed in range(SEEDS)]  # fmt: skip
    params = replace(params, order_work=ORDER_WORK, order_small_work=ORDER_WORK)
    start = time.process_time()
    found = [best_order(graph, params=params) for graph in graphs_]
    sums = sum(one.peak for one in found), sum(one.bound for one in found)
    return Cost(*sums, sum(one.is_proven for one in found), time.process_time() - start)


def steps() -> list[NamedGraph]:
    """Training steps."""
    return [graphs.read(path) for path in sorted(STEPS.glob("*.json"))]


def plans(named: Callable[[], list[NamedGraph]], seconds: float, params: PlacementParams) -> Cost:
    """Heights of graphs, order and offsets."""
    start = time.process_time()
    found = [graphs.solve(one, seconds, 1, params=params) for one in named()]
    spent = time.process_time() - start
    sums = sum(one.height for one in found), sum(one.bound for one in found)
    return Cost(*sums, sum(one.is_optimal for one in found), spent)


def limits(params: PlacementParams) -> Cost:
    """Bytes copied in 30 % of what graphs need beyond what they cannot do without; the bound is 0,
    or what is copied where that is proven."""
    start = time.process_time()
    found = []
    for graph in small():
        need, peak = need_of(graph)[0], best_order(graph.tasks, params=params).peak
        room = round(need + 0.3 * (peak - need))
        found.append(solve_within(graph, room, Prices(1.0, 1 << 40), 5.0, params=params))
    spent = time.process_time() - start
    proven = [one.cost for one in found if one.is_optimal]
    return Cost(round(sum(one.cost for one in found)), round(sum(proven)), len(proven), spent)


def small() -> list[NamedGraph]:
    """Random graphs whose tensors have sizes that a limit shows."""
    found = []
    for seed in range(40):
        tasks = script("dags", "benchmarks/dags/run.py").draw(14, SHAPES[seed % 4], seed)
        sizes = tuple(1000 * size for size in tasks.sizes)
        names = tuple(f"n{number}" for number in range(len(tasks.tasks)))
        tensors = tuple(
            NamedTensor(f"t{number}", size, 1, None, number) for number, size in enumerate(sizes)
        )
        found.append(NamedGraph(tensors, names, replace(tasks, sizes=sizes)))
    return found


# By group of problems, how they are solved and what is switched off.
GROUPS: dict[str, tuple[Callable[[PlacementParams], Cost], dict[str, dict[str, Any]]]] = {
    "hundreds of buffers": (partial(heights, few, SECONDS["few"]), BUFFERS),
    "thousands of buffers": (partial(heights, many, SECONDS["many"]), BUFFERS),
    "thousands of buffers, in 1 second": (
        partial(heights, many, SECONDS["soon"]),
        {"skyline": {"skyline": False}},
    ),
    "buffers with gaps": (
        partial(heights, gapped, SECONDS["gaps"]),
        {"local search of orders": {"first_fit_rounds": 0}},
    ),
    "two memories (cost)": (memories, {"more than two orders": {"memory_orders": 2}}),
    "orders of graphs": (
        orders,
        {
            "beams": {"beam_width": 0},
            "backward search": {"backward": False},
            "windows": {"windows": False},
            "free moves": {"free_moves": False, "dominance": False},
            "dominance": {"dominance": False},
            "proofs": {"proof_work": 0},
        },
    ),
    "training graphs": (partial(plans, steps, SECONDS["graphs"]), PLANS),
    "small graphs within a limit (copied)": (
        limits,
        {"search of all orders": {"spilling_exact": False}},
    ),
    "graphs of 500 nodes, in no time": (
        partial(plans, lambda: [long_graph(seed, 500) for seed in range(12)], 0.0),
        {"first fit": {"first_fit_most": 0}},
    ),
    "graph of 2,000 nodes": (
        partial(plans, lambda: [long_graph(7, NODES)], SECONDS["graphs"]),
        {**PLANS, "ejection": {"ejection": False}},
    ),
}


def table() -> Table:
    """For each group a row with all techniques, and one for each that is off."""
    rows = []
    with cpu_clock():
        for group, (measure, off) in GROUPS.items():
            for technique, changes in {"": {}, **off}.items():
                cost = measure(replace(DEFAULT_PLACEMENT, **changes))
                name = f"without {technique}" if technique else "all techniques"
                figures = f"{cost.found:,}", f"{cost.bound:,}", f"{cost.optimal}"
                rows.append((f"{group}: {name}", *figures, f"{cost.seconds:.1f}"))
                print(*rows[-1], file=sys.stderr, flush=True)
    columns = ("problems", "bytes", "bound", "optimal", "CPU seconds")
    return Table("Placement without a technique", columns, tuple(rows))
