# SPDX-License-Identifier: Apache-2.0
"""Places every problem of some files or folders and prints a table.

    python benchmarks/placement/run.py PATH... [--seconds 50] [--workers N] [--json FILE]

The last column is what TensorFlow Lite Micro's greedy planner needs (its sizes rounded up to 16).
"""

from __future__ import annotations

import argparse
import json
import platform
import shlex
import sys
from pathlib import Path

from rich.console import Console
from rich.table import Table
from vmcu_tools.placement import SECONDS, Allocation, Instance, files, place
from vmcu_tools.placement.workers import cores
from vmcu_tools.planner.others import tflm
from vmcu_tools.planner.places.lifetimes import Lifetime

COLUMNS = ("problem", "buffers", "bound", "height", "ratio", "optimal", "seconds", "tflm", "ratio")


def tflm_height(problem: Instance) -> int:
    sizes = [-(-buffer.size // tflm.ALIGN) * tflm.ALIGN for buffer in problem.buffers]
    lives = [Lifetime(buffer.lower, buffer.upper - 1) for buffer in problem.buffers]
    offsets = tflm.greedy(sizes, lives)
    return max((o + s for o, s in zip(offsets, sizes, strict=True)), default=0)


def row(path: Path, problem: Instance, placement: Allocation, greedy: int) -> tuple[str, ...]:
    bound = placement.bound or 1
    return (
        path.stem,
        str(len(problem.buffers)),
        str(placement.bound),
        str(placement.height),
        f"{placement.height / bound:.4f}",
        "yes" if placement.optimal else "no",
        f"{placement.seconds:.1f}",
        str(greedy),
        f"{greedy / bound:.2f}",
    )


def main() -> None:
    options = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    options.add_argument("paths", type=Path, nargs="+", metavar="PATH")
    options.add_argument("--seconds", type=float, default=SECONDS, help="per problem")
    options.add_argument("--workers", type=int, default=cores())
    options.add_argument("--json", type=Path, metavar="FILE")
    args = options.parse_args()
    problems = [p for path in args.paths for p in (sorted(path.glob("*.csv")) or [path])]
    table = Table(*COLUMNS, box=None, title=shlex.join(sys.argv), title_justify="left")
    figures = []
    for path in problems:
        problem = files.read(path)
        placement = place(problem, seconds=args.seconds, workers=args.workers)
        cells = row(path, problem, placement, tflm_height(problem))
        print(*cells, file=sys.stderr, flush=True)
        table.add_row(*cells)
        figures.append(dict(zip(("tflm_ratio", *COLUMNS[:-1]), (cells[-1], *cells), strict=False)))
    Console(width=140).print(table)
    print(f"{args.workers} processes, Python {platform.python_version()}, {platform.machine()}")
    if args.json:
        args.json.write_text(json.dumps(figures, indent=2) + "\n")


if __name__ == "__main__":
    main()
