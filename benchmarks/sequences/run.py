# SPDX-License-Identifier: Apache-2.0
"""Prints the cost of 1-D convolutions beside 2-D ones of as many taps, by core.

python benchmarks/sequences/run.py [--write FILE]
python benchmarks/sequences/run.py --count [MACHINE...]

cells.csv: cycles per MAC of each layer (instructions on cores without cycle rules) and of its 2-D
peer, a 16x16 layer of the same channels, stride 1. --count measures them again.
"""

from __future__ import annotations

import statistics
import sys
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from functools import cache
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
sys.path.append(str(ROOT / "benchmarks" / "paper"))

import rows as lists  # noqa: E402
from layers import convolution  # noqa: E402
from manifests import GCC, QEMU, Behind, hashes  # noqa: E402
from pages import Table, options, show  # noqa: E402
from vmcu_bench.cycles.model import bench, board  # noqa: E402
from vmcu_tools.graph import Window  # noqa: E402
from vmcu_tools.planner.registry import make_plan  # noqa: E402

NAME = "sequences"
CELLS = Path(__file__).with_name("cells.csv")
MACHINES = ("qemu:m0", "qemu:m3", "qemu:m4", "qemu:m55", "qemu:rv32")
CHANNELS, OUTPUTS = (1, 3, 6, 8, 16), 16
# By taps of a 1-D kernel, the kernel of the 2-D layer.
PEERS = {3: (2, 2), 9: (3, 3), 25: (5, 5), 80: (8, 10)}
STRIDES, DILATION = (1, 2, 8, 32), 4
PEER_SIZE, STEPS, INPUT_BYTES = 16, 256, 40_000
GOAL = 1.3


@dataclass(frozen=True)
class Cell:
    """A 1-D layer on a machine; its cost per MAC and that of its 2-D peer."""

    machine: str
    channels: int
    taps: int
    stride: int
    dilation: int
    cost: float = 0
    peer: float = 0

    @property
    def ratio(self) -> float:
        return self.cost / self.peer

    @property
    def label(self) -> str:
        step = f"stride {self.stride}" if self.dilation == 1 else f"dilation {self.dilation}"
        return f"{self.channels} ch, {self.taps} taps, {step}"


def grid(machines: Sequence[str]) -> Iterator[Cell]:
    """The layers that are counted, without their costs. A dilated one has stride 1."""
    for machine in machines:
        for channels in CHANNELS:
            for taps in PEERS:
                for stride in STRIDES:
                    if stride <= taps:
                        yield Cell(machine, channels, taps, stride, 1)
                yield Cell(machine, channels, taps, 1, DILATION)


def counted(cell: Cell) -> Cell:
    """The cell with its costs."""
    steps = STEPS * cell.stride
    if steps * cell.channels > INPUT_BYTES:
        steps = INPUT_BYTES // cell.channels // cell.stride * cell.stride
    window = Window((cell.taps, 1), (cell.stride, 1), (cell.dilation, 1))
    cost = per_mac(cell.machine, (steps, 1), cell.channels, window)
    return replace(cell, cost=cost, peer=peer_cost(cell.machine, cell.channels, cell.taps))


@cache
def peer_cost(machine: str, channels: int, taps: int) -> float:
    """The cost per MAC of the 2-D layer."""
    return per_mac(machine, (PEER_SIZE, PEER_SIZE), channels, Window(PEERS[taps], (1, 1)))


def per_mac(machine: str, size: tuple[int, int], channels: int, window: Window) -> float:
    """Cycles per MAC of a layer with same padding, or instructions without cycle rules."""
    target = board(machine).family
    plan = make_plan(replace(convolution(size, channels, OUTPUTS, window), target=target))
    row = bench(plan, "layer", machine).layers[0]
    cost = row.cycles_per_mac or row.instructions_per_mac
    assert cost is not None
    return cost


def read() -> list[Cell]:
    """The cells of cells.csv."""
    return lists.read(CELLS, Cell)


def place(cell: Cell) -> tuple[int, ...]:
    """Where a cell stands in cells.csv, in ascending order."""
    machine = MACHINES.index(cell.machine)
    return machine, cell.channels, cell.taps, cell.dilation, cell.stride


def write(machines: Sequence[str]) -> None:
    """Counts the cells of some machines again; keeps those of the others."""
    kept = [] if not CELLS.exists() else [c for c in read() if c.machine not in machines]
    found = sorted([*kept, *(counted(cell) for cell in grid(machines))], key=place)
    lists.write(CELLS, [vars(cell) for cell in found])


COLUMNS = ("core, layers", "cells", "least", "median", "most", f"above {GOAL}", "most of")


def rows(cells: Sequence[Cell]) -> Iterator[tuple[str, ...]]:
    """Two rows of a machine: dense and dilated layers."""
    for machine in dict.fromkeys(cell.machine for cell in cells):
        for title, dilated in (("dense", False), ("dilated", True)):
            some = [c for c in cells if c.machine == machine and (c.dilation > 1) is dilated]
            worst = max(some, key=lambda cell: cell.ratio)
            ratios = [cell.ratio for cell in some]
            figures = min(ratios), statistics.median(ratios), worst.ratio
            above = sum(ratio > GOAL for ratio in ratios)
            cells_of = (f"{len(some)}", *(f"{value:.2f}" for value in figures), f"{above}")
            yield f"{machine.removeprefix('qemu:')}, {title}", *cells_of, worst.label


def table() -> Table:
    """The spread of the ratios by core."""
    behind = Behind(hashes([CELLS]), (GCC, QEMU))
    return Table("1-D beside 2-D convolutions", COLUMNS, tuple(rows(read())), behind=behind)


if __name__ == "__main__":
    parser = options(__doc__ or "", [NAME])
    parser.add_argument("--count", nargs="*", metavar="MACHINE", choices=MACHINES)
    args = parser.parse_args()
    if args.count is not None:
        write(args.count or MACHINES)
    show(parser, args, {NAME: table}, lambda _: "python benchmarks/sequences/run.py")
