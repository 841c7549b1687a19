# SPDX-License-Identifier: Apache-2.0
"""CSV files of figures, some of whose rows are computed again: those whose files are at hand."""

from __future__ import annotations

import csv
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

Row = dict[str, str]


def listed(path: Path) -> list[Row]:
    """The rows of a list."""
    with path.open(encoding="utf-8", newline="") as file:
        return list(csv.DictReader(file))


def update(path: Path, updated: Callable[[Row], Row]) -> None:
    """Replaces each row by what a function makes of it, two at a time."""
    with ThreadPoolExecutor(2) as pool:
        rows = list(pool.map(updated, listed(path)))
    with path.open("w", encoding="utf-8", newline="") as file:
        writer = csv.DictWriter(file, rows[0], lineterminator="\n")
        writer.writeheader()
        writer.writerows(rows)
