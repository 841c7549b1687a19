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

ROOT = Path(__file__).resolve().parents[2]
sys.path.insert(0, str(ROOT / "benchmarks" / "paper"))

from manifests import GCC, QEMU, Behind, hashes  # noqa: E402
from pages import Table, show_of_models  # noqa: E402
from vmcu_tools import paths  # noqa: E402
from vmcu_tools.bench.kernels import CASES, bench_kernels, case_graph  # noqa: E402
from vmcu_tools.bench.model import POINTER_BYTES, bench, check_outputs  # noqa: E402
from vmcu_tools.commands.models import name_of  # noqa: E402
from vmcu_tools.compiler import compile_model  # noqa: E402
from vmcu_tools.frontends import load  # noqa: E402
from vmcu_tools.kernels.generate import choice_name  # noqa: E402
from vmcu_tools.kernels.language.packing import PAIRED_SUM, PAIRED_TAPS  # noqa: E402
from vmcu_tools.kernels.targets import TARGETS, named  # noqa: E402
from vmcu_tools.ops import bind  # noqa: E402
from vmcu_tools.plan.plan import Plan  # noqa: E402
from vmcu_tools.planner.options import CompileOptions  # noqa: E402
from vmcu_tools.planner.registry import make_plan  # noqa: E402
from vmcu_tools.runners.qemu import BOARDS, QemuRunner  # noqa: E402
from vmcu_tools.runners.samples import make_samples  # noqa: E402

LAYERS = ("1x1 48->48", "3x3 16->32", "3x3 3->16", "dw 3x3 48", "dw 5x5 48", "fc 640->128")
# Layers with weights of several sizes.
GROUPS = ("1x1 48->48", "1x1 96->96", "1x1 128->128")
NETWORKS = {
    "ad": "mlperf-tiny-ad.tflite",
    "kws": "mlperf-tiny-kws.tflite",
    "resnet8": "mlperf-tiny-resnet8.tflite",
    "vww": "mlperf-tiny-vww.tflite",
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
    show_of_models(__doc__, {"layers": layers, "groups": groups, "networks": networks}, command)
