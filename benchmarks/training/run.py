# SPDX-License-Identifier: Apache-2.0
"""Figures 5 to 8 of MODeL (arXiv:2210.12924, section 5), from training steps that trace.py wrote.

    python benchmarks/training/run.py FILE.json... [--write doc/placement.md]

The file's order is PyTorch's. Its peak is what an ideal allocator needs in that order; PyTorch's
caching allocator reserves more.
"""

from __future__ import annotations

import argparse
import sys
import time
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
sys.path.append(str(ROOT / "benchmarks" / "paper"))

from manifests import Behind, hashes  # noqa: E402
from pages import Table, show_one  # noqa: E402
from vmcu_lab.placement import caching_allocator, graphs, place  # noqa: E402
from vmcu_lab.placement.caching_allocator import Replay  # noqa: E402
from vmcu_tools.ordering.tasks import usage  # noqa: E402
from vmcu_tools.report.runs import RAM  # noqa: E402

STEPS, FIGURES = "training", "training-figures"
COLUMNS = (
    *("step", "nodes", "allocator", "file's order", "this order", "bound"),
    *("Figure 5", "seconds", "Figure 7", "left", "Figure 8"),
)
COMMAND = "python benchmarks/training/run.py DIR/*.json"
# Numbers that the text of the paper states: a column here, a batch size (0: both), mean, range.
PAPER = (
    ("Figure 5, saved of the allocator", "Figure 5", 1, "31.4%", "8 to 45%"),
    ("Figure 5, saved of the allocator", "Figure 5", 32, "32.8%", "12 to 68%"),
    ("Figure 6, seconds", "seconds", 0, "7.4", "0.1 to 18.1"),
    ("Figure 7, PyTorch's fragmentation", "Figure 7", 1, "7.8%", "-"),
    ("Figure 7, PyTorch's fragmentation", "Figure 7", 32, "21.3%", "-"),
    ("Figure 7, fragmentation left", "left", 0, "none", "none"),
    ("Figure 8, saved by the order", "Figure 8", 1, "23.9%", "up to 38%"),
    ("Figure 8, saved by the order", "Figure 8", 32, "11.7%", "up to 38%"),
)


@dataclass(frozen=True)
class Saved:
    """A step. `replay`: of the caching allocator in the file's order; `file`, `peak`: bytes of the
    worst step in the file's order and in the plan's; `file_height`, `height`: bytes that offsets
    need in them; `bound`: bytes that every order needs; `seconds`: of CPU, for the plan."""

    name: str
    nodes: int
    replay: Replay
    file: int
    file_height: int
    peak: int
    height: int
    bound: int
    seconds: float

    @property
    def row(self) -> tuple[str, ...]:
        """As the table has it, in MB."""
        left = max(1 - self.peak / self.height, 1 - self.file / self.file_height)
        sizes = self.replay.reserved, self.file, self.peak, self.bound
        return (
            self.name,
            f"{self.nodes:,}",
            *(f"{size / 1e6:,.1f}" for size in sizes),
            f"{1 - self.height / self.replay.reserved:.1%}",
            f"{self.seconds:.1f}",
            f"{self.replay.fragmentation:.1%}",
            f"{left:.1%}",
            f"{1 - self.peak / self.file:.1%}",
        )


def saved(path: Path, seconds: float) -> Saved:
    """What is saved of a step. seconds: for offsets, in each order."""
    graph = graphs.read(path)
    order = graph.tasks.topological()
    buffers = graphs.instance_of(graph, order)
    before = usage(graph.tasks, order).peak
    start = time.process_time()
    plan = graphs.solve(graph, seconds, workers=1)
    spent = time.process_time() - start
    own = place(buffers, seconds=seconds, workers=1).height
    replay, count = caching_allocator.replay(buffers), len(graph.nodes)
    found = plan.peak, plan.height, plan.bound
    return Saved(path.stem, count, replay, before, own, *found, spent)


def steps(paths: Sequence[Path], seconds: float) -> Table:
    """A line for each step."""
    rows = []
    for path in paths:
        rows.append(saved(path, seconds).row)
        print(*rows[-1], file=sys.stderr, flush=True)
    notes = (
        f"In MB, seconds of CPU. `allocator`: PyTorch {caching_allocator.VERSION}'s caching "
        "allocator for CUDA, replayed. `left`: the larger fragmentation of vmcu's offsets in both "
        "orders.",
    )
    behind = Behind(hashes(paths), kinds={"this order": RAM})
    return Table("Training steps", COLUMNS, tuple(rows), notes, behind)


def figures(rows: Sequence[Sequence[str]], models: Mapping[str, str] | None = None) -> Table:
    """Means and ranges of the steps' rows beside those of the paper."""
    lines = []
    for label, column, batch, mean, extent in PAPER:
        at = COLUMNS.index(column)
        cells = [row[at] for row in rows if not batch or row[0].endswith(f"-{batch}")]
        name = f"{label}, batch {batch}" if batch else label
        lines.append((name, *summary(cells), mean, extent))
    columns = ("figure", "vmcu, mean", "vmcu, range", "MODeL, mean", "MODeL, range")
    return Table("Figures of MODeL", columns, tuple(lines), behind=Behind(models or {}))


def summary(cells: Sequence[str]) -> tuple[str, str]:
    """Mean and range of cells."""
    unit = "%" if cells[0].endswith("%") else ""
    values = [float(cell.removesuffix("%")) for cell in cells]
    mean = sum(values) / len(values)
    return f"{mean:.1f}{unit}", f"{min(values):.1f} to {max(values):.1f}{unit}"


def tables(paths: Sequence[Path], seconds: float) -> Iterator[tuple[str, Table]]:
    """Both tables by name."""
    found = steps(paths, seconds)
    yield STEPS, found
    yield FIGURES, figures(found.rows, found.behind.models)


def main() -> None:
    options = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    options.add_argument("files", type=Path, nargs="+", metavar="FILE.json")
    options.add_argument("--seconds", type=float, default=50.0, help="for offsets, per order")
    options.add_argument("--write", type=Path, metavar="FILE")
    args = options.parse_args()
    for name, table in tables(args.files, args.seconds):
        show_one(table, name, COMMAND, args.write)


if __name__ == "__main__":
    main()
