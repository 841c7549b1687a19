# SPDX-License-Identifier: Apache-2.0
"""Prints the figures that decided between designs (doc/design-decisions.md), and what each
technique is worth: tables "ablation" (doc/planner.md), "ablation-placement" (doc/placement.md) and
"ablation-limits" (doc/fusion.md).

python benchmarks/decisions/run.py [TABLE...] [--models DIR] [--write FILE]

Each ablation takes minutes.
"""

from __future__ import annotations

import subprocess
import sys
import tempfile
from collections.abc import Callable, Iterator
from dataclasses import replace
from pathlib import Path

import numpy as np

ROOT = Path(__file__).resolve().parents[2]
for beside in ("benchmarks/decisions", "benchmarks/paper", "tests/python"):
    sys.path.append(str(ROOT / beside))

import ablation  # noqa: E402
import ablation_placement  # noqa: E402
from bottlenecks import TABLE_2, Module, modules  # noqa: E402
from builders.dags import Dag  # noqa: E402
from manifests import Behind, hashes  # noqa: E402
from pages import Table, show_of_models  # noqa: E402
from vmcu_tools.frontends import load  # noqa: E402
from vmcu_tools.graph import Graph  # noqa: E402
from vmcu_tools.ops import bind  # noqa: E402
from vmcu_tools.ordering.direction import Direction  # noqa: E402
from vmcu_tools.ordering.sweep import Sweep  # noqa: E402
from vmcu_tools.ordering.tasks import usage  # noqa: E402
from vmcu_tools.passes import optimize  # noqa: E402
from vmcu_tools.planner.options import CompileOptions  # noqa: E402
from vmcu_tools.planner.params import ALL_TILES, DEFAULT_PARAMS, SearchParams  # noqa: E402
from vmcu_tools.planner.places import smallest_pool  # noqa: E402
from vmcu_tools.planner.places.layout import Layout  # noqa: E402
from vmcu_tools.planner.places.order import cost_of, reordered, task_graph  # noqa: E402
from vmcu_tools.planner.places.pieces import pieces_of  # noqa: E402
from vmcu_tools.planner.places.sequential import SequentialPlacement  # noqa: E402
from vmcu_tools.planner.registry import make_plan  # noqa: E402
from vmcu_tools.planner.stages import fusion  # noqa: E402
from vmcu_tools.planner.stages.partition import UNLIMITED, Partitioner  # noqa: E402
from vmcu_tools.planner.stages.variants import Variant  # noqa: E402
from vmcu_tools.report.runs import RAM  # noqa: E402

BUILD = ROOT / "benchmarks" / "models" / "build.py"
NETWORKS = ("ds-cnn", "resnet8", "mobilenetv2-0.35-96")
# The smallest pool whatever tiles cost.
ANY_TILES = SearchParams(trade_off=False, tiles=ALL_TILES)
DAGS, SHORT, LONG = 40, 16, 48
BEAM = 3


def networks() -> Iterator[Graph]:
    with tempfile.TemporaryDirectory() as folder:
        build = [sys.executable, str(BUILD), *NETWORKS, "-o", folder]
        subprocess.run(build, check=True, capture_output=True)
        for name in NETWORKS:
            yield replace(optimize(load(Path(folder) / f"{name}.onnx")), name=name)


def pool(graph: Graph, planner: str = "vmcu", params: SearchParams = DEFAULT_PARAMS) -> int:
    return make_plan(graph, CompileOptions(planner=planner, params=params)).pool_bytes


def in_rows(graph: Graph) -> int:
    """The smallest pool of stages whose calls compute whole rows."""
    partitioner = Partitioner(graph, False, SearchParams(tiles=(None,)))
    least = partitioner.least_peak((None,), UNLIMITED)
    return fusion.smallest(Variant(partitioner, least, 0), CompileOptions()).pool_bytes


def tiles() -> Table:
    """Layers one by one, stages in rows, stages in tiles."""
    rows = [
        (
            graph.name,
            *(f"{size:,}" for size in (pool(graph, "single"), in_rows(graph))),
            *(f"{pool(graph, params=params):,}" for params in (DEFAULT_PARAMS, ANY_TILES)),
        )
        for graph in networks()
    ]
    columns = ("bytes", "layer by layer", "stages in rows", "in tiles", "in single columns too")
    behind = Behind(kinds=dict.fromkeys(columns[1:], RAM))
    return Table("Rows or tiles", columns, tuple(rows), behind=behind)


def window_bytes(module: Module) -> int:
    """What a recomputed window between the layers needs, by the paper's estimate (section 5.2)."""
    tensors = module.graph().tensors
    ends = max(tensors["input"].bytes, tensors["projected"].bytes)
    return ends + module.k * module.k * module.mid + module.mid + module.out


def macs(graph: Graph) -> list[int]:
    return [bind(graph, node).macs for node in graph.nodes]


def windows() -> Table:
    """The paper's recomputed windows against rings, over its modules."""
    found = modules()
    graphs = [module.graph() for module in found]
    once = [macs(graph) for graph in graphs]
    again = sum(
        first * (module.k**2 - 1)
        for module, (first, *_) in zip(found, once, strict=True)
        if module.strides[1] == 1
    )
    total = sum(map(sum, once))
    ways = (
        ("k x k window, recomputed (estimate)", sum(map(window_bytes, found)), 1 + again / total),
        ("k rows (estimate)", sum(module.line_bytes() for module in found), 1.0),
        ("rings of rows", sum(map(in_rows, graphs)), 1.0),
        ("rings of tiles", sum(map(pool, graphs)), 1.0),
    )
    rows = tuple((name, f"{size:,}", f"{factor:.2f}") for name, size, factor in ways)
    columns = ("buffer between the layers", "bytes, all modules", "MACs")
    behind = Behind(hashes([TABLE_2]))
    return Table("Recomputed windows or rings", columns, rows, behind=behind)


def dags(count: int) -> list[Graph]:
    return [Dag(seed, count).graph() for seed in range(DAGS)]


def places() -> Table:
    """How many graphs fit into their worst step's bytes, and by what the others exceed it."""
    over: dict[str, list[float]] = {"walk": [], "line": [], "circle": []}
    for graph in dags(SHORT):
        layout = Layout.singles(reordered(graph).graph)
        free = pieces_of(layout, both_ways=True)
        bound = max(piece.bound() for piece in free)
        if (
            SequentialPlacement(free, bound, False).run()
            or SequentialPlacement(free, bound, True).run()
        ):
            over["walk"].append(1.0)
        line = smallest_pool.smallest_found(smallest_pool.linear_pieces(free), bound)
        over["line"].append(line.pool / bound)
        over["circle"].append(smallest_pool.packed("vmcu", layout).pool_bytes / bound)
    rows = [("walk alone", f"{len(over['walk'])} of {DAGS}", "-")]
    for name, title in (("line", "ejection, linear pool"), ("circle", "then for a circular pool")):
        at = sum(value == 1.0 for value in over[name])
        rows.append((title, f"{at} of {DAGS}", f"{100 * (np.mean(over[name]) - 1):.2f} %"))
    columns = ("placement", "graphs at their bound", "above it on average")
    return Table("SequentialPlacement, line or circle", columns, tuple(rows))


def orders() -> Table:
    """The worst step in the file's order, a beam's and the search's."""
    sums = {"the file's order": 0, f"beam of {BEAM}": 0, "the whole search": 0}
    proven = 0
    for graph in dags(LONG):
        tasks = task_graph(graph, cost_of)
        filed = usage(tasks, range(len(tasks.tasks))).peak
        sweep = Sweep(Direction(tasks, backwards=False), 0, sys.maxsize)
        narrow, _ = sweep.run(BEAM, sys.maxsize)
        assert narrow is not None, "a beam without a limit has found no order"
        best = reordered(graph)
        proven += best.proven
        peaks = (filed, usage(tasks, narrow).peak, best.peak)
        for name, peak in zip(sums, peaks, strict=True):
            sums[name] += peak
    rows = tuple((name, f"{size:,}") for name, size in sums.items())
    note = f"No order is better in {proven} of {DAGS}, proven."
    return Table("Order", ("order", "worst steps' bytes, all graphs"), rows, (note,))


TABLES: dict[str, Callable[[], Table]] = {
    "tiles": tiles,
    "windows": windows,
    "places": places,
    "orders": orders,
}


def command(name: str) -> str:
    return f"python benchmarks/decisions/run.py {name}"


def main(argv: list[str] | None = None) -> int:
    fixed = {**TABLES, "ablation-placement": ablation_placement.table}
    of_models = {name: lambda models, table=table: table() for name, table in fixed.items()}
    show_of_models(__doc__, {**of_models, **ablation.TABLES}, command, argv)
    return 0


if __name__ == "__main__":
    sys.exit(main())
