# SPDX-License-Identifier: Apache-2.0
"""Tables that scripts compute and pages hold: printed, or put between two markers of a page."""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass


@dataclass(frozen=True)
class Table:
    """`columns`: headings, the first one of names. `notes`: paragraphs that follow the rows."""

    title: str
    columns: tuple[str, ...]
    rows: tuple[tuple[str, ...], ...]
    notes: Sequence[str] = ()

    def markdown(self, command: str) -> str:
        """As a page has it, under the command that prints it."""
        lines = [f"`{command}`", ""]
        lines += ["| " + " | ".join(self.columns) + " |"]
        lines += ["| --- |" + " ---: |" * (len(self.columns) - 1)]
        lines += ["| " + " | ".join(row) + " |" for row in self.rows]
        for note in self.notes:
            lines += ["", note]
        return "\n".join(lines)


def insert(text: str, name: str, block: str) -> str:
    """The text with what is between a table's markers replaced. Raises ValueError without them."""
    start, end = f"<!-- {name} -->", f"<!-- end of {name} -->"
    pattern = re.compile(re.escape(start) + ".*?" + re.escape(end), re.DOTALL)
    if not pattern.search(text):
        raise ValueError(f"there is no '{start}' followed by '{end}'")
    return pattern.sub(lambda match: f"{start}\n{block}\n{end}", text)
