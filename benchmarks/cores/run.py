# SPDX-License-Identifier: Apache-2.0
"""Cores that tests run vmcu on: kernels and instructions per multiply-accumulate, for doc/cores.md.

python benchmarks/cores/run.py [TABLE...] [--models DIR] [--write FILE]

Each figure is of outputs that are byte for byte those of the model's meaning; `right` says so where
instructions are not counted.
"""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

import numpy as np

ROOT = Path(__file__).resolve().parents[2]
sys.path.insert(0, str(ROOT / "benchmarks" / "paper"))

from manifests import GCC, QEMU, Behind, hashes  # noqa: E402
from pages import Table, show_of_models  # noqa: E402
from vmcu_bench.cycles.kernels import CASES, Case, bench_kernels, case_graph, port  # noqa: E402
from vmcu_bench.cycles.model import POINTER_BYTES, bench, check_outputs  # noqa: E402
from vmcu_bench.runners.qemu import BOARDS, QemuRunner  # noqa: E402
from vmcu_bench.runners.samples import make_samples  # noqa: E402
from vmcu_kernelgen.generate import choice_name  # noqa: E402
from vmcu_tools import paths  # noqa: E402
from vmcu_tools.compiler import compile_model  # noqa: E402
from vmcu_tools.frontends import load  # noqa: E402
from vmcu_tools.graph import Graph, Node, Op, Shape, Tensor, Window  # noqa: E402
from vmcu_tools.kernels.language.packing import PAIRED_SUM, PAIRED_TAPS  # noqa: E402
from vmcu_tools.kernels.targets import TARGETS, named  # noqa: E402
from vmcu_tools.model_file import name_of  # noqa: E402
from vmcu_tools.ops import bind  # noqa: E402
from vmcu_tools.ops.add import Add  # noqa: E402
from vmcu_tools.ops.average_pooling import AveragePool2D  # noqa: E402
from vmcu_tools.ops.binary import Binary  # noqa: E402
from vmcu_tools.ops.lookup import Lookup  # noqa: E402
from vmcu_tools.ops.max_pooling import MaxPool2D  # noqa: E402
from vmcu_tools.ops.softmax import Softmax  # noqa: E402
from vmcu_tools.plan.plan import Plan  # noqa: E402
from vmcu_tools.planner.options import CompileOptions  # noqa: E402
from vmcu_tools.planner.registry import make_plan  # noqa: E402
from vmcu_tools.quant import FixedPoint, FixedSum  # noqa: E402

LAYERS = ("1x1 48->48", "3x3 16->32", "3x3 3->16", "dw 3x3 48", "dw 5x5 48", "fc 640->128")
# Layers whose weights may have 4 bits in flash.
INT4 = ("1x1 48->48", "3x3 16->32", "3x3 3->16", "fc 640->128")
# Weights of the last one that share a scale in one more column.
GROUP = 32
# Layers with weights of several sizes.
GROUPS = ("1x1 48->48", "1x1 96->96", "1x1 128->128")
NETWORKS = {
    "ad": "mlperf-tiny-ad.tflite",
    "kws": "mlperf-tiny-kws.tflite",
    "resnet8": "mlperf-tiny-resnet8.tflite",
    "vww": "mlperf-tiny-vww.tflite",
}
IMAGE = (20, 20, 48)
HALF, WHOLE = Window((2, 2), (2, 2)), Window((8, 8))
FACTOR = FixedPoint.of(np.array([0.7]))
EXPONENTIALS = np.minimum(np.exp(-np.arange(256) / 16) * 2.0**31, 2**31 - 1).astype(np.uint32)
# Layers without products of weights: op, shape of each input, shape of the output.
BYTES: dict[str, tuple[Op, list[Shape], Shape]] = {
    "max 2x2": (MaxPool2D(HALF), [IMAGE], (10, 10, 48)),
    "mean 2x2": (AveragePool2D(HALF, None), [IMAGE], (10, 10, 48)),
    "mean 8x8": (AveragePool2D(WHOLE, None), [(8, 8, 64)], (1, 1, 64)),
    "Add": (
        Add(FixedSum(FACTOR, FACTOR, FixedPoint.of(np.array([2.0**-19])))),
        [IMAGE, IMAGE],
        IMAGE,
    ),
    "Mul": (Binary("product", out=FixedPoint.of(np.array([0.01]))), [IMAGE, IMAGE], IMAGE),
    "table": (Lookup(np.arange(127, -129, -1).astype(np.int8)), [IMAGE], IMAGE),
    "Softmax 200": (Softmax(EXPONENTIALS, False), [(1, 1, 200)], (1, 1, 200)),
}
# Where all is as on another board, but for RAM.
SAME = ("qemu:m4-64k",)
RIGHT = "right"


def machines(only: Sequence[str]) -> list[QemuRunner]:
    """Those of such names, all by default."""
    names = only or [board.name for board in BOARDS if board.name not in SAME]
    return [board for board in BOARDS if board.name in names]


def kernels(board: QemuRunner) -> str:
    """The target whose instructions a board's compiler picks."""
    folder = paths.runtime() / "kernels" / "gen"
    choice = folder / choice_name(named(board.family).packing)
    words = [board.toolchain.compiler, *board.flags, *board.include_flags(), "-M", str(choice)]
    done = subprocess.run(words, check=True, capture_output=True, text=True)
    read = {Path(word).stem.removeprefix("isa_") for word in done.stdout.split()}
    return next(name for name in TARGETS if name in read)


def instructions(board: QemuRunner, plan: Plan, name: str) -> int | None:
    """Of an inference, None where they are not counted. Raises RunnerError if a byte is wrong."""
    if board.pointer_bytes == POINTER_BYTES:
        return bench(plan, name, board.name).instructions
    sample = make_samples(plan.graph, 1, 0, 0)[0]
    check_outputs(plan, sample, board.run(plan, [sample])[0], board.name)
    return None


def per_mac(count: int | None, macs: int) -> str:
    return RIGHT if count is None else f"{count / macs:.2f}"


def layers(_: Path, only: Sequence[str] = ()) -> Table:
    """Single layers, whole calls."""
    cases = [next(case for case in CASES if case.name.startswith(name)) for name in LAYERS]
    rows = []
    for board in machines(only):
        cells = []
        for number, case in enumerate(cases):
            if board.pointer_bytes == POINTER_BYTES:
                (found,) = bench_kernels(board.name, cases=(case,))
                cells.append(f"{found.report.layers[0].instructions_per_mac:.2f}")
                continue
            plan = make_plan(case_graph(case, number), CompileOptions())
            cells.append(per_mac(instructions(board, plan, "layer"), 1))
        rows.append((board.name, kernels(board), *cells))
    columns = ("machine", "kernels", *(case.name for case in cases))
    return Table("Layers", columns, tuple(rows), behind=Behind(tools=(GCC, QEMU)))


def int4(_: Path, only: Sequence[str] = ()) -> Table:
    """Layers with weights of 8 and of 4 bits: instructions, and bytes of all their constants."""
    cases = [next(case for case in CASES if case.name.startswith(name)) for name in INT4]
    pairs = [tuple(replace(case, weight_bits=bits) for bits in (8, 4)) for case in cases]
    whole, small = pairs[-1]
    name = f"{small.name}, groups of {GROUP}"
    pairs.append((replace(whole, name=name), replace(small, name=name, group=GROUP)))
    rows = []
    for board in machines(only):
        if board.pointer_bytes != POINTER_BYTES:
            continue
        cells = []
        for pair in pairs:
            found = [one.report.layers[0] for one in bench_kernels(board.name, cases=pair)]
            cells.append(" / ".join(f"{one.instructions_per_mac:.2f}" for one in found))
        rows.append((board.name, *cells))
    sizes = [" / ".join(f"{stream_bytes(case):,}" for case in pair) for pair in pairs]
    rows.append(("bytes, dsp", *sizes))
    columns = ("machine", *(whole.name for whole, _ in pairs))
    return Table("int8 / int4 weights", columns, tuple(rows), behind=Behind(tools=(GCC, QEMU)))


def stream_bytes(case: Case) -> int:
    """Of a layer's weights, biases and factors in flash."""
    graph = case_graph(case, seed=0)
    return len(bind(graph, graph.nodes[0]).binding.stream)


def groups(_: Path, only: Sequence[str] = ()) -> Table:
    """Layers whose weights allow a core that pairs pixels to add up some taps."""
    cases = [next(case for case in CASES if case.name.startswith(name)) for name in GROUPS]
    rows = []
    for board in machines(only):
        if not named(board.family).packing.paired:
            continue
        for case in cases:
            made = tuple(replace(case, limit=PAIRED_SUM // taps) for taps in PAIRED_TAPS[1:])
            found = [one.report.layers[0] for one in bench_kernels(board.name, cases=made)]
            counts = [("instructions", [one.instructions_per_mac for one in found])]
            if found[0].cycles_per_mac is not None:
                counts.append(("cycles", [one.cycles_per_mac for one in found]))
            for unit, figures in counts:
                cells = [f"{figure:.2f}" for figure in figures]
                rows.append((f"{board.name}, {case.name}", unit, *cells))
    columns = ("layer", "per multiply-accumulate", *(f"{taps} taps" for taps in PAIRED_TAPS[1:]))
    return Table("Taps added up", columns, tuple(rows), behind=Behind(tools=(GCC, QEMU)))


def byte_graph(op: Op, shapes: Sequence[Shape], out: Shape) -> Graph:
    names = [f"in{number}" for number in range(len(shapes))]
    sizes = [*zip(names, shapes, strict=True), ("out", out)]
    tensors = {name: Tensor(name, shape, 0.05, -3) for name, shape in sizes}
    inputs = tuple(port(name, shape) for name, shape in sizes[:-1])
    node = Node("layer", op, tuple(names), ("out",))
    return Graph("layer", "layer", tensors, (node,), inputs, (port("out", out),))


def bytewise(_: Path, only: Sequence[str] = ()) -> Table:
    """Single layers without weights, whole calls: instructions per byte of the output."""
    rows = []
    for board in machines(only):
        if board.pointer_bytes != POINTER_BYTES:
            continue
        cells = []
        for op, shapes, out in BYTES.values():
            graph = replace(byte_graph(op, shapes, out), target=board.family)
            count = instructions(board, make_plan(graph, CompileOptions()), "layer")
            cells.append(per_mac(count, int(np.prod(out))))
        rows.append((board.name, kernels(board), *cells))
    columns = ("machine", "kernels", *BYTES)
    return Table("Bytes", columns, tuple(rows), behind=Behind(tools=(GCC, QEMU)))


def networks(folder: Path, only: Sequence[str] = ()) -> Table:
    """MLPerf Tiny's networks: instructions per multiply-accumulate of the file."""
    files = {name: folder / file for name, file in NETWORKS.items()}
    macs = {}
    for name, file in files.items():
        graph = load(file)
        macs[name] = sum(bind(graph, node).macs for node in graph.nodes)
    rows = []
    for board in machines(only):
        options = CompileOptions(target=board.family)
        found = [
            per_mac(instructions(board, compile_model(file, options), name_of(file)), macs[name])
            for name, file in files.items()
        ]
        rows.append((board.name, board.summary, *found))
    columns = ("machine", "core", *files)
    behind = Behind(hashes(files.values()), (GCC, QEMU))
    return Table("Networks", columns, tuple(rows), behind=behind)


def command(name: str) -> str:
    return f"python benchmarks/cores/run.py {name}"


if __name__ == "__main__":
    tables = {
        "layers": layers,
        "int4": int4,
        "groups": groups,
        "bytewise": bytewise,
        "networks": networks,
    }
    show_of_models(__doc__, tables, command)
