# SPDX-License-Identifier: Apache-2.0
"""Plans networks with many branches and prints what that takes, for doc/fusion.md.

python benchmarks/graphs/run.py [TABLE] [--only NETWORK...] [--write FILE]
"""

from __future__ import annotations

import sys
import time
from dataclasses import dataclass
from functools import partial
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
for beside in ("benchmarks/paper", "benchmarks/graphs"):
    sys.path.append(str(ROOT / beside))

from manifests import Behind  # noqa: E402
from networks import LONG, NETWORKS, STREAMED  # noqa: E402
from pages import Table, options, show  # noqa: E402
from vmcu_tools.planner.options import CompileOptions  # noqa: E402
from vmcu_tools.planner.registry import make_plan  # noqa: E402
from vmcu_tools.report.runs import RAM  # noqa: E402

COLUMNS = ("bytes", "nodes", "layer by layer", "planned", "CPU seconds")
TABLE = "graphs"


@dataclass(frozen=True)
class Planned:
    """A network's pools, in bytes: layers one by one in the order they are written in, and by
    default; what the latter took, its proof included."""

    name: str
    nodes: int
    single: int
    pool: int
    seconds: float

    @property
    def row(self) -> tuple[str, ...]:
        """As the table has it."""
        figures = (self.nodes, self.single, self.pool)
        return (self.name, *(f"{figure:,}" for figure in figures), f"{self.seconds:.1f}")


def planned(name: str) -> Planned:
    """One of NETWORKS."""
    graph = NETWORKS[name]()
    wanted = CompileOptions(stream_input=name in STREAMED)
    start = time.process_time()
    plan = make_plan(graph, wanted)
    seconds = time.process_time() - start
    single = make_plan(graph, CompileOptions(planner="single"))
    return Planned(name, len(graph.nodes), single.pool_bytes, plan.pool_bytes, seconds)


def table(names: list[str]) -> Table:
    """The networks' pools."""
    rows = tuple(planned(name).row for name in names)
    behind = Behind(kinds=dict.fromkeys(COLUMNS[2:4], RAM))
    return Table("Networks with branches", COLUMNS, rows, behind=behind)


def on_page() -> list[str]:
    """The networks that the page has."""
    return [name for name in NETWORKS if name not in LONG]


def command(name: str) -> str:
    return f"python benchmarks/graphs/run.py {name}"


def main(argv: list[str] | None = None) -> int:
    parser = options(__doc__, [TABLE])
    parser.add_argument("--only", nargs="+", choices=NETWORKS, metavar="NETWORK")
    args = parser.parse_args(argv)
    if args.only and args.write:
        parser.error("a page has all networks: leave out --only")
    names = args.only or on_page()
    show(parser, args, {TABLE: partial(table, names)}, command)
    return 0


if __name__ == "__main__":
    sys.exit(main())
