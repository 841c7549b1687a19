# SPDX-License-Identifier: Apache-2.0
"""Counts layers here and in CMSIS-NN's kernels.

python benchmarks/rivals/kernels.py DIR [--on MACHINE...]

DIR: CMSIS-NN's sources. Figures are cycles per MAC, or per output of layers without MACs;
instructions on cores without timing rules. CMSIS-NN is compiled at -O3.
"""

from __future__ import annotations

import argparse
import sys
import tempfile
from collections.abc import Iterator, Sequence
from dataclasses import replace
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
sys.path += [str(ROOT / "benchmarks" / folder) for folder in ("paper", "rivals")]

import layers  # noqa: E402
from pages import Table  # noqa: E402
from peer import CmsisNn  # noqa: E402
from vmcu_bench.cycles.kernels import CASES, case_graph  # noqa: E402
from vmcu_bench.cycles.model import bench, board  # noqa: E402
from vmcu_bench.runners.base import RunnerError  # noqa: E402
from vmcu_tools.errors import UserError  # noqa: E402
from vmcu_tools.graph import Graph, Window  # noqa: E402
from vmcu_tools.ops.add import Add  # noqa: E402
from vmcu_tools.ops.average_pooling import AveragePool2D  # noqa: E402
from vmcu_tools.ops.binary import Binary  # noqa: E402
from vmcu_tools.ops.max_pooling import MaxPool2D  # noqa: E402
from vmcu_tools.passes.one_channel import convolve_one_channel  # noqa: E402
from vmcu_tools.planner.registry import make_plan  # noqa: E402
from vmcu_tools.quant import FixedPoint, FixedSum  # noqa: E402

MACHINES = ("qemu:m4", "qemu:m7", "qemu:m55")
SIZE, STEPS = (20, 20), 256
ONE, THREE, HALF = (Window((k, k), (s, s)) for k, s in ((1, 1), (3, 1), (3, 2)))
HALF_FACTOR, OUT_FACTOR = (FixedPoint.of([2.0**power]) for power in (-1, -19))


def graphs() -> Iterator[tuple[str, Graph]]:
    """Layers by name: those of `vmcu bench`, odd channels, 1-D layers and operators."""
    for number, case in enumerate(CASES):
        if case.kind != "dense":
            yield case.name, case_graph(case, number)
    for depth, outputs in ((640, 128), (32, 32), (96, 64)):
        yield f"fc {depth}->{outputs}", layers.dense(depth, outputs)
    for inputs, outputs in ((8, 16), (1, 16), (3, 16), (6, 16)):
        yield f"1x1 {inputs}->{outputs}", layers.convolution(SIZE, inputs, outputs, ONE)
    for inputs in (1, 6):
        yield f"3x3 {inputs}->16", layers.convolution(SIZE, inputs, 16, THREE)
    for inputs, outputs in ((1, 8), (3, 24), (3, 3), (6, 6)):
        name = f"dw 3x3 {inputs}, multiplier {outputs // inputs}"
        yield name, layers.depthwise(SIZE, inputs, outputs, THREE)
    yield "dw 3x3 48, stride 2", layers.depthwise(SIZE, 48, 48, HALF)
    for inputs, taps, stride in ((1, 9, 2), (1, 80, 8), (3, 25, 1), (8, 3, 2), (16, 9, 1)):
        window = Window((1, taps), (1, stride))
        name = f"1-D {taps} {inputs}->16, stride {stride}"
        yield name, layers.convolution((1, STEPS * stride), inputs, 16, window)
    for channels in (40, 128):
        graph = layers.depthwise((1, STEPS), channels, channels, Window((1, 9), (1, 1)))
        yield f"1-D dw 9 {channels}", graph
    yield "max 2x2 48", layers.pooling(MaxPool2D, SIZE, 48)
    yield "mean 8x8 64", layers.pooling(AveragePool2D, (8, 8), 64)
    yield "add 48", layers.pair(Add(FixedSum(HALF_FACTOR, HALF_FACTOR, OUT_FACTOR)), SIZE, 48)
    yield "mul 48", layers.pair(Binary("product", out=FixedPoint.of([2.0**-7])), SIZE, 48)


def row(name: str, graph: Graph, library: CmsisNn, archive: Path) -> tuple[str, ...]:
    """Costs of a layer here and there, and their ratio."""
    ready = convolve_one_channel(graph)
    plan = make_plan(replace(ready, target=board(library.machine).family))
    report = bench(plan, name, library.machine)
    units = report.macs or graph.tensors["out"].bytes
    own = report.cycles or report.instructions
    assert own is not None
    try:
        found = library.run(archive, graph, graph.nodes[0])
    except RunnerError as error:
        print(f"{name}: {error}", file=sys.stderr)
        return name, f"{own / units:.2f}", "-", "-"
    other = found.cycles or found.instructions
    return name, f"{own / units:.2f}", f"{other / units:.2f}", f"{own / other:.2f}"


def compared(folder: Path, machine: str, some: Sequence[str] = ()) -> Table:
    """All layers on a machine, or those of some names."""
    library = CmsisNn(folder, machine)
    with tempfile.TemporaryDirectory(prefix="vmcu-cmsis-nn-") as name:
        archive = library.archive(Path(name))
        chosen = [(label, graph) for label, graph in graphs() if label in (some or {label})]
        rows = tuple(row(label, graph, library, archive) for label, graph in chosen)
    return Table(machine, ("layer", "vmcu", "CMSIS-NN", "vmcu/CMSIS-NN"), rows)


def main(argv: Sequence[str] | None = None) -> int:
    """Prints a table for each machine; 2 for a folder that is no CMSIS-NN."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("folder", type=Path, metavar="DIR")
    parser.add_argument("--on", nargs="+", default=MACHINES, metavar="MACHINE")
    args = parser.parse_args(argv)
    try:
        for machine in args.on:
            table = compared(args.folder, machine)
            print(f"{table.title}\n\n{table.markdown(command(machine))}\n", flush=True)
    except UserError as error:
        print(f"error: {error}", file=sys.stderr)
        return 2
    return 0


def command(machine: str) -> str:
    """What prints the table of a machine."""
    return f"python benchmarks/rivals/kernels.py DIR --on {machine}"


if __name__ == "__main__":
    sys.exit(main())
