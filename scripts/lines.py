#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Prints the lines of each package: code, docstrings and comments apart, and its ceiling.

python scripts/lines.py [--write]

`tests/lines.csv` has the ceilings: lines of code of each package and of the tests, words of the
pages. --write lowers them to what there is. Only an editor raises one, and the commit that does has
a paragraph that starts with "Ceiling:" and says why (tests/python/test_lines.py).
"""

from __future__ import annotations

import argparse
import ast
import csv
import io
import re
import tokenize
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]
BUDGET = ROOT / "tests" / "lines.csv"
PYTHON = [
    ROOT / "python" / name
    for name in (
        *("vmcu_tools", "vmcu_bench", "vmcu_check", "vmcu_lab", "vmcu_split", "vmcu_kernelgen"),
        "vmcu",
    )
]
RUNTIME = ROOT / "lib" / "vmcu"
TESTS = ROOT / "tests"
# What is read as text: its words count.
PAGES = ("README.md", "CONTRIBUTING.md", "doc/**/*.md", "samples/**/*.md", "examples/**/*.md")
SUFFIXES = (".py", ".c", ".h")
DOCUMENTED = (ast.Module, ast.ClassDef, ast.FunctionDef, ast.AsyncFunctionDef)
KINDS = ("code", "docstrings", "comments")
# C that a command writes: its lines are no one's work.
GENERATED = re.compile(r"\bgen/|/operators\.h$")
_C_COMMENT = re.compile(r"/\*.*?\*/|//[^\n]*", re.DOTALL)


def python_lines(text: str) -> Counter[str]:
    """Lines by kind. A line with code counts as code, a blank line nowhere."""
    docstrings: set[int] = set()
    for node in ast.walk(ast.parse(text)):
        if isinstance(node, DOCUMENTED) and ast.get_docstring(node, clean=False) is not None:
            first = node.body[0]
            docstrings.update(range(first.lineno, (first.end_lineno or first.lineno) + 1))
    code, comments = set[int](), set[int]()
    beside = (tokenize.NL, tokenize.NEWLINE, tokenize.INDENT, tokenize.DEDENT, tokenize.ENDMARKER)
    for token in tokenize.generate_tokens(io.StringIO(text).readline):
        if token.type == tokenize.COMMENT:
            comments.add(token.start[0])
        elif token.type not in beside:
            code.update(range(token.start[0], token.end[0] + 1))
    code -= docstrings
    kinds = {"code": code, "docstrings": docstrings, "comments": comments - code}
    return Counter({kind: len(lines) for kind, lines in kinds.items()})


def c_lines(text: str) -> Counter[str]:
    """Lines by kind; Doxygen's comments count as docstrings."""
    kind_of: dict[int, str] = {}
    for found in _C_COMMENT.finditer(text):
        kind = "docstrings" if found[0].startswith("/**") else "comments"
        first = text.count("\n", 0, found.start())
        kind_of.update(dict.fromkeys(range(first, first + found[0].count("\n") + 1), kind))
    bare = _C_COMMENT.sub(lambda found: "\n" * found[0].count("\n"), text)
    kind_of.update({n: "code" for n, line in enumerate(bare.split("\n")) if line.strip()})
    return Counter(kind_of.values())


def lines_of(files: Iterable[Path]) -> Counter[str]:
    """Lines by kind of Python and C files."""
    count = (python_lines, c_lines)
    return sum((count[path.suffix != ".py"](path.read_text()) for path in files), Counter())


def packages() -> Iterator[tuple[str, list[Path]]]:
    """Each package by its path, with its files; files beside packages are in that of the folder."""
    for base in (*PYTHON, RUNTIME):
        folders = sorted(one for one in base.iterdir() if one.is_dir())
        parts = [(base, base.iterdir()), *((folder, folder.rglob("*")) for folder in folders)]
        for folder, found in parts:
            files = sorted(path for path in found if path.suffix in SUFFIXES)
            files = [path for path in files if not GENERATED.search(path.as_posix())]
            if files:
                yield folder.relative_to(ROOT).as_posix(), files


def counted() -> dict[str, Counter[str]]:
    """Lines by kind of each package."""
    return {name: lines_of(files) for name, files in packages()}


def sizes(packages: Mapping[str, Counter[str]]) -> dict[str, int]:
    """What has a ceiling: lines of code of each package, as counted() has them, and of the tests,
    words of the pages."""
    code = {name: lines["code"] for name, lines in packages.items()}
    tests = lines_of(path for path in TESTS.rglob("*") if path.suffix in SUFFIXES)
    pages = {path for pattern in PAGES for path in ROOT.glob(pattern)}
    words = sum(len(page.read_text().split()) for page in pages)
    return {**code, "tests": tests["code"], "pages (words)": words}


def ceilings(text: str) -> dict[str, int]:
    """The ceilings of a table such as tests/lines.csv."""
    return {row["package"]: int(row["most"]) for row in csv.DictReader(text.splitlines())}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--write", action="store_true", help="lower the ceilings to today's lines")
    lines = counted()
    size, most = sizes(lines), ceilings(BUDGET.read_text())
    if parser.parse_args().write:
        most = {name: min(size[name], most[name]) for name in size if name in most}
        rows = "".join(f"{name},{ceiling}\n" for name, ceiling in most.items())
        BUDGET.write_text(f"package,most\n{rows}")
    print(f"{'package':34} {'ceiling':>8}" + "".join(f"{kind:>11}" for kind in KINDS))
    for name, found in lines.items():
        print(f"{name:34} {most.get(name, 0):8,}" + "".join(f"{found[kind]:11,}" for kind in KINDS))
    total = sum(lines.values(), Counter())
    ceiling = sum(most.get(name, 0) for name in lines)
    print(f"{'all':34} {ceiling:8,}" + "".join(f"{total[kind]:11,}" for kind in KINDS))
    for name in size.keys() - lines.keys():
        print(f"{name:34} {most.get(name, 0):8,}{size[name]:11,}")


if __name__ == "__main__":
    main()
