# SPDX-License-Identifier: Apache-2.0
"""Prints what the layers of the vMCU paper's figure 8 and table 3 take here and in the order of
loads of TinyEngine and CMSIS-NN.

    python benchmarks/orders/run.py [TABLE...] [--models DIR] [--write FILE]

The others' loops are tinyengine.c and cmsis_nn.c, compiled at -O3; all run on an emulated
Cortex-M4, outputs are compared, and cycles are those of the timing rules.
"""

from __future__ import annotations

import sys
import tempfile
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np

ROOT = Path(__file__).resolve().parents[2]
sys.path.append(str(ROOT / "benchmarks" / "paper"))

from bottlenecks import TABLE_2, VWW, Pointwise, modules  # noqa: E402
from counted import counted  # noqa: E402
from figures import networks, single_layers  # noqa: E402
from manifests import GCC, QEMU, Behind, hashes  # noqa: E402
from pages import Table, show_of_models  # noqa: E402
from vmcu_bench.cycles.energy import estimate  # noqa: E402
from vmcu_bench.cycles.model import bench, board  # noqa: E402
from vmcu_bench.runners.base import RunnerError  # noqa: E402
from vmcu_bench.runners.samples import make_samples  # noqa: E402
from vmcu_tools.graph import Graph, Node  # noqa: E402
from vmcu_tools.machine import reference  # noqa: E402
from vmcu_tools.ops.depthwise import DepthwiseConv2D  # noqa: E402
from vmcu_tools.planner.registry import make_plan  # noqa: E402

HERE = Path(__file__).parent
OTHERS = {"TinyEngine's order": "tinyengine.c", "CMSIS-NN's order": "cmsis_nn.c"}
TARGET = "qemu:m4"
# The paper's boards of figure 8 and of table 3, at their highest clocks.
F767_MEGAHERTZ, F411_MEGAHERTZ = 216, 100


@dataclass(frozen=True)
class Taken:
    """What layers take: cycles, and microjoule by the estimate of `vmcu bench`."""

    cycles: int
    microjoule: float

    def __add__(self, other: Taken) -> Taken:
        return Taken(self.cycles + other.cycles, self.microjoule + other.microjoule)

    def cells(self, megahertz: int) -> list[str]:
        milliseconds = self.cycles / megahertz / 1000
        return [f"{self.cycles:,}", f"{milliseconds:,.2f}", f"{self.microjoule:,.1f}"]


def constants(graph: Graph, node: Node) -> str:
    """A layer as C."""
    op, source, result = node.op, graph.tensors[node.inputs[0]], graph.tensors[node.outputs[0]]
    window = op.window
    weights = op.weights if isinstance(op, DepthwiseConv2D) else op.weights[:, 0, 0, :]
    arrays = (
        ("int8_t", "weights", weights),
        ("int32_t", "bias", op.bias),
        ("int32_t", "multiplier", op.requant.multiplier),
        ("int32_t", "shift", op.requant.shift),
    )
    lines = [
        f"static const {kind} {name}[] __attribute__((aligned(4))) = "
        f"{{{', '.join(map(str, np.ravel(values).tolist()))}}};"
        for kind, name, values in arrays
    ]
    sizes = (*source.shape, *result.shape, window.kernel[0], window.stride[0], window.pad[0])
    values = ", ".join(map(str, sizes))
    names = ", ".join(name for _, name, _ in arrays)
    zeros = f"{source.zero_point}, {result.zero_point}"
    padded = (source.shape[0] + 2 * window.pad[0]) * (source.shape[1] + 2 * window.pad[1])
    halves = window.kernel[0] ** 2 * source.shape[2] + padded + 2 * source.shape[2]
    return "\n".join(
        [
            '#include "layer.h"',
            *lines,
            f"static const struct layer layer = {{{values}, {names}, {zeros}}};",
            f"#define INPUT_BYTES {source.bytes}",
            f"#define OUTPUT_BYTES {result.bytes}",
            f"#define BUFFER_HALVES {halves}",
            "",
        ]
    )


def taken(order: str, graph: Graph, node: Node, tensors: dict[str, np.ndarray]) -> Taken:
    """One layer in another library's order. RunnerError where its output is wrong."""
    machine = board(TARGET)
    with tempfile.TemporaryDirectory(prefix="vmcu-orders-") as name:
        folder = Path(name)
        (folder / "constants.h").write_text(constants(graph, node))
        (folder / "inputs.bin").write_bytes(tensors[node.inputs[0]].astype(np.int8).tobytes())
        sources = HERE / "main.c", HERE / order
        flags = "-O3", f"-I{HERE}", "-Wno-error"
        counts, spent = counted(machine, folder, sources, "run_layer", flags)
        output = np.frombuffer((folder / "outputs.bin").read_bytes(), np.int8)
        wrong = np.count_nonzero(output != np.ravel(tensors[node.outputs[0]]))
        if wrong:
            raise RunnerError(f"{order}: {wrong} bytes of {node.name} are wrong")
        return Taken(round(spent.total), estimate(counts).microjoule)


def ours(graph: Graph, left_out: str = "") -> Taken:
    """All layers of a graph here, what runs between them included, but for those of one op."""
    report = bench(make_plan(graph), graph.name, TARGET)
    share = sum(layer.cycles for layer in report.layers if layer.op == left_out) / report.cycles
    cycles = round(report.cycles * (1 - share))
    return Taken(cycles, report.energy.microjoule * (1 - share))


def theirs(graph: Graph, order: str, left_out: str = "") -> Taken:
    tensors = reference.run(graph, make_samples(graph, 1, 0, 0)[0])
    nodes = [node for node in graph.nodes if node.kind != left_out]
    return sum((taken(order, graph, node, tensors) for node in nodes), Taken(0, 0.0))


def compared(graphs: Iterable[Graph], megahertz: int, left_out: str = "") -> list[tuple[str, ...]]:
    rows = []
    for graph in graphs:
        both = [theirs(graph, order, left_out) for order in OTHERS.values()]
        mine = ours(graph, left_out)
        less = 100 * (1 - mine.cycles / both[0].cycles)
        cells = [cell for one in (mine, *both) for cell in one.cells(megahertz)]
        rows.append((graph.name, *cells, f"{less:.0f} %"))
    return rows


def columns(first: str) -> tuple[str, ...]:
    parts = [f"{who}: {what}" for who in ("vmcu", *OTHERS) for what in ("cycles", "ms", "uJ")]
    return (first, *parts, "fewer cycles than TinyEngine's")


def notes(megahertz: int, which: str, claim: str) -> Sequence[str]:
    return [
        f"Cycles of a Cortex-M4 without wait states, modelled; milliseconds at {megahertz} MHz, "
        f"the clock of {which}; microjoule of the memories only, as `vmcu bench` estimates them: "
        f"the lowest energy measured on a plain Cortex-M is 3.4 to 4.9 times as much. {claim}"
    ]


def figure_8(models: Path) -> Table:
    """Single pointwise layers."""
    files = networks(models)
    layers = single_layers(models)
    chosen: Sequence[Pointwise] = [layer for layer in layers if layer.stride == 1][:9]
    rows = compared((layer.graph() for layer in chosen), F767_MEGAHERTZ)
    claim = (
        "The paper: 18.5 to 40.0 % less time and 20.6 to 53.0 % less energy than TinyEngine on a "
        "Cortex-M7, of which no cycles are published."
    )
    if not files:
        claim += f" The MCUNet models are not in {models}: their layers are missing."
    behind = Behind(hashes(files), (GCC, QEMU))
    about = notes(F767_MEGAHERTZ, "the paper's STM32F767", claim)
    return Table("Pointwise layers (figure 8)", columns("layer"), tuple(rows), about, behind)


def table_3(models: Path) -> Table:
    """Inverted bottlenecks of MCUNet for visual wake words."""
    graphs = [module.graph() for module in modules() if module.network == VWW]
    rows = compared(graphs, F411_MEGAHERTZ, left_out="Add")
    claim = (
        "Convolutions alone, sums are left out on all sides. The paper's board with flash of three "
        "wait states: 20 to 37 ms, TinyEngine 19 to 37."
    )
    behind = Behind(hashes([TABLE_2]), (GCC, QEMU))
    about = notes(F411_MEGAHERTZ, "the paper's STM32F411", claim)
    return Table("Inverted bottlenecks (table 3)", columns("module"), tuple(rows), about, behind)


TABLES = {"figure-8": figure_8, "table-3": table_3}


def command(name: str) -> str:
    return f"python benchmarks/orders/run.py {name}"


def main(argv: list[str] | None = None) -> int:
    show_of_models(__doc__, TABLES, command, argv)
    return 0


if __name__ == "__main__":
    sys.exit(main())
