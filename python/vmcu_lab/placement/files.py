# SPDX-License-Identifier: Apache-2.0
"""Placement problems as CSV: one buffer per line, the columns in any order, named in line one.

    id,lower,upper,size          optional: alignment, gaps, offset, accesses
    b1,0,3,4

The words other allocators use for these columns are understood as well. An `end` is the last
moment of a lifetime, an `upper` the first one after it. `gaps`: "3-5 8-9@16:32": the buffer needs
no byte from 3 until just before 5, and bytes 16 to 31 only from 8 until just before 9. `offset`:
where it has to lie, empty or -1 for anywhere. `accesses`: how often it is loaded and stored, by
default once for each byte.
"""

from __future__ import annotations

import csv
import itertools
import re
from collections.abc import Iterable, Iterator
from pathlib import Path

from .complaints import MOST_COMPLAINTS, Complaint, InputError, refuse
from .problem import Allocation, Buffer, Gap, Instance

REQUIRED = ("id", "lower", "upper", "size")
SYNONYMS = {"buffer": "id", "buffer_id": "id", "begin": "lower", "start": "lower"}
LAST_MOMENT = "end"
NO_VALUE = ("", "-1")
GAP = re.compile(r"(-?[0-9]+)-(-?[0-9]+)(?:@([0-9]+):([0-9]+))?")
# Python reads no longer ones, and no memory has so many bytes.
MOST_DIGITS = 100


def read(path: Path) -> Instance:
    """Reads a problem. Raises InputError with every line that is not a buffer."""
    try:
        text = path.read_text(encoding="utf-8-sig")
    except UnicodeDecodeError as error:
        raise refuse(path, "not a text file", "give a CSV file of buffers") from error
    return parse(text, path)


def parse(text: str, path: Path) -> Instance:
    """The instance that a CSV text holds; `path` is named where something is wrong. InputError as
    read()."""
    rows = numbered(text.splitlines(), path)
    number, header = next(rows, (0, []))
    if not header:
        raise refuse(path, "empty", f"name the columns in line 1: {','.join(REQUIRED)}")
    columns = columns_of(header, path, number)
    inclusive = LAST_MOMENT in (word.lower() for word in header)
    buffers: list[Buffer] = []
    complaints: list[Complaint] = []
    seen: dict[str, int] = {}
    for number, row in rows:
        try:
            buffer = buffer_of(row, columns, inclusive)
            if buffer.id in seen:
                raise ValueError(
                    f"id '{buffer.id}' is that of line {seen[buffer.id]} too",
                    "give each buffer an id of its own",
                )
        except ValueError as error:
            reason, remedy = error.args
            complaints.append(Complaint(f"line {number}: {reason}", remedy, str(path)))
            continue
        seen[buffer.id] = number
        buffers.append(buffer)
    if complaints:
        raise InputError(*complaints[:MOST_COMPLAINTS])
    used = {*REQUIRED, "alignment", "gaps", "offset", "accesses"}
    return Instance(tuple(buffers), str(path), tuple(c for c in columns if c not in used))


def numbered(lines: Iterable[str], path: Path) -> Iterator[tuple[int, list[str]]]:
    """Rows that are not blank, with their line numbers, stripped."""
    reader = csv.reader(lines, skipinitialspace=True)
    try:
        for row in reader:
            cells = [cell.strip() for cell in row]
            if any(cells):
                yield reader.line_num, cells
    except csv.Error as error:
        raise refuse(path, f"line {reader.line_num}: {error}", "write plain CSV") from error


def columns_of(header: list[str], path: Path, number: int) -> dict[str, int]:
    """Maps columns to their positions, by the name used here."""
    columns: dict[str, int] = {}
    for at, word in enumerate(header):
        name = word.lower()
        name = "upper" if name == LAST_MOMENT else SYNONYMS.get(name, name)
        if name in columns:
            raise refuse(path, f"line {number}: two columns for '{name}'", "leave one of them out")
        columns[name] = at
    missing = [name for name in REQUIRED if name not in columns]
    if missing:
        raise refuse(
            path,
            f"line {number}: no column {' nor '.join(repr(name) for name in missing)} among "
            + ", ".join(repr(word) for word in header),
            f"name the columns in line {number}, separated by commas: {','.join(REQUIRED)}",
        )
    return columns


def buffer_of(row: list[str], columns: dict[str, int], inclusive: bool) -> Buffer:
    """One row as a buffer. Raises ValueError(reason, remedy)."""
    if len(row) != len(columns):
        raise ValueError(
            f"{len(row)} fields, the header names {len(columns)}", "give each column a value"
        )
    cell = {name: row[at] for name, at in columns.items()}
    if not cell["id"]:
        raise ValueError("no id", "name the buffer")
    lower, upper, size = (integer(cell[name], name) for name in ("lower", "upper", "size"))
    upper += inclusive
    if upper <= lower:
        raise ValueError(
            f"the lifetime [{lower}, {upper}) is empty",
            "upper is the first moment after it; name the column 'end' if it is the last within",
        )
    if size < 0:
        raise ValueError(f"size {size} is negative", "give bytes")
    alignment = integer(cell.get("alignment") or "1", "alignment")
    if alignment < 1:
        raise ValueError(f"alignment {alignment} is not positive", "give bytes, 1 for any offset")
    gaps = gaps_of(cell.get("gaps", ""), inclusive, (lower, upper), size)
    offset = None
    if cell.get("offset", "") not in NO_VALUE:
        offset = integer(cell["offset"], "offset")
        if offset < 0 or offset % alignment:
            raise ValueError(
                f"offset {offset} is not a multiple of {alignment} from 0 on", "give bytes"
            )
    accesses = integer(cell.get("accesses") or str(size), "accesses")
    if accesses < 0:
        raise ValueError(f"accesses {accesses} is negative", "give loads and stores")
    return Buffer(cell["id"], lower, upper, size, alignment, gaps, offset, accesses)


def gaps_of(text: str, inclusive: bool, life: tuple[int, int], size: int) -> tuple[Gap, ...]:
    """The gaps that a cell names, in order, those without a moment left out. Raises
    ValueError(reason, remedy)."""
    gaps: list[Gap] = []
    for word in () if text in NO_VALUE else text.split():
        match = GAP.fullmatch(word)
        if match is None or len(word) > MOST_DIGITS:
            raise ValueError(f"'{word}' is not a gap", "write 3-5, or 3-5@16:32 with its bytes")
        lower, upper, low, high = (int(number or 0) for number in match.groups())
        upper += inclusive
        if not life[0] <= lower <= upper <= life[1] or not low <= high <= size:
            raise ValueError(
                f"the gap {word} is not within the buffer", "give moments and bytes of the buffer"
            )
        if lower < upper:
            gaps.append(Gap(lower, upper, low, high))
    gaps.sort(key=lambda gap: gap.lower)
    for gap, after in itertools.pairwise(gaps):
        if after.lower < gap.upper:
            raise ValueError("two gaps have a moment in common", "join them, or part them")
    return tuple(gaps)


def integer(text: str, column: str) -> int:
    """A decimal number of a cell; ValueError(reason, remedy) where it is none."""
    if not re.fullmatch(r"[+-]?[0-9]+", text):
        raise ValueError(f"{column} '{text}' is not an integer", "write it in decimal digits")
    if len(text) > MOST_DIGITS:
        raise ValueError(f"{column} has {len(text)} characters", "give fewer digits")
    return int(text)


def write(problem: Instance, placement: Allocation, path: Path) -> None:
    """The problem with one more column, `offset`; buffers in the order they came, and of the
    columns that may be left out those that say something."""
    columns: dict[str, list[object]] = {
        "id": [b.id for b in problem.buffers],
        "lower": [b.lower for b in problem.buffers],
        "upper": [b.upper for b in problem.buffers],
        "size": [b.size for b in problem.buffers],
    }
    if any(b.alignment != 1 for b in problem.buffers):
        columns["alignment"] = [b.alignment for b in problem.buffers]
    if any(b.gaps for b in problem.buffers):
        columns["gaps"] = [" ".join(map(gap_text, b.gaps)) for b in problem.buffers]
    if any(b.accesses != b.size for b in problem.buffers):
        columns["accesses"] = [b.accesses for b in problem.buffers]
    columns["offset"] = [placement.offsets[b.id] for b in problem.buffers]
    with path.open("w", newline="", encoding="utf-8") as file:
        rows = csv.writer(file, lineterminator="\n")
        rows.writerow(columns)
        rows.writerows(zip(*columns.values(), strict=True))


def gap_text(gap: Gap) -> str:
    """A gap as a cell has it."""
    window = f"@{gap.low}:{gap.high}" if gap.high else ""
    return f"{gap.lower}-{gap.upper}{window}"
