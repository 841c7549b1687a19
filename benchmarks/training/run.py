# SPDX-License-Identifier: Apache-2.0
"""Orders and places training steps that trace.py has written, and prints what that saves.

    python benchmarks/training/run.py FILE.json... [--write doc/placement.md]

The file's order is PyTorch's. Its peak is what an ideal allocator needs in that order; PyTorch's
caching allocator reserves more.
"""

from __future__ import annotations

import argparse
import sys
import time
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
sys.path.append(str(ROOT / "benchmarks" / "paper"))

from manifests import Behind, hashes  # noqa: E402
from pages import Table, put  # noqa: E402
from vmcu_tools.placement import caching_allocator, graphs  # noqa: E402
from vmcu_tools.placement.tasks import usage  # noqa: E402
from vmcu_tools.report.runs import RAM  # noqa: E402

COLUMNS = (
    *("step", "nodes", "allocator", "file's order", "this order"),
    *("saved of allocator", "saved of order", "bound", "placed", "seconds"),
)
NAME, COMMAND = "training", "python benchmarks/training/run.py DIR/*.json"


@dataclass(frozen=True)
class Saved:
    """Bytes of a step: those that the caching allocator reserves in the file's order, the peak of
    that order, that of the plan's, the plan's height, and a lower bound for all orders. `seconds`:
    of CPU."""

    name: str
    nodes: int
    reserved: int
    file: int
    peak: int
    height: int
    bound: int
    seconds: float

    @property
    def share(self) -> float:
        """What the order saves of the file's."""
        return 1 - self.peak / self.file

    @property
    def share_of_allocator(self) -> float:
        """What the plan saves of the caching allocator's bytes."""
        return 1 - self.height / self.reserved

    @property
    def row(self) -> tuple[str, ...]:
        """As the table has it, in MB."""
        above = self.height / self.peak - 1
        return (
            self.name,
            f"{self.nodes:,}",
            *(f"{size / 1e6:,.1f}" for size in (self.reserved, self.file, self.peak)),
            f"{self.share_of_allocator:.1%}",
            f"{self.share:.1%}",
            f"{self.bound / 1e6:,.1f}",
            f"+{above:.1%}" if above else "no gap",
            f"{self.seconds:.1f}",
        )


def saved(path: Path, seconds: float) -> Saved:
    """What is saved of a step."""
    graph = graphs.read(path)
    order = graph.tasks.topological()
    before = usage(graph.tasks, order).peak
    reserved = caching_allocator.replay(graphs.instance_of(graph, order)).reserved
    start = time.process_time()
    plan = graphs.solve(graph, seconds, workers=1)
    spent = time.process_time() - start
    nodes = len(graph.nodes)
    return Saved(path.stem, nodes, reserved, before, plan.peak, plan.height, plan.bound, spent)


def means(found: list[Saved]) -> Iterator[str]:
    """The savings for each batch size, which is the end of a name."""
    for batch in sorted({int(one.name.rpartition("-")[2]) for one in found}):
        some = [one for one in found if one.name.endswith(f"-{batch}")]
        allocator = sum(one.share_of_allocator for one in some) / len(some)
        order = sum(one.share for one in some) / len(some)
        yield f"{allocator:.1%} of it and {order:.1%} of the file's order at batch {batch}"


def table(paths: list[Path], seconds: float) -> Table:
    """A line for each step, and the means."""
    found = []
    for path in paths:
        found.append(saved(path, seconds))
        print(*found[-1].row, file=sys.stderr, flush=True)
    notes = (
        f"In MB, seconds of CPU. `allocator`: PyTorch {caching_allocator.VERSION}'s caching "
        f"allocator for CUDA, replayed. Saved on average: {'; '.join(means(found))}.",
    )
    behind = Behind(hashes(paths), kinds={"this order": RAM})
    return Table("Training steps", COLUMNS, tuple(one.row for one in found), notes, behind)


def main() -> None:
    options = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    options.add_argument("files", type=Path, nargs="+", metavar="FILE.json")
    options.add_argument("--seconds", type=float, default=50.0, help="for offsets, per step")
    options.add_argument("--write", type=Path, metavar="FILE")
    args = options.parse_args()
    found = table(args.files, args.seconds)
    block = found.markdown(COMMAND)
    print(block)
    if args.write:
        put(args.write, NAME, block, found.behind)


if __name__ == "__main__":
    main()
