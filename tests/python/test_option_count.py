# SPDX-License-Identifier: Apache-2.0
"""The commands have few options, and each one is on a page besides the generated reference."""

from __future__ import annotations

import re
from collections.abc import Iterator
from pathlib import Path

from vmcu_tools import cli
from vmcu_tools.commands import old_spellings
from vmcu_tools.commands.parser import Parser

DOC = Path(__file__).resolve().parents[2] / "doc"
MOST_OPTIONS = 79


def options_of(parser: Parser) -> Iterator[str]:
    """The options of a parser and its commands, without --help."""
    for action in parser._actions:
        yield from (o for o in action.option_strings if o.startswith("--") and o != "--help")
    for command in parser.commands().values():
        yield from options_of(command)


OPTIONS = {*options_of(cli.parser())}


def pages() -> str:
    """The pages, with the files that they include, without the generated reference."""
    texts = [p.read_text(encoding="utf-8") for p in DOC.glob("*.md") if p.name != "commands.md"]
    included = re.findall(r"^```\{include\} (\S+)$", "\n".join(texts), re.M)
    return "\n".join([*texts, *((DOC / file).read_text(encoding="utf-8") for file in included)])


def test_there_are_few_options() -> None:
    assert len(OPTIONS) <= MOST_OPTIONS, sorted(OPTIONS)


def test_each_option_is_on_a_page() -> None:
    text = pages()
    assert [o for o in sorted(OPTIONS) if not re.search(rf"{o}(?![\w-])", text)] == []


def test_old_spellings_become_options() -> None:
    for _, _, _, now in old_spellings.OPTIONS:
        assert now == "" or now.split()[0] in OPTIONS
