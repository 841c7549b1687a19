# SPDX-License-Identifier: Apache-2.0
"""Prints what doc/testing.md says in figures: how much there is, and what holds it.

python scripts/figures.py [--write FILE]
"""

from __future__ import annotations

import argparse
import ast
import subprocess
from collections.abc import Iterator, Sequence
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]
START, END = "<!-- figures -->", "<!-- end of figures -->"
# What grows with every commit is rounded, so that not every one changes the page.
ROUND, ROUND_TESTS = 1000, 50


def files(*patterns: str) -> list[Path]:
    """Of the checkout, those that git knows or would take."""
    command = ["git", "ls-files", "--cached", "--others", "--exclude-standard", *patterns]
    listed = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=True).stdout
    return [path for name in listed.splitlines() if (path := ROOT / name).is_file()]


def lines(paths: Sequence[Path]) -> str:
    count = sum(len(path.read_text(encoding="utf-8").splitlines()) for path in paths)
    return f"{round(count / ROUND):,},000"


def tests(paths: Sequence[Path]) -> Iterator[str]:
    for path in paths:
        for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
            if isinstance(node, ast.FunctionDef) and node.name.startswith("test_"):
                yield node.name


def rows() -> Iterator[tuple[str, str]]:
    """What is counted, and the figure."""
    generated = files("lib/vmcu/*/gen/*", "lib/vmcu/include/vmcu/operators.h")
    written = [path for path in files("lib/vmcu/*.[ch]") if path not in generated]
    modules = files("tests/python/test_*.py")
    yield "lines of Python, product", lines(files("python/*.py"))
    yield "lines of C written by hand, product", lines(written)
    yield "lines of C generated, product", lines(generated)
    yield "lines of Python and C, tests", lines(files("tests/*.py", "tests/*.[ch]"))
    yield (
        "test functions of tests/python, most for many cases",
        f"{round(len([*tests(modules)]) / ROUND_TESTS) * ROUND_TESTS:,}",
    )
    checks = ROOT / "tests" / "python" / "checks.txt"
    yield "checks of the proof", f"{len(checks.read_text(encoding='utf-8').splitlines())}"


def block() -> str:
    """The table, as the page has it."""
    head = ["`python scripts/figures.py --write doc/testing.md`", "", "| | |", "| --- | ---: |"]
    return "\n".join([*head, *(f"| {what} | {figure} |" for what, figure in rows())])


def inserted(page: str) -> str:
    """The page with the table as it is now."""
    before, _, rest = page.partition(START)
    _, _, after = rest.partition(END)
    return f"{before}{START}\n{block()}\n{END}{after}"


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--write", type=Path, metavar="FILE")
    target = parser.parse_args().write
    print(block())
    if target:
        target.write_text(inserted(target.read_text(encoding="utf-8")), encoding="utf-8")


if __name__ == "__main__":
    main()
