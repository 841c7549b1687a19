# SPDX-License-Identifier: Apache-2.0
"""What each technique of the planner is worth: tables of run.py, pools and CPU seconds with the
technique switched off.

Each column is planned in a process of its own, so that none profits from what another has found.
Takes minutes.
"""

from __future__ import annotations

import functools
import math
import multiprocessing
import sys
import tempfile
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
for beside in ("benchmarks/paper", "benchmarks/graphs", "tests/python"):
    sys.path.append(str(ROOT / beside))

from bottlenecks import modules  # noqa: E402
from builders.dags import Dag  # noqa: E402
from builders.exported import Net, static  # noqa: E402
from builders.exported_more import MORE  # noqa: E402
from builders.exported_networks import IMAGES  # noqa: E402
from builders.exported_sequences import SEQUENCES  # noqa: E402
from figures import built  # noqa: E402
from manifests import Behind, hashes  # noqa: E402
from networks import NETWORKS, blazeface, ghostnet  # noqa: E402
from pages import Table  # noqa: E402
from vmcu_tools.errors import UserError  # noqa: E402
from vmcu_tools.frontends import load  # noqa: E402
from vmcu_tools.graph import Graph  # noqa: E402
from vmcu_tools.passes import optimize  # noqa: E402
from vmcu_tools.planner.options import CompileOptions  # noqa: E402
from vmcu_tools.planner.params import ALL_TILES, TILES, SearchParams  # noqa: E402
from vmcu_tools.planner.registry import DEFAULTS, make_plan  # noqa: E402
from vmcu_tools.planner.stages.costs import cycles_of  # noqa: E402
from vmcu_tools.report.runs import RAM  # noqa: E402

OWN = ("ds-cnn", "resnet8", "mobilenetv2-0.35-96")
MODULES, DAGS, DAG_NODES = 3, 10, 16
EXTRA_MACS = 0.2
# Small networks of tests/python/builders, as PyTorch exports them.
EXPORTED = {
    "UNet, DeepLab, MLP-Mixer": ("unet", "deeplab_argmax", "mixer"),
    "MobileNetV3, EfficientNet": ("mobilenet_v3", "efficientnet"),
}
# After so many seconds of CPU time, a plan is given up.
MOST_SECONDS = 120

# The smallest pool whatever tiles cost.
ANY_TILES = SearchParams(trade_off=False, tiles=ALL_TILES)
LIMITS = "ablation-limits"
# Techniques that count where a limit on RAM or multiply-accumulates is hard to meet.
WITHIN = ("smaller stages for room", "column bands", "search of bands", "recomputation")
IMAGENET, VWW, CUT = "mcunet-imagenet-320kb", "mlperf-tiny-vww", "mobilenetv2-0.35-144-cut"

# What each technique is without.
OFF: dict[str, dict[str, object]] = {
    "execution order": {"reorder": False},
    "fused stages": {"longest_stage": 1},
    "tiles smaller than a row": {"tiles": TILES[:1]},
    "a tile for each layer": {"tile_per_layer": False},
    "larger tiles where possible": {"larger_tiles": False},
    "kernels without scratch": {"scratch_free_kernels": False},
    "in-place alias in stages": {"in_place_alias": False},
    "descending layers": {"descending": False},
    "trade-off with cycles": {"trade_off": False},
    "lower bounds": {"lower_bounds": False},
    "low limits first": {"low_limits_first": False},
    "skip placeable layers": {"skip_placeable": False},
    "ejection search": {"ejection": False},
    "smaller stages for room": {"room_shares": (1.0,)},
    "gap repair": {"gap_repair": False},
    "full ring first": {"full_ring_first": False},
    "column bands": {"column_bands": False},
    "search of bands": {"band_search": False},
    "recomputation": {"recomputation": False},
}


@dataclass(frozen=True)
class Case:
    """Graphs that are planned with the same options."""

    graphs: Callable[[], Sequence[Graph]]
    options: CompileOptions = DEFAULTS


def read(files: Sequence[Path]) -> list[Graph]:
    return [optimize(load(file)) for file in files]


def branchy(name: str) -> list[Graph]:
    return [NETWORKS[name]()]


def exported(names: Sequence[str], folder: str) -> list[Path]:
    """Small networks as PyTorch exports them and ONNX Runtime quantises them."""
    files = []
    for name in names:
        files.append(Path(folder) / f"{name}.onnx")
        static({**IMAGES, **SEQUENCES, **MORE}[name](Net(False)), files[-1])
    return files


def cases(models: Path, folder: str) -> dict[str, Case]:
    """By name, those that are there."""
    streamed = CompileOptions(stream_input=True)
    found, real = {}, sorted(models.glob("*.tflite"))
    if real:
        found[f"{len(real)} real networks"] = Case(partial(read, real))
        found[f"{len(real)} real networks, streamed"] = Case(partial(read, real), streamed)
    found[f"{len(OWN)} own networks"] = Case(partial(read, built(OWN, folder)))
    wide = CompileOptions(extra_macs=100 * EXTRA_MACS)
    found[f"{MODULES} modules, +{EXTRA_MACS:.0%} MACs"] = Case(
        lambda: [module.graph() for module in modules()[2 : 2 + MODULES]], wide
    )
    for name in ("GRU, 16 steps", "NASNet, 2 cells"):
        found[name] = Case(partial(branchy, name))
    name = "200 convolutions, streamed"
    found[name] = Case(partial(branchy, name), streamed)
    found["GhostNet, BlazeFace"] = Case(lambda: [ghostnet(), blazeface()])
    found[f"{DAGS} random graphs"] = Case(
        lambda: [Dag(seed, DAG_NODES).graph() for seed in range(DAGS)]
    )
    for title, names in EXPORTED.items():
        found[title] = Case(partial(read, exported(names, folder)))
    return found


@dataclass(frozen=True)
class Figures:
    """Bytes and cycles by estimate of each graph, none where there is no plan; CPU seconds and
    extra multiply-accumulates of all."""

    bytes: Sequence[int]
    cycles: Sequence[int]
    seconds: float
    macs: int = 0


def figures(case: Case, off: Mapping[str, object]) -> Figures:
    """The sums of a case's graphs without techniques, found in a process of its own."""
    context = multiprocessing.get_context("fork")
    ours, theirs = context.Pipe(duplex=False)
    process = context.Process(target=plan_into, args=(theirs, case, off))
    process.start()
    theirs.close()
    try:
        return ours.recv()
    except EOFError:
        return Figures((), (), MOST_SECONDS)
    finally:
        process.join()


def plan_into(answer, case: Case, off: Mapping[str, object]) -> None:  # type: ignore[no-untyped-def]
    """Sends the figures of a case; dies where they take too long."""
    import resource

    graphs = case.graphs()
    used = int(time.process_time())
    resource.setrlimit(resource.RLIMIT_CPU, (used + MOST_SECONDS, used + MOST_SECONDS + 1))
    start, pools, cycles, macs = time.process_time(), [], [], 0
    try:
        for graph in graphs:
            params = replace(case.options.params, **off)  # type: ignore[arg-type]
            wanted = replace(case.options, params=params)
            plan = make_plan(graph, wanted, prove=False)
            pools.append(plan.pool_bytes)
            cycles.append(sum(cycles_of(plan)))
            macs += plan.macs_extra
    except UserError:
        pools, cycles = [], []
    answer.send(Figures(pools, cycles, time.process_time() - start, macs))


def change(found: Figures, usual: Figures) -> str:
    """The mean change of the pools (geometric), in percent."""
    if not found.bytes:
        return f"> {MOST_SECONDS} s" if found.seconds >= MOST_SECONDS else "no plan"
    logs = [math.log(one / other) for one, other in zip(found.bytes, usual.bytes, strict=True)]
    percent = 100 * (math.exp(sum(logs) / len(logs)) - 1)
    return f"{percent:+.1f} %" if any(logs) else "="


def most_cycles(found: Mapping[str, Figures], usual: Mapping[str, Figures]) -> str:
    """The largest change of a graph's cycles, in percent."""
    changes = [
        100 * (one / other - 1)
        for name, figures in found.items()
        if figures.cycles
        for one, other in zip(figures.cycles, usual[name].cycles, strict=True)
    ]
    most = max(changes, key=abs, default=0.0)
    return f"{most:+.0f} %" if round(most) else "="


@functools.cache
def measured(models: Path) -> dict[str, dict[str, Figures]]:
    """By technique that is off, "" for none, and case."""
    with tempfile.TemporaryDirectory() as folder:
        found = cases(models, folder)
        return {
            off: {name: figures(case, OFF.get(off, {})) for name, case in found.items()}
            for off in ("", *OFF)
        }


def table(models: Path) -> Table:
    """A row with all techniques, then one with each of them off: how the pools change, and the CPU
    seconds of all cases."""
    found = measured(models)
    usual = found[""]
    rows = []
    for off, row in found.items():
        cells = [change(one, usual[name]) for name, one in row.items()]
        seconds = sum(one.seconds for one in row.values())
        name = f"without {off}" if off else "all techniques"
        rows.append((name, *cells, most_cycles(row, usual), f"{seconds:.1f}"))
    behind = Behind(hashes(sorted(models.glob("*.tflite"))), kinds=dict.fromkeys(usual, RAM))
    columns = ("bytes", *usual, "cycles, most", "CPU seconds")
    return Table("Pools without a technique", columns, tuple(rows), behind=behind)


def limited(models: Path, folder: str) -> dict[str, Case]:
    """By name, those that are there."""
    within = CompileOptions(external_input=True, ram=7887)
    found = {f"{CUT}, 7,887 bytes": Case(partial(read, built((CUT,), folder)), within)}
    for name, asked in (
        (IMAGENET, CompileOptions(stream_input=True, ram=47_000)),
        (VWW, CompileOptions(stream_input=True, params=ANY_TILES, extra_macs=10)),
    ):
        file = models / f"{name}.tflite"
        limit = "+10% MACs" if asked.ram is None else f"{asked.ram:,} bytes"
        if file.exists():
            found[f"{name}, streamed, {limit}"] = Case(partial(read, [file]), asked)
    return found


def told(found: Figures) -> str:
    """The pool and the extra multiply-accumulates of a case of one graph."""
    return f"{found.bytes[0]:,} B, {found.macs / 1e6:.1f} M" if found.bytes else "no plan"


def within_limits(models: Path) -> Table:
    """Pools and extra multiply-accumulates, a technique off in each row."""
    with tempfile.TemporaryDirectory() as folder:
        found = limited(models, folder)
        rows = []
        for off in ("", *WITHIN):
            cells = (figures(case, OFF.get(off, {})) for case in found.values())
            rows.append((f"without {off}" if off else "all techniques", *map(told, cells)))
    files = [models / f"{name}.tflite" for name in (IMAGENET, VWW)]
    behind = Behind(hashes([f for f in files if f.exists()]), kinds=dict.fromkeys(found, RAM))
    return Table("Within limits", ("bytes, extra MACs", *found), tuple(rows), behind=behind)


# By name, tables of the networks in a folder.
TABLES: dict[str, Callable[[Path], Table]] = {
    "ablation": table,
    LIMITS: within_limits,
}
