# SPDX-License-Identifier: Apache-2.0
"""Places every problem of some files or folders and prints a table.

    python benchmarks/placement/run.py PATH... [--seconds 50] [--workers N] [--write FILE]

The last column is what TensorFlow Lite Micro's greedy planner needs (its sizes rounded up to 16).
"""

from __future__ import annotations

import argparse
import sys
from collections.abc import Sequence
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
sys.path.append(str(ROOT / "benchmarks" / "paper"))

from manifests import Behind, hashes  # noqa: E402
from pages import Table, show_one  # noqa: E402
from vmcu_lab.placement import SECONDS, Instance, files, place  # noqa: E402
from vmcu_lab.placement.workers import cores  # noqa: E402
from vmcu_lab.planners import tflm  # noqa: E402
from vmcu_tools.planner.places.lifetimes import Lifetime  # noqa: E402
from vmcu_tools.report.runs import RAM  # noqa: E402

COLUMNS = (
    *("problem", "buffers", "bound", "height", "to bound", "seconds"),
    "TFLite Micro's greedy, to bound",
)
NAME, COMMAND = "challenging", "python benchmarks/placement/run.py DIR --seconds 10"


def tflm_height(problem: Instance) -> int:
    sizes = [-(-buffer.size // tflm.TFLM_ALIGN) * tflm.TFLM_ALIGN for buffer in problem.buffers]
    lives = [Lifetime(buffer.lower, buffer.upper - 1) for buffer in problem.buffers]
    offsets = tflm.greedy(sizes, lives)
    return max((o + s for o, s in zip(offsets, sizes, strict=True)), default=0)


def row(path: Path, seconds: float, workers: int) -> tuple[str, ...]:
    """A problem of the table, by its file's name up to the first dot."""
    problem = files.read(path)
    placement = place(problem, seconds=seconds, workers=workers)
    bound = placement.bound or 1
    cells = (
        path.name.partition(".")[0],
        *(f"{n:,}" for n in (len(problem.buffers), placement.bound, placement.height)),
        f"{placement.height / bound:.4f}",
        f"{placement.seconds:.1f}",
        f"{tflm_height(problem) / bound:.2f}",
    )
    print(*cells, file=sys.stderr, flush=True)
    return cells


def table(paths: Sequence[Path], seconds: float, workers: int) -> Table:
    """All problems."""
    rows = tuple(row(path, seconds, workers) for path in paths)
    behind = Behind(hashes(paths), kinds=dict.fromkeys(COLUMNS[3:5], RAM))
    return Table("Placement", COLUMNS, rows, behind=behind)


def main() -> None:
    options = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    options.add_argument("paths", type=Path, nargs="+", metavar="PATH")
    options.add_argument("--seconds", type=float, default=SECONDS, help="per problem")
    options.add_argument("--workers", type=int, default=cores())
    options.add_argument("--write", type=Path, metavar="FILE")
    args = options.parse_args()
    problems = [p for path in args.paths for p in (sorted(path.glob("*.csv")) or [path])]
    show_one(table(problems, args.seconds, args.workers), NAME, COMMAND, args.write)


if __name__ == "__main__":
    main()
