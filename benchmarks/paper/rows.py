# SPDX-License-Identifier: Apache-2.0
"""CSV files of figures, some of whose rows are computed again: those whose files are at hand."""

from __future__ import annotations

import csv
from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any, TypeVar, get_type_hints

Row = dict[str, str]
Kind = TypeVar("Kind")


def listed(path: Path) -> list[Row]:
    """The rows of a list."""
    with path.open(encoding="utf-8", newline="") as file:
        return list(csv.DictReader(file))


def read(path: Path, kind: type[Kind]) -> list[Kind]:
    """The rows of a list as a dataclass has them: texts and numbers."""
    types = get_type_hints(kind)
    return [kind(**{name: types[name](row[name]) for name in row}) for row in listed(path)]


def write(path: Path, rows: Sequence[Mapping[str, Any]]) -> None:
    """Writes a list of rows."""
    with path.open("w", encoding="utf-8", newline="") as file:
        writer = csv.DictWriter(file, rows[0], lineterminator="\n")
        writer.writeheader()
        writer.writerows(rows)


def update(path: Path, updated: Callable[[Row], Row]) -> None:
    """Replaces each row by what a function makes of it, two at a time."""
    with ThreadPoolExecutor(2) as pool:
        rows = list(pool.map(updated, listed(path)))
    write(path, rows)
