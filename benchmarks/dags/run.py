# SPDX-License-Identifier: Apache-2.0
"""Orders random graphs and holds the peaks against searches that everybody writes first.

    python benchmarks/dags/run.py [TABLE] [--nodes 20 60 ...] [--seeds 2] [--write doc/placement.md]

dags: orders of small graphs. large: order and offsets of large ones within a minute of CPU.
File order, the ready node that leaves the fewest bytes alive, and a beam of 300 sets of nodes that
have run. These are written here and share no line with what they are held against.
"""

from __future__ import annotations

import heapq
import random
import sys
import time
from dataclasses import dataclass
from functools import cached_property, partial
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
sys.path += [str(ROOT / "benchmarks" / "paper"), str(ROOT / "tests" / "python")]

from builders.dags import long_graph  # noqa: E402
from clocks import cpu_clock  # noqa: E402
from manifests import Behind  # noqa: E402
from pages import Table, options, show  # noqa: E402
from vmcu_lab.placement import graphs  # noqa: E402
from vmcu_lab.placement.graph_files import NamedGraph  # noqa: E402
from vmcu_tools.ordering import best_order  # noqa: E402
from vmcu_tools.ordering.tasks import GraphTask, TaskGraph  # noqa: E402
from vmcu_tools.report.runs import RAM  # noqa: E402

COLUMNS = ("nodes", "graphs", "file order", "eager", "beam of 300", "this order", "bound",
           "proven", "worse", "seconds")  # fmt: skip
# Of larger ones the plain beam here takes minutes each: --nodes 1000 2000.
NODES = (20, 40, 60, 100, 200, 500)
SHAPES = ("layers", "near", "any", "series")
WIDTH = 300
# Rows that a test computes again.
QUICK = (20, 40)
NAME, LARGE = "dags", "large"
LARGE_COLUMNS = ("graph", "nodes", "worst step", "placed", "above", "bound", "CPU seconds")
LARGE_SECONDS = 60.0


def series(count: int, dice: random.Random) -> list[set[int]]:
    """Chains between a fork and a join, one after the other, as cells of networks are."""
    reads: list[set[int]] = [set()]
    while len(reads) < count:
        fork, ends = len(reads) - 1, set()
        for _ in range(dice.randint(2, 5)):
            last = fork
            for _ in range(dice.randint(1, 4)):
                reads.append({last})
                last = len(reads) - 1
            ends.add(last)
        reads.append(ends)
    return reads[:count]


def draw(count: int, shape: str, seed: int) -> TaskGraph:
    """A graph of so many nodes with a tensor each, of 1 to 100 bytes."""
    dice = random.Random(f"{count} {shape} {seed}")
    reads: list[set[int]] = []
    layer: list[int] = []
    before = [0]
    if shape == "series":
        reads = series(count, dice)
    for number in range(count if shape != "series" else 0):
        if shape == "layers":
            if len(layer) >= dice.randint(1, 9):
                before, layer = layer, []
            found = {dice.choice(before) for _ in range(dice.randint(1, 2))} if number else set()
            layer.append(number)
        elif shape == "near":
            found = {dice.randrange(max(0, number - 15), max(number, 1)) for _ in range(2)}
        else:
            found = {other for other in range(number) if dice.random() < 2.4 / count}
        reads.append(found - {number})
    tasks = tuple(GraphTask(tuple(sorted(r)), (n,)) for n, r in enumerate(reads))
    return TaskGraph(tuple(dice.randint(1, 100) for _ in range(count)), tasks)


class Plain:
    """A graph as lists, a node with one output each, by number."""

    def __init__(self, graph: TaskGraph):
        self.size = graph.sizes
        self.reads = [task.inputs for task in graph.tasks]
        self.count = len(self.reads)
        self.readers: list[list[int]] = [[] for _ in self.reads]
        for number, inputs in enumerate(self.reads):
            for other in inputs:
                self.readers[other].append(number)
        self.need = [sum(1 << other for other in inputs) for inputs in self.reads]
        self.used = [sum(1 << other for other in readers) for readers in self.readers]

    @cached_property
    def first(self) -> frozenset[int]:
        """Nodes that wait for none."""
        return frozenset(n for n in range(self.count) if not self.reads[n])

    def step(self, done: int, now: int, number: int) -> tuple[int, int]:
        """Bytes while a node runs, and alive behind it."""
        after = done | 1 << number
        during = now + self.size[number]
        freed = sum(
            self.size[other] for other in self.reads[number] if not self.used[other] & ~after
        )
        left = self.size[number] if self.readers[number] else 0
        return during, now + left - freed

    def file(self) -> int:
        """The peak of the order in which nodes are numbered."""
        done = now = peak = 0
        for number in range(self.count):
            during, now = self.step(done, now, number)
            done |= 1 << number
            peak = max(peak, during)
        return peak

    def eager(self) -> int:
        """That of always the ready node that leaves the fewest bytes alive."""
        done = now = peak = 0
        ready = set(self.first)
        while ready:
            number = min(ready, key=lambda n: (self.step(done, now, n)[1], n))
            during, now = self.step(done, now, number)
            done |= 1 << number
            peak = max(peak, during)
            ready.discard(number)
            ready |= {n for n in self.readers[number] if not self.need[n] & ~done}
        return peak

    def beam(self, width: int) -> int:
        """That of a beam over sets of nodes, small peaks and then few bytes alive first."""
        states = [(0, 0, 0, self.first)]
        for _ in range(self.count):
            found: dict[int, tuple[int, int, int, int]] = {}
            for at, (peak, now, done, ready) in enumerate(states):
                for number in ready:
                    during, left = self.step(done, now, number)
                    after = done | 1 << number
                    entry = max(peak, during), left, at, number
                    if after not in found or entry[:2] < found[after][:2]:
                        found[after] = entry
            kept = heapq.nsmallest(width, found.items(), key=lambda item: item[1][:2])
            states = [
                (peak, now, done, self.behind(done, states[at][3], number))
                for done, (peak, now, at, number) in kept
            ]
        return min(state[0] for state in states)

    def behind(self, done: int, ready: frozenset[int], number: int) -> frozenset[int]:
        """What is ready once a node has run."""
        return (ready - {number}) | {n for n in self.readers[number] if not self.need[n] & ~done}


@dataclass(frozen=True)
class Compared:
    """Peaks of a graph in bytes, and the bound; `seconds`: of CPU, for the order found."""

    file: int
    eager: int
    beam: int
    found: int
    bound: int
    seconds: float


def compared(count: int, shape: str, seed: int) -> Compared:
    """One graph."""
    graph = draw(count, shape, seed)
    start = time.process_time()
    ordering = best_order(graph)
    seconds = time.process_time() - start
    plain = Plain(graph)
    return Compared(
        plain.file(), plain.eager(), plain.beam(WIDTH), ordering.peak, ordering.bound, seconds
    )


def row(count: int, seeds: int) -> tuple[str, ...]:
    """A line of the table: sums over graphs, and the most seconds that one took."""
    some = [compared(count, shape, seed) for shape in SHAPES for seed in range(seeds)]
    sums = [sum(getattr(one, f) for one in some)
            for f in ("file", "eager", "beam", "found", "bound")]  # fmt: skip
    proven = sum(one.found <= one.bound for one in some)
    worse = sum(one.found > min(one.file, one.eager, one.beam) for one in some)
    most = max(one.seconds for one in some)
    cells = (f"{count:,}", str(len(some)), *(f"{total:,}" for total in sums))
    line = (*cells, str(proven), str(worse), f"{most:.1f}")
    print(*line, file=sys.stderr, flush=True)
    return line


def table(nodes: tuple[int, ...], seeds: int) -> Table:
    """Random graphs of several sizes."""
    notes = (
        "Bytes of the worst step, all graphs of a line. `worse`: graphs in which one of the other "
        "orders is better. Seconds of CPU are of the graph that took the longest.",
    )
    rows = tuple(row(count, seeds) for count in nodes)
    return Table("Random graphs", COLUMNS, rows, notes, Behind(kinds={"this order": RAM}))


def named(graph: TaskGraph) -> NamedGraph:
    """A graph with names, for graphs.solve()."""
    tensors = [{"name": f"t{n}", "size": size} for n, size in enumerate(graph.sizes)]
    nodes = [
        {
            "name": f"n{n}",
            "inputs": [f"t{r}" for r in task.inputs],
            "outputs": [f"t{o}" for o in task.outputs],
        }
        for n, task in enumerate(graph.tasks)
    ]
    return graphs.parse({"tensors": tensors, "nodes": nodes})


def large() -> Table:
    """Order and offsets of large graphs, in one process."""
    found = {
        "two of the last 60": (long_graph(7, 2000), long_graph(7, 5000), long_graph(8, 5000)),
        "any": (named(draw(5000, "any", 0)),),
    }
    rows = []
    for name, graph in ((name, graph) for name, some in found.items() for graph in some):
        start = time.process_time()
        with cpu_clock():
            plan = graphs.solve(graph, LARGE_SECONDS, workers=1)
        sizes = f"{plan.peak:,}", f"{plan.height:,}", f"{plan.height / plan.peak - 1:.1%}"
        spent = f"{time.process_time() - start:.0f}"
        rows.append((name, f"{len(graph.nodes):,}", *sizes, f"{plan.bound:,}", spent))
        print(*rows[-1], file=sys.stderr, flush=True)
    behind = Behind(kinds={"placed": RAM})
    return Table("Large random graphs", LARGE_COLUMNS, tuple(rows), behind=behind)


def command(name: str) -> str:
    return "python benchmarks/dags/run.py" + (f" {name}" if name == LARGE else "")


def main() -> None:
    parser = options(__doc__ or "", (NAME, LARGE))
    parser.add_argument("--nodes", type=int, nargs="+", default=NODES)
    parser.add_argument("--seeds", type=int, default=2, help="graphs of each shape and size")
    args = parser.parse_args()
    small = partial(table, tuple(args.nodes), args.seeds)
    show(parser, args, {NAME: small, LARGE: large}, command)


if __name__ == "__main__":
    main()
