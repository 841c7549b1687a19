# SPDX-License-Identifier: Apache-2.0
"""The paper's figures 7 and 9 to 12, computed by this project's planners. Bytes of RAM."""

from __future__ import annotations

import subprocess
import sys
import tempfile
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from pathlib import Path

from bottlenecks import IMAGENET, TABLE_2, VWW, Module, Pointwise, modules, pointwise_layers
from manifests import Behind, hashes
from pages import Table
from vmcu_lab.planners import BASELINES, plan_by, plan_of
from vmcu_lab.planners.tinyengine import scratch_bytes
from vmcu_tools.compiler import compile_model
from vmcu_tools.errors import UserError
from vmcu_tools.frontends import load
from vmcu_tools.graph import Graph
from vmcu_tools.plan.plan import Plan
from vmcu_tools.planner.options import CompileOptions
from vmcu_tools.planner.params import ALL_TILES, SearchParams
from vmcu_tools.planner.registry import PLANNERS, make_plan
from vmcu_tools.report.runs import RAM

BUILD = Path(__file__).resolve().parents[1] / "models" / "build.py"
# Those whose integer programs are solved within seconds: no figure depends on the clock.
OWN = ("ds-cnn", "resnet8", "transformer")

# The paper's first single layer, larger than any of MCUNet's.
LARGEST = Pointwise(80, 16, 16)
MOST_TIMES = 8


# The smallest pool whatever tiles cost, single columns included.
ANY_TILES = SearchParams(trade_off=False, tiles=ALL_TILES)


@dataclass(frozen=True)
class Footprints:
    """One graph under the planners compared. `tensors`: TinyEngine without its scratch, as the
    paper's formula for it; the formula for HMCOS has none either. vmcu's has everything."""

    tensors: int
    tinyengine: int
    hmcos: int
    vmcu: int
    macs_extra: int

    @staticmethod
    def of(graph: Graph) -> Footprints:
        tinyengine, hmcos = (plan_by(name, graph).pool_bytes for name in ("tinyengine", "hmcos"))
        plan = make_plan(graph)
        tensors = tinyengine - scratch_bytes(graph)
        return Footprints(tensors, tinyengine, hmcos, plan.pool_bytes, plan.macs_extra)


def less(vmcu: int, other: int) -> float:
    """By how many percent vmcu needs less."""
    return 100 * (1 - vmcu / other)


def span(values: Sequence[float], digits: int = 1) -> str:
    return f"{min(values):.{digits}f} to {max(values):.{digits}f}"


def planners(models: Path) -> Table:
    """Whole networks under every planner, and with the input streamed."""
    return planned(
        "Whole networks, planner by planner",
        sorted(models.glob("*.tflite")),
        "Each planner counts its own way: tflm is the head of TensorFlow Lite Micro's arena, by "
        "its recorder; tinyengine includes scratch; hmcos has none; equations: the vMCU paper's.",
    )


def own(models: Path) -> Table:
    """Networks that are always there."""
    with tempfile.TemporaryDirectory() as folder:
        return planned("Networks of benchmarks/models, planner by planner", built(OWN, folder))


def built(names: Sequence[str], folder: str) -> list[Path]:
    """Networks of benchmarks/models, as files in a folder."""
    build = [sys.executable, str(BUILD), *names, "-o", folder]
    subprocess.run(build, check=True, capture_output=True)
    return [Path(folder) / f"{name}.onnx" for name in names]


def planned(title: str, paths: Sequence[Path], *notes: str) -> Table:
    rows = []
    for path in paths:
        pools = [
            *(compile_model(path, CompileOptions(planner=name)).pool_bytes for name in PLANNERS),
            *(plan_of(name, path).pool_bytes for name in BASELINES),
        ]
        try:
            streamed = f"{compile_model(path, CompileOptions(stream_input=True)).pool_bytes:,}"
        except UserError:
            streamed = "-"
        rows.append((path.stem, f"{pools[0]:,}", streamed, *(f"{pool:,}" for pool in pools[1:])))
    names = [*PLANNERS, *BASELINES]
    columns = ("model", names[0], "input streamed", *names[1:])
    behind = Behind(hashes(paths), kinds=dict.fromkeys(columns[1:], RAM))
    return Table(title, columns, tuple(rows), notes, behind)


def networks(models: Path) -> list[Path]:
    """MCUNet's files, as far as they are there."""
    files = (models / f"{name}.tflite" for name in (VWW, IMAGENET))
    return [file for file in files if file.exists()]


def single_layers(models: Path) -> list[Pointwise]:
    """The paper's first one and those of MCUNet."""
    layers = [LARGEST]
    for path in networks(models):
        layers += [p for p in pointwise_layers(load(path)) if p not in layers]
    return layers


def pointwise(models: Path) -> Table:
    """Figure 7."""
    layers = single_layers(models)
    rows, saved = [], []
    for layer in layers:
        figures = Footprints.of(layer.graph())
        saved.append(less(figures.vmcu, figures.tinyengine))
        rows.append(
            (
                layer.name,
                f"{figures.vmcu:,}",
                f"{saved[-1]:.1f} %",
                f"{figures.tinyengine:,}",
                f"{figures.tensors:,}",
            )
        )
    notes = [
        f"Less than TinyEngine by {span(saved)} %, scratch included on both sides; the paper has "
        "12.0 to 49.5 % for nine layers, of which its text names the first one only. What a layer "
        "can save is the smaller of its two tensors."
    ]
    if len(layers) == 1:
        notes.append(f"The MCUNet models are not in {models}: their layers are missing.")
    columns = ("layer", "vmcu", "less", "TinyEngine", "TinyEngine's tensors")
    behind = Behind(hashes(networks(models)), kinds=dict.fromkeys((columns[1], *columns[3:]), RAM))
    return Table("Single pointwise layers (figure 7)", columns, tuple(rows), tuple(notes), behind)


def inverted_bottlenecks(network: str, figure: int, claims: tuple[str, str, str]) -> Table:
    """Figures 9 and 10. claims: the paper's percentages against TinyEngine and HMCOS, a note."""
    rows, by_te, by_hm, tiled = [], [], [], []
    figures = {m: Footprints.of(m.graph()) for m in modules() if m.network == network}
    for module, found in figures.items():
        by_te.append(less(found.vmcu, found.tinyengine))
        by_hm.append(less(found.vmcu, found.hmcos))
        pool = make_plan(module.graph(), CompileOptions(params=ANY_TILES)).pool_bytes
        tiled.append(less(pool, found.tinyengine))
        others = (found.tinyengine, found.tensors, found.hmcos, module.line_bytes())
        rows.append(
            (
                module.name,
                *(f"{number:,}" for number in (found.vmcu, found.macs_extra, *others)),
                f"{by_te[-1]:.1f} %",
                f"{by_hm[-1]:.1f} %",
                f"{pool:,}",
                f"{tiled[-1]:.1f} %",
            )
        )
    worst = {
        name: max(getattr(found, name) for found in figures.values())
        for name in ("tinyengine", "hmcos", "vmcu")
    }
    notes = (
        f"Less than TinyEngine by {span(by_te)} %, with tiles of any cost by {span(tiled)} %, the "
        f"paper {claims[0]} %; less than HMCOS by {span(by_hm)} %, the paper {claims[1]} %.",
        f"Worst module: TinyEngine {worst['tinyengine']:,}, HMCOS {worst['hmcos']:,}, vmcu "
        f"{worst['vmcu']:,}. {claims[2]}",
    )
    title = f"Inverted bottlenecks of {network} (figure {figure})"
    sizes = ("vmcu", "TinyEngine", "TinyEngine's tensors", "HMCOS", "k rows, est.")
    spending = ("with tiles of any cost", "then less than TinyEngine")
    less_than = ("less than TinyEngine", "than HMCOS")
    columns = ("module", sizes[0], "extra MACs", *sizes[1:], *less_than, *spending)
    behind = Behind(hashes([TABLE_2]), kinds=dict.fromkeys((*sizes, spending[0]), RAM))
    return Table(title, columns, tuple(rows), notes, behind)


def largest(fits: Callable[[int], bool], least: int) -> int:
    """The largest number from `least` on that fits, if everything below it does."""
    low, high = least, least + 1
    while fits(high) and high < MOST_TIMES * least:
        low, high = high, 2 * high
    while high - low > 1:
        middle = (low + high) // 2
        low, high = (middle, high) if fits(middle) else (low, middle)
    return low


def larger(
    title: str,
    unit: str,
    claim: str,
    grow: Callable[[Module, int], Module],
    only: Sequence[str],
) -> Table:
    """What fits into the RAM that TinyEngine needs for a module, by default and where cycles and
    multiply-accumulates are spent. grow: the module with an image side, or an input depth, of so
    much. only: names of modules, all by default."""
    rows, ratios, spent = [], [], []
    for module in (m for m in modules() if m.network == VWW and m.name in (only or {m.name})):
        budget = Footprints.of(module.graph()).tinyengine
        start = module.side if unit == "pixels" else module.depth

        def fits(size: int, module: Module = module, budget: int = budget) -> bool:
            return make_plan(grow(module, size).graph()).pool_bytes <= budget

        def spends(size: int, module: Module = module, budget: int = budget) -> bool:
            return cheapest(grow(module, size).graph(), budget) is not None

        usual = largest(fits, start)
        most = largest(spends, usual)
        ratios.append(usual / start)
        spent.append(most / start)
        dearest = cheapest(grow(module, most).graph(), budget)
        shown = (f"{usual}", f"{ratios[-1]:.2f}") if fits(usual) else ("-", "does not fit")
        extra = "does not fit" if dearest is None else f"{dearest.macs_extra:,}"
        row = (module.name, f"{budget:,}", f"{start}", *shown)
        rows.append((*row, f"{most}", f"{spent[-1]:.2f}", extra))
    note = (
        f"Ratios {span(ratios, 2)} by default, {span(spent, 2)} with --ram and tiles of any cost; "
        f"the paper has {claim}. The bytes allowed are TinyEngine's for the original module."
    )
    spending = ("with --ram and tiles of any cost", "ratio", "extra MACs")
    columns = ("module", "bytes allowed", f"{unit}, original", "largest", "ratio", *spending)
    return Table(title, columns, tuple(rows), (note,), Behind(hashes([TABLE_2])))


def cheapest(graph: Graph, ram: int) -> Plan | None:
    """What fits into so many bytes with whatever tiles, and multiply-accumulates done twice as far
    as it takes; None if nothing does."""
    try:
        return make_plan(graph, CompileOptions(ram=ram, params=ANY_TILES))
    except UserError:
        return None


def images(only: Sequence[str] = ()) -> Table:
    return larger(
        "Larger images at equal RAM (figure 11)",
        "pixels",
        "1.29 to 2.58",
        lambda module, side: replace(module, side=side),
        only,
    )


def channels(only: Sequence[str] = ()) -> Table:
    """As the paper has it, input and output channels grow and those between stay."""
    return larger(
        "Wider modules at equal RAM (figure 12)",
        "channels",
        "1.26 to 3.17",
        lambda module, depth: replace(
            module, depth=depth, out=round(module.out * depth / module.depth)
        ),
        only,
    )


TABLES: dict[str, Callable[[Path], Table]] = {
    "planners": planners,
    "own": own,
    "pointwise": pointwise,
    "modules-vww": lambda models: inverted_bottlenecks(
        VWW,
        9,
        (
            "13.0 to 61.5",
            "28.8 to 71.6",
            "The paper's totals, of both sides, carry some 5,500 bytes more than its formulas "
            "give, by best guess code and stack. Its table gives S3 different channels before and "
            "after; here it has no sum. Where the image is no larger than the window (S7, S8), "
            "rows between layers save nothing; the paper's pixels, computed again, do.",
        ),
    ),
    "modules-imagenet": lambda models: inverted_bottlenecks(
        IMAGENET,
        10,
        (
            "11.2 to 78.5",
            "26.5 to 89.6",
            "The paper has 247,800, 464,600 and 102,700. Its 464,600 for HMCOS (B3) is three times "
            "the widest tensor, of which two and the residual are alive at once. Its window of "
            "k x k pixels computes the first convolution again for each of them, 4 to 20 times the "
            "MACs; the figures here are at the extra MACs of the table.",
        ),
    ),
    "images": lambda models: images(),
    "channels": lambda models: channels(),
}
