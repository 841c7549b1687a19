# SPDX-License-Identifier: Apache-2.0
"""Plans training steps that trace.py has written in less memory than they need.

    python benchmarks/training/limits.py FILE.json... [--write doc/placement.md]

Bytes are copied to a second memory and back at 10 GB/s, and nodes are repeated. Both cost time, by
the timing rule that trace.py states. checker.py confirms each plan.
"""

from __future__ import annotations

import argparse
import json
import sys
import time
from dataclasses import dataclass, replace
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
sys.path.append(str(ROOT / "benchmarks" / "paper"))

from manifests import Behind, hashes  # noqa: E402
from pages import Table, show_one  # noqa: E402
from vmcu_lab.placement import InputError, checker, graphs  # noqa: E402
from vmcu_lab.placement.graph_files import NamedGraph  # noqa: E402
from vmcu_lab.placement.spilling import Prices, need_of, solve_within  # noqa: E402
from vmcu_lab.report.limited_plans import limited_figures  # noqa: E402
from vmcu_tools.ordering import best_order  # noqa: E402
from vmcu_tools.plan.pools import Region  # noqa: E402

COLUMNS = (
    *("step, limited", "smallest peak", "limit", "of the peak", "copied"),
    *("copies, repeats", "copies only", "repeats only", "seconds"),
)
NAME, COMMAND = "limits", "python benchmarks/training/limits.py DIR/*.json"
SHARE = 0.7
# Where a single node, or what exists all the time, needs more than the limit: room for offsets.
SLACK = 1.02
# Nanoseconds for a byte at 10 GB/s.
PER_BYTE, SLOW_BYTES = 0.1, 1 << 40


@dataclass(frozen=True)
class Limited:
    """A step within a limit. peak: the smallest, bytes; copied: bytes, there and back; shares: of
    the step's time that copies and repeats, copies alone and repeats alone take, None where there
    is no plan; seconds: of CPU, of the first."""

    name: str
    peak: int
    limit: int
    copied: int
    shares: tuple[float | None, ...]
    seconds: float

    @property
    def row(self) -> tuple[str, ...]:
        """As the table has it, in MB."""
        return (
            self.name,
            f"{self.peak / 1e6:,.1f}",
            f"{self.limit / 1e6:,.1f}",
            f"{self.limit / self.peak:.0%}",
            f"{self.copied / 1e6:,.1f}",
            *("no plan" if share is None else f"+{share:.1%}" for share in self.shares),
            f"{self.seconds:.1f}",
        )


def once(graph: NamedGraph) -> NamedGraph:
    """The graph with no node that may be repeated."""
    tasks = tuple(replace(task, is_repeatable=False) for task in graph.tasks.tasks)
    return replace(graph, tasks=replace(graph.tasks, tasks=tasks))


def limited(path: Path) -> Limited:
    """A step within 70 % of its smallest peak, or what it needs."""
    graph, start = graphs.read(path), time.process_time()
    best = best_order(graph.tasks)
    limit = max(int(SHARE * best.peak), int(SLACK * need_of(graph)[0]))
    slow = Prices(PER_BYTE, SLOW_BYTES)
    plan = solve_within(graph, limit, slow, best=best)
    seconds = time.process_time() - start
    memories = Region("fast", limit, 0.0), Region("slow", SLOW_BYTES, PER_BYTE)
    data = json.loads(path.read_text(encoding="utf-8"))
    checker.check_limited(data, limited_figures(graph, memories, plan))
    costs: list[float | None] = [plan.cost]
    for other, prices in ((once(graph), slow), (graph, Prices())):
        try:
            costs.append(solve_within(other, limit, prices, 20.0, best=best).cost)
        except InputError:
            costs.append(None)
    own = sum(task.cost for task in graph.tasks.tasks)
    shares = tuple(None if cost is None else cost / own for cost in costs)
    return Limited(path.stem, best.peak, limit, plan.copied, shares, seconds)


def table(paths: list[Path]) -> Table:
    """A line for each step."""
    found = []
    for path in paths:
        found.append(limited(path))
        print(*found[-1].row, file=sys.stderr, flush=True)
    notes = (
        "In MB, seconds of CPU. `limit`: 70 % of the smallest peak of an order, or 102 % of what a "
        "single node or the weights need. `+`: more modelled time than the step takes without a "
        "limit.",
    )
    return Table("Limits", COLUMNS, tuple(one.row for one in found), notes, Behind(hashes(paths)))


def main() -> None:
    options = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    options.add_argument("files", type=Path, nargs="+", metavar="FILE.json")
    options.add_argument("--write", type=Path, metavar="FILE")
    args = options.parse_args()
    show_one(table(args.files), NAME, COMMAND, args.write)


if __name__ == "__main__":
    main()
