# SPDX-License-Identifier: Apache-2.0
"""What each technique of the planner is worth: pools and CPU seconds with it switched off.

python benchmarks/decisions/ablation.py [--models DIR] [--only TECHNIQUE...] [--write FILE]

Each column is planned in a process of its own, so that none profits from what another has found.
Takes minutes.
"""

from __future__ import annotations

import multiprocessing
import sys
import tempfile
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
for beside in ("benchmarks/paper", "benchmarks/graphs", "tests/python"):
    sys.path.append(str(ROOT / beside))

from bottlenecks import modules  # noqa: E402
from builders.dags import Dag  # noqa: E402
from figures import built  # noqa: E402
from manifests import Behind, hashes  # noqa: E402
from networks import blazeface, ghostnet  # noqa: E402
from pages import MODELS, Table, options, show  # noqa: E402
from vmcu_tools.errors import UserError  # noqa: E402
from vmcu_tools.frontends import load  # noqa: E402
from vmcu_tools.graph import Graph  # noqa: E402
from vmcu_tools.passes import optimize  # noqa: E402
from vmcu_tools.planner.options import CompileOptions  # noqa: E402
from vmcu_tools.planner.params import DEFAULT_PARAMS, TILES, SearchParams  # noqa: E402
from vmcu_tools.planner.registry import DEFAULTS, make_plan  # noqa: E402
from vmcu_tools.report.runs import RAM  # noqa: E402

TABLE = "ablation"
REAL = ("mcunet-imagenet-320kb", "mlperf-tiny-vww", "mlperf-tiny-kws")
OWN = ("ds-cnn",)
# Modules of MCUNet, and random graphs, whose bytes and seconds are added up.
MODULES, DAGS, DAG_NODES = 3, 4, 16
EXTRA_MACS = 0.2
# After so many seconds of CPU time, a plan is given up.
MOST_SECONDS = 120

# What each technique is without.
OFF: dict[str, dict[str, object]] = {
    "execution order": {"reorder": False},
    "order of whole tensors": {"whole_tensor_order": False},
    "fused stages": {"longest_stage": 1},
    "tiles smaller than a row": {"tiles": TILES[:1]},
    "a tile for each layer": {"tile_per_layer": False},
    "larger tiles where possible": {"larger_tiles": False},
    "kernels without scratch": {"scratch_free_kernels": False},
    "in-place alias in stages": {"in_place_alias": False},
    "descending layers": {"descending": False},
    "trade-off with cycles": {"trade_off": False},
    "lower bounds": {"lower_bounds": False},
    "equal stages": {"equal_stages": False},
    "smallest tiles first": {"smallest_tiles_first": False},
    "skip placeable layers": {"skip_placeable": False},
    "constraint solver": {"solver": False},
    "rolling horizon": {"rolling_horizon": False},
    "smaller stages for room": {"room_shares": (1.0,)},
    "gap repair": {"gap_repair": False},
    "full ring first": {"full_ring_first": False},
    "column bands": {"column_bands": False},
    "search of bands": {"band_search": False},
    "recomputation": {"recomputation": False},
}


@dataclass(frozen=True)
class Case:
    """Graphs that are planned with the same options; their figures are added up."""

    graphs: Callable[[], Sequence[Graph]]
    options: CompileOptions = DEFAULTS


def read(file: Path) -> list[Graph]:
    return [optimize(load(file))]


def cases(models: Path, folder: str) -> dict[str, Case]:
    """By name, those that are there."""
    streamed = CompileOptions(stream_input=True)
    found = {}
    for name in REAL:
        file = models / f"{name}.tflite"
        if file.exists():
            found[f"{name.split('-', 2)[-1]}, streamed"] = Case(partial(read, file), streamed)
    for file in built(OWN, folder):
        found[file.stem] = Case(partial(read, file))
    wide = CompileOptions(extra_macs=EXTRA_MACS)
    found[f"{MODULES} modules, +{EXTRA_MACS:.0%} MACs"] = Case(
        lambda: [module.graph() for module in modules()[:MODULES]], wide
    )
    found["GhostNet"] = Case(lambda: [ghostnet()])
    found["BlazeFace"] = Case(lambda: [blazeface()])
    found[f"{DAGS} random graphs"] = Case(
        lambda: [Dag(seed, DAG_NODES).graph() for seed in range(DAGS)]
    )
    return found


@dataclass(frozen=True)
class Figures:
    """Bytes, None where there is no plan, and CPU seconds."""

    bytes: int | None
    seconds: float


def figures(case: Case, params: SearchParams) -> Figures:
    """The sums of a case's graphs, found in a process of its own."""
    context = multiprocessing.get_context("fork")
    ours, theirs = context.Pipe(duplex=False)
    process = context.Process(target=plan_into, args=(theirs, case, params))
    process.start()
    theirs.close()
    try:
        return ours.recv()
    except EOFError:
        return Figures(None, MOST_SECONDS)
    finally:
        process.join()


def plan_into(answer, case: Case, params: SearchParams) -> None:  # type: ignore[no-untyped-def]
    """Sends the figures of a case; dies where they take too long."""
    import resource

    graphs = case.graphs()
    used = int(time.process_time())
    resource.setrlimit(resource.RLIMIT_CPU, (used + MOST_SECONDS, used + MOST_SECONDS + 1))
    start, total = time.process_time(), 0
    try:
        for graph in graphs:
            wanted = replace(case.options, params=params)
            total += make_plan(graph, wanted, prove=False).pool_bytes
    except UserError:
        answer.send(Figures(None, time.process_time() - start))
        return
    answer.send(Figures(total, time.process_time() - start))


def cell(found: Figures, usual: Figures) -> str:
    """The change of bytes and the seconds."""
    if found.bytes is None or usual.bytes is None:
        return "no plan" if found.seconds < MOST_SECONDS else f"> {MOST_SECONDS} s"
    change = 100 * (found.bytes / usual.bytes - 1)
    return f"{change:+.1f} %, {found.seconds:.1f} s" if change else f"{found.seconds:.1f} s"


def ablation(models: Path, only: Sequence[str]) -> Table:
    """A row with all techniques, then one with each of them off."""
    with tempfile.TemporaryDirectory() as folder:
        found = cases(models, folder)
        usual = {name: figures(case, DEFAULT_PARAMS) for name, case in found.items()}
        cells = (f"{one.bytes:,} B, {one.seconds:.1f} s" for one in usual.values())
        rows = [("all techniques", *cells)]
        for technique in only or OFF:
            params = replace(DEFAULT_PARAMS, **OFF[technique])  # type: ignore[arg-type]
            cells = (cell(figures(case, params), usual[name]) for name, case in found.items())
            rows.append((f"without {technique}", *cells))
        files = [models / f"{name}.tflite" for name in REAL if (models / f"{name}.tflite").exists()]
        behind = Behind(hashes(files), kinds=dict.fromkeys(found, RAM))
    return Table("Techniques of the search", ("search", *found), tuple(rows), behind=behind)


def command(name: str) -> str:
    return "python benchmarks/decisions/ablation.py"


def main(argv: list[str] | None = None) -> int:
    parser = options(__doc__, [TABLE])
    parser.add_argument("--models", type=Path, default=MODELS, metavar="DIR")
    parser.add_argument("--only", nargs="+", choices=OFF, metavar="TECHNIQUE", default=[])
    args = parser.parse_args(argv)
    show(parser, args, {TABLE: partial(ablation, args.models, args.only)}, command)
    return 0


if __name__ == "__main__":
    sys.exit(main())
