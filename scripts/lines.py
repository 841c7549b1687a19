#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Prints the lines of each package: code, docstrings and comments apart, and the budget of code.

python scripts/lines.py [--write]

`tests/lines.csv` has the budget: of FEATURES for so many files, where each file more may have as
many lines as these have on average. --write makes today's lines the budget: the commit that raises
a number says why.
"""

from __future__ import annotations

import argparse
import ast
import csv
import io
import re
import tokenize
from collections import Counter
from collections.abc import Iterator
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]
BUDGET = ROOT / "tests" / "lines.csv"
PYTHON = [
    ROOT / "python" / name
    for name in ("vmcu_tools", "vmcu_bench", "vmcu_lab", "vmcu_kernelgen", "vmcu")
]
RUNTIME = ROOT / "lib" / "vmcu"
SUFFIXES = (".py", ".c", ".h")
DOCUMENTED = (ast.Module, ast.ClassDef, ast.FunctionDef, ast.AsyncFunctionDef)
KINDS = ("code", "docstrings", "comments")
# Packages with a file for each feature, such as an operator: a new one needs no new budget.
FEATURES = frozenset(
    {
        *("lib/vmcu/kernels", "python/vmcu_tools/commands", "python/vmcu_tools/frontends"),
        "python/vmcu_tools/ops",
    }
)
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
    lines: dict[str, Counter[str]] = {}
    for name, files in packages():
        count = [
            (python_lines if path.suffix == ".py" else c_lines)(path.read_text()) for path in files
        ]
        lines[name] = sum(count, Counter())
    return lines


def budget() -> dict[str, int]:
    """Lines of code that each package may have."""
    files = {name: len(found) for name, found in packages()}
    with BUDGET.open(newline="") as file:
        rows = {row["package"]: row for row in csv.DictReader(file)}
    allowed = {name: int(row["code"]) for name, row in rows.items()}
    for name in FEATURES & files.keys():
        than = int(rows[name]["files"])
        allowed[name] += max(files[name] - than, 0) * allowed[name] // than
    return allowed


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--write", action="store_true", help="make today's lines the budget")
    lines = counted()
    if parser.parse_args().write:
        files = {name: len(found) for name, found in packages()}
        rows = "".join(f"{name},{found['code']},{files[name]}\n" for name, found in lines.items())
        BUDGET.write_text(f"package,code,files\n{rows}")
    allowed = budget()
    print(f"{'package':34} {'budget':>7}" + "".join(f"{kind:>11}" for kind in KINDS))
    total = sum(lines.values(), Counter())
    for name, found in [*lines.items(), ("all", total)]:
        limit = allowed.get(name, 0) if name != "all" else sum(allowed.values())
        print(f"{name:34} {limit:7,}" + "".join(f"{found[kind]:11,}" for kind in KINDS))


if __name__ == "__main__":
    main()
