# SPDX-License-Identifier: Apache-2.0
"""Tables that scripts compute and pages hold: printed, or put between two markers of a page."""

from __future__ import annotations

import argparse
import functools
import os
import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path

import manifests
from manifests import Behind

# Networks that are no part of vmcu.
MODELS = Path(
    os.environ.get("VMCU_MODELS", Path(__file__).resolve().parents[3] / "shared" / "models")
)


@dataclass(frozen=True)
class Table:
    """`columns`: headings, the first one of names. `notes`: paragraphs that follow the rows.
    `behind`: what its figures are of, for the manifest."""

    title: str
    columns: tuple[str, ...]
    rows: tuple[tuple[str, ...], ...]
    notes: Sequence[str] = ()
    behind: Behind = field(default_factory=Behind)

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


def options(doc: str, names: Sequence[str]) -> argparse.ArgumentParser:
    """What every script that prints tables takes: which, and the page to put them on."""
    parser = argparse.ArgumentParser(description=doc.splitlines()[0])
    parser.add_argument("tables", nargs="*", metavar="TABLE", help=f"of {', '.join(names)}")
    parser.add_argument("--write", type=Path, metavar="FILE")
    return parser


def show_of_models(
    doc: str | None,
    tables: Mapping[str, Callable[[Path], Table]],
    command: Callable[[str], str],
    argv: Sequence[str] | None = None,
) -> None:
    """show() for tables of the networks in a folder."""
    parser = options(doc or "", [*tables])
    parser.add_argument("--models", type=Path, default=MODELS, metavar="DIR")
    args = parser.parse_args(argv)
    made = {name: functools.partial(table, args.models) for name, table in tables.items()}
    show(parser, args, made, command)


def show(
    parser: argparse.ArgumentParser,
    args: argparse.Namespace,
    tables: Mapping[str, Callable[[], Table]],
    command: Callable[[str], str],
) -> None:
    """Prints the tables that are asked for, all by default, and puts them on the page, with their
    manifests."""
    unknown = [name for name in args.tables if name not in tables]
    if unknown:
        parser.error(f"no such table: {', '.join(unknown)}")
    for name in args.tables or tables:
        table = tables[name]()
        try:
            show_one(table, name, command(name), args.write)
        except ValueError as error:
            parser.error(f"{args.write}: {error}")


def show_one(table: Table, name: str, command: str, page: Path | None) -> None:
    """Prints a table, and puts it on a page, with its manifest. Raises ValueError
    without markers."""
    block = table.markdown(command)
    print(f"{table.title}\n\n{block}\n", flush=True)
    if page is not None:
        put(page, name, block, table.behind)


def put(page: Path, name: str, block: str, behind: Behind) -> None:
    """A table between its markers of a page, and its manifest beside the page. Raises ValueError
    without markers."""
    text = insert(page.read_text(encoding="utf-8"), name, block)
    page.write_text(text, encoding="utf-8")
    manifests.write(page, name, block, behind)
