#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Prints doc/commands.md, the reference of all commands, from their parsers, and the table of
packages that they need; --write writes both, the table into doc/install.md."""

from __future__ import annotations

import argparse
import sys
from collections.abc import Iterator
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]
PAGE, INSTALL = ROOT / "doc" / "commands.md", ROOT / "doc" / "install.md"
MARKS = "<!-- commands -->\n", "<!-- end of commands -->"
sys.path.insert(0, str(ROOT / "python"))

from vmcu_bench.runners import RUNNERS  # noqa: E402
from vmcu_tools import cli  # noqa: E402
from vmcu_tools.commands.needs import NEEDS  # noqa: E402
from vmcu_tools.commands.parser import Parser  # noqa: E402
from vmcu_tools.planner.options import EXCLUSIONS, spelled  # noqa: E402

HEAD = """<!-- SPDX-License-Identifier: Apache-2.0 -->
# Commands

`vmcu help COMMAND` prints this reference and examples. `west vmcu COMMAND` is the same in a west
workspace.

Exit codes: 0 done, 1 problem with the model or the call, 2 usage, 130 interrupted. A SIZE is 65536,
64K, 64 KB, 64KiB, 1.5K or 0.5M; K is 1024 bytes, and a size must be a whole number of bytes. Every
command also has `-q`, `--quiet`: print only warnings and errors. Written by
`python scripts/commands_page.py --write`.

"""
# Options of all commands.
COMMON = ("help", "quiet")


def page() -> str:
    top = cli.parser()
    parts = [HEAD]
    for title in cli.GROUPS:
        parts.append(f"## {title}\n\n")
        for name in map(cli.name_of, cli.GROUPS[title]):
            parts += section(name, top.commands()[name], top.visible()[name])
    parts += exclusions()
    return "".join(parts).rstrip("\n") + "\n"


def exclusions() -> Iterator[str]:
    """The table of options that cannot be combined."""
    yield "## Options that exclude each other\n\n"
    yield "| option | cannot be combined with |\n| --- | --- |\n"
    for one in EXCLUSIONS:
        others = ", ".join(f"`{spelled(other)}`" for other in one.reasons)
        yield f"| `{spelled(one.option)}` | {others} |\n"


def section(name: str, parser: Parser, what: str) -> Iterator[str]:
    """A command and its own subcommands."""
    yield f"### vmcu {name}\n\n{what[:1].upper()}{what[1:]}.\n\n"
    if rows := list(options(parser)):
        yield "| argument | |\n| --- | --- |\n" + "".join(rows) + "\n"
    for verb, one in parser.commands().items():
        yield from section(f"{name} {verb}", one, parser.visible()[verb])


def options(parser: Parser) -> Iterator[str]:
    """A row for each argument, in the order of --help."""
    for group in parser.groups():
        for action in group._group_actions:
            if action.dest in COMMON or action.help == argparse.SUPPRESS:
                continue
            if isinstance(action, argparse._SubParsersAction):
                continue
            yield f"| {named(action)} | {cell(str(action.help))} |\n"


def needs() -> Iterator[str]:
    """The table of doc/install.md: calls of commands, and what they need beyond the core."""
    yield "| command | extra | Python packages | Debian packages |\n| --- | --- | --- | --- |\n"
    needing = {words[0] for words, _, _ in NEEDS if len(words) == 1} | {
        "verify",
        "evidence",
        "bench",
    }
    others = [f"`{name}`" for name in cli.parser().visible() if name not in needing]
    yield f"| {', '.join(others)}, except as below | | | |\n"
    for words, extra, packages in NEEDS:
        call = " ".join(f"FILE{word}" if word.startswith(".") else word for word in words)
        yield f"| `{call}` | `{extra}` | {', '.join(packages.values())} | |\n"
    machines: dict[str, list[str]] = {}
    for name, runner in RUNNERS.items():
        packages = ", ".join(dict.fromkeys(" ".join(runner.programs().values()).split()))
        machines.setdefault(packages, []).append(name)
    for packages, names in machines.items():
        if packages:
            yield f"| `--on` {', '.join(names)} | | | {packages} |\n"
    yield "| `run` and `verify` of a container | | | as `--on host` |\n"
    yield "| `verify` of a stream | | | as `--on host` |\n"
    yield "| `bench` | | | gcc, and as `--on qemu:m4` |\n"
    yield "| `bench --wear` without a model | | | gcc |\n"
    yield "| `--on zephyr:BOARD`, `bench --measure` | | | cmake, a Zephyr workspace |\n"


def inserted(text: str) -> str:
    """The page with today's table between its marks."""
    start, end = (text.index(mark) for mark in MARKS)
    return text[: start + len(MARKS[0])] + "".join(needs()) + text[end:]


def named(action: argparse.Action) -> str:
    """An argument as a command line has it."""
    value = action.metavar or action.dest.upper()
    if action.choices is not None and action.metavar is None:
        value = "\\|".join(map(str, action.choices))
    if not action.option_strings:
        return f"`{value}`"
    takes = "" if action.nargs == 0 else f" {value}"
    return ", ".join(f"`{option}{takes}`" for option in action.option_strings)


def cell(text: str) -> str:
    return text.replace("%%", "%").replace("|", "\\|").replace("<", "&lt;")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--write", action="store_true", help="write the page")
    if parser.parse_args().write:
        PAGE.write_text(page(), encoding="utf-8")
        INSTALL.write_text(inserted(INSTALL.read_text(encoding="utf-8")), encoding="utf-8")
    else:
        print(page(), "\n", *needs(), sep="", end="")


if __name__ == "__main__":
    main()
