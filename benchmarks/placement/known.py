# SPDX-License-Identifier: Apache-2.0
"""Places many buffers whose optimum is known, within a time, and prints how near it comes.

    python benchmarks/placement/known.py [TABLE] [--count 1000 ...] [--write doc/placement.md]

A rectangle of bytes by time is cut from edge to edge until there are enough pieces, large ones
more often: uncut, they fill it, so its height is what they need.
"""

from __future__ import annotations

import heapq
import random
import sys
import time
from functools import partial
from itertools import count
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
sys.path.append(str(ROOT / "benchmarks" / "paper"))

from manifests import Behind  # noqa: E402
from pages import Table, options, show  # noqa: E402
from vmcu_lab.placement import Buffer, Instance, place  # noqa: E402
from vmcu_tools.report.runs import RAM  # noqa: E402

CAPACITY = 1 << 22
COLUMNS = ("buffers", "moments", "seed", "height, to optimum", "seconds")
COUNTS = (1000, 10_000, 100_000)
SECONDS = 55.0
NAME = "known"


def cut(pieces: int, moments: int, seed: int) -> Instance:
    """So many buffers, in no order, whose optimum is CAPACITY."""
    dice, turn = random.Random(f"{pieces} {moments} {seed}"), count()
    heap = [(-1.0, next(turn), (0, moments, 0, CAPACITY))]
    single = []
    while len(heap) + len(single) < pieces:
        _, _, (lower, upper, low, high) = heapq.heappop(heap)
        width, height = upper - lower, high - low
        if width < 2 and height < 2:
            single.append((lower, upper, low, high))
            continue
        share = width / moments / (width / moments + height / CAPACITY)
        if height < 2 or (width >= 2 and dice.random() < share):
            x = dice.randrange(lower + 1, upper)
            parts = [(lower, x, low, high), (x, upper, low, high)]
        else:
            y = dice.randrange(low + 1, high)
            parts = [(lower, upper, low, y), (lower, upper, y, high)]
        for part in parts:
            area = (part[1] - part[0]) * (part[3] - part[2])
            heapq.heappush(heap, (-area * dice.random() ** 0.5, next(turn), part))
    found = [*single, *(part for _, _, part in heap)]
    dice.shuffle(found)
    return Instance(
        tuple(Buffer(str(n), a, b, high - low) for n, (a, b, low, high) in enumerate(found))
    )


def row(pieces: int, moments: int, seed: int, seconds: float) -> tuple[str, ...]:
    """One of the table."""
    problem = cut(pieces, moments, seed)
    start = time.monotonic()
    placed = place(problem, seconds=seconds)
    spent = time.monotonic() - start
    line = (f"{pieces:,}", f"{moments:,}", str(seed), f"{placed.height / CAPACITY:.3f}",
            f"{spent:.0f}")  # fmt: skip
    print(*line, file=sys.stderr, flush=True)
    return line


def table(counts: tuple[int, ...], seconds: float) -> Table:
    """Few and many moments: in few, more buffers have a lifetime in common by chance."""
    rows = tuple(
        row(pieces, moments, seed, seconds)
        for pieces in counts
        for moments in ((2 * pieces, pieces // 5) if pieces < COUNTS[-1] else (pieces // 5,))
        for seed in range(2 if pieces < COUNTS[-1] else 1)
    )
    return Table("Buffers of known optimum", COLUMNS, rows, behind=Behind(kinds={COLUMNS[3]: RAM}))


def command(name: str) -> str:
    return "python benchmarks/placement/known.py"


def main() -> None:
    parser = options(__doc__ or "", (NAME,))
    parser.add_argument("--count", type=int, nargs="+", default=COUNTS)
    parser.add_argument("--seconds", type=float, default=SECONDS, help="per problem")
    args = parser.parse_args()
    show(parser, args, {NAME: partial(table, tuple(args.count), args.seconds)}, command)


if __name__ == "__main__":
    main()
