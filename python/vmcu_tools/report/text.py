# SPDX-License-Identifier: Apache-2.0
"""Tables that lose neither a column nor a figure, however narrow the terminal is."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field

from rich.cells import cell_len, chop_cells
from rich.console import Console, ConsoleOptions
from rich.text import Text

GAP = "  "
# A text column is not made narrower than that.
LEAST_TEXT = 16
ELLIPSIS, RULE = "…", "─"
# Their replacements on a terminal that has ASCII only.
ASCII = str.maketrans({ELLIPSIS: "~", RULE: "-"})


def table(*columns: str, left: int = 2, keys: int | None = None, whole: int = 0) -> ReportTable:
    """A table whose first `left` columns are text and the others figures. Where it is wider than
    the terminal, each part of it has the first `keys` columns (default: `left`). Texts of the first
    `whole` columns, which a reader types again, are folded and never shortened."""
    return ReportTable(columns, left, left if keys is None else keys, whole)


@dataclass
class ReportTable:
    """Lays itself out for the width of a console, in this order: headers wrap, text wraps or is
    shortened in the middle, and columns that still do not fit follow in a second table."""

    headers: tuple[str, ...]
    left: int
    keys: int
    whole: int
    rows: list[tuple[str, ...]] = field(default_factory=list)
    # Numbers of rows that a rule follows.
    sections: set[int] = field(default_factory=set)

    def add_row(self, *cells: str, end_section: bool = False) -> None:
        self.rows.append(tuple(map(_printable, cells)))
        if end_section:
            self.sections.add(len(self.rows) - 1)

    def __rich_console__(self, console: Console, options: ConsoleOptions) -> Iterator[Text]:
        yield Text("")
        for part in self._parts(options.max_width):
            widths = self._widths(part, options.max_width)
            for line, style in self._lines(part, widths):
                shown = line.translate(ASCII) if options.ascii_only else line
                yield Text(shown, style=style)
            yield Text("")

    def _parts(self, room: int) -> Iterator[list[int]]:
        """The columns of each table that is printed: the keys, and as many others as fit."""
        part = list(range(self.keys))
        for column in range(self.keys, len(self.headers)):
            if len(part) > self.keys and _total(map(self._least, [*part, column])) > room:
                yield part
                part = list(range(self.keys))
            part.append(column)
        yield part

    def _natural(self, column: int) -> int:
        return max(map(cell_len, (self.headers[column], *(row[column] for row in self.rows))))

    def _least(self, column: int) -> int:
        if column < self.left:
            return min(self._natural(column), LEAST_TEXT)
        words = self.headers[column].split()
        return max(map(cell_len, ("", *words, *(row[column] for row in self.rows))))

    def _widths(self, part: Sequence[int], room: int) -> list[int]:
        """The natural widths; where they are too wide, figures first give up the space of their
        headers, then the widest text shrinks."""
        widths = {column: self._natural(column) for column in part}
        least = {column: self._least(column) for column in part}
        for figures in (True, False):
            while _total(widths.values()) > room:
                spare = [c for c in part if (c >= self.left) == figures and widths[c] > least[c]]
                if not spare:
                    break
                widths[max(spare, key=lambda column: widths[column])] -= 1
        return list(widths.values())

    def _lines(self, part: Sequence[int], widths: Sequence[int]) -> Iterator[tuple[str, str]]:
        """Each line and its style."""
        rule = RULE * _total(widths), ""
        for line in self._row(self.headers, part, widths, bottom=True):
            yield line, "bold"
        yield rule
        for number, row in enumerate(self.rows):
            for line in self._row(row, part, widths):
                yield line, ""
            if number in self.sections:
                yield rule

    def _row(
        self, row: Sequence[str], part: Sequence[int], widths: Sequence[int], bottom: bool = False
    ) -> Iterator[str]:
        """The lines of a row; bottom: its shorter cells are in the last of them."""
        cells = [
            (chop_cells if c < self.whole else wrapped)(row[c], width)
            for c, width in zip(part, widths, strict=True)
        ]
        height = max(map(len, cells), default=0)
        for number in range(height):
            line = []
            for column, cell, width in zip(part, cells, widths, strict=True):
                index = number - (height - len(cell) if bottom else 0)
                text = cell[index] if 0 <= index < len(cell) else ""
                blank = " " * (width - cell_len(text))
                line.append(text + blank if column < self.left else blank + text)
            yield GAP.join(line).rstrip()


def _total(widths: Iterable[int]) -> int:
    known = list(widths)
    return sum(known) + len(GAP) * (len(known) - 1)


def _printable(text: str) -> str:
    return "".join(letter if letter.isprintable() else " " for letter in text)


def wrapped(text: str, width: int) -> list[str]:
    """The lines of a cell. They break between words; a word that is too long is shortened."""
    if cell_len(text) <= width:
        return [text]
    lines = [""]
    for word in text.split():
        longer = f"{lines[-1]} {word}".strip()
        if cell_len(longer) <= width:
            lines[-1] = longer
        else:
            lines.append(shortened(word, width))
    return [line for line in lines if line]


def shortened(text: str, width: int) -> str:
    """The begin and the end of a text."""
    if cell_len(text) <= width:
        return text
    tail = (width - 1) // 2
    head = chop_cells(text, width - 1 - tail)[0]
    end = chop_cells(text[::-1], tail)[0][::-1] if tail else ""
    return f"{head}{ELLIPSIS}{end}"


def counted(number: int, what: str) -> str:
    """'1 layer', '2 layers'."""
    return f"{number:,} {what}" + "s" * (number != 1)
