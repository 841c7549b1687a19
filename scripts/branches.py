# SPDX-License-Identifier: Apache-2.0
"""Counts the branches of the runtime that tests take, and those that have a reason why none does.

python scripts/branches.py [--write] [--folder FOLDER]

Compiles the runtime with gcov, runs tests of this computer, and adds up what all builds of a line
have taken. scripts/branches.csv has the lines with branches that no test takes: file, text of the
line, how many branches, reason. Exits 1 at a branch that is not taken and not there, or is there
and is taken, and if doc/static-evidence.md has another table; --write writes it. --folder: keeps
what gcov wrote, and does not run the tests again where there is some.
"""

from __future__ import annotations

import argparse
import csv
import json
import os
import shutil
import subprocess
import sys
import tempfile
from collections import defaultdict
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]
LIBRARY = ROOT / "lib" / "vmcu"
PAGE = ROOT / "doc" / "static-evidence.md"
ARGUED = ROOT / "scripts" / "branches.csv"
START, END = "<!-- branches -->\n", "<!-- end of branches -->"
# The executor, pools, stages, streams, and what vmcu_model_load() calls of a container.
FILES = (
    *("executor.c", "stage.c", "stage.h", "pools.h", "rotation.h", "stream.c", "streams.h"),
    *(f"container/{name}.c" for name in ("arena", "check", "file", "link", "load", "tables")),
)
TESTS = (
    *("arena", "c", "container_calls", "container_damages", "container_release", "streams"),
    *("container_rotation", "container_streams", "external_weights", "rotation"),
    *("lstm_rows.py::test_states_in_c", "recurring.py::test_states_in_c"),
)
# -dumpdir: each compilation has its notes, whatever becomes of the object.
COMPILER = """#!/bin/sh
notes=$(mktemp -d {folder}/notes/XXXXXXXX)
exec {gcc} "$@" --coverage -fprofile-update=atomic -O0 -fno-sanitize=all -dumpdir "$notes/"
"""


@dataclass(frozen=True)
class Line:
    """A line with branches: each one's number of runs."""

    file: str
    text: str
    runs: tuple[int, ...]

    @property
    def missed(self) -> int:
        return self.runs.count(0)


def run_tests(folder: Path) -> None:
    """Runs the tests with a compiler that counts; raises CalledProcessError if one fails."""
    for name in ("bin", "notes", "tmp"):
        (folder / name).mkdir(parents=True)
    # Not ccache in its place, which would call this script as the compiler, and so without end.
    found = (shutil.which("gcc", path=part) for part in os.get_exec_path())
    gcc = next(path for path in found if path and Path(path).resolve().name != "ccache")
    for name in ("gcc", "cc"):
        path = folder / "bin" / name
        path.write_text(COMPILER.format(folder=folder, gcc=gcc), encoding="utf-8")
        path.chmod(0o755)
    named = (name if "::" in name else f"{name}.py" for name in TESTS)
    files = [str(ROOT / "tests" / "python" / f"test_{name}") for name in named]
    subprocess.run(
        [sys.executable, "-m", "pytest", "-q", "-n", "2", "-p", "no:cacheprovider", *files],
        env={**os.environ, "PATH": f"{folder}/bin:{os.environ['PATH']}", "TMPDIR": f"{folder}/tmp"},
        check=True,
    )


def lines(folder: Path) -> Iterator[Line]:
    """Returns the lines of FILES that have branches, with the runs of all builds together."""
    filters = [part for name in FILES for part in ("--filter", str(LIBRARY / name))]
    options = ["--merge-mode-functions", "merge-use-line-max", "--json", "-"]
    options += ["--gcov-ignore-errors", "all", "--gcov-ignore-parse-errors", "all"]
    command = ["gcovr", "--root", str(ROOT), *filters, *options, str(folder / "notes")]
    printed = subprocess.run(command, capture_output=True, check=True).stdout
    for file in json.loads(printed)["files"]:
        source = (ROOT / file["file"]).read_text(encoding="utf-8").splitlines()
        runs: dict[int, dict[int, int]] = defaultdict(lambda: defaultdict(int))
        for one in file["lines"]:
            for branch in one["branches"]:
                runs[one["line_number"]][branch["branchno"]] += branch["count"]
        for number, counts in sorted(runs.items()):
            name = str(Path(ROOT / file["file"]).relative_to(LIBRARY))
            yield Line(name, source[number - 1].strip(), tuple(counts.values()))


def argued() -> dict[tuple[str, str], tuple[int, str]]:
    """Returns branches and reason by file and line."""
    with ARGUED.open(encoding="utf-8", newline="") as file:
        return {
            (row["file"], row["line"]): (int(row["branches"]), row["reason"])
            for row in csv.DictReader(file)
        }


def faults(found: list[Line], reasons: dict[tuple[str, str], tuple[int, str]]) -> list[str]:
    """Returns what is neither taken nor argued, or both."""
    missed: dict[tuple[str, str], int] = defaultdict(int)
    for line in found:
        missed[line.file, line.text] += line.missed
    wrong = []
    for file, text in sorted(missed.keys() | reasons.keys()):
        known, reason = reasons.get((file, text), (0, ""))
        if missed.get((file, text), 0) != known or bool(known) != bool(reason):
            count = missed.get((file, text), 0)
            wrong.append(f"{file}: {count} branches not taken, {known} argued: {text}")
    return wrong


def table(found: list[Line]) -> str:
    """Returns the table of the page."""
    rows = ["| File | Branches | Taken | Argued |", "| --- | ---: | ---: | ---: |"]
    for name in FILES:
        mine = [line for line in found if line.file == name]
        count, missed = sum(len(line.runs) for line in mine), sum(line.missed for line in mine)
        rows.append(f"| `{name}` | {count} | {count - missed} | {missed} |")
    return "\n".join([*rows, ""])


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--write", action="store_true")
    parser.add_argument("--folder", type=Path)
    options = parser.parse_args()
    with tempfile.TemporaryDirectory() as temporary:
        folder = options.folder or Path(temporary) / "gcov"
        if not folder.exists():
            run_tests(folder.resolve())
        found = list(lines(folder))
    print(table(found), end="")
    wrong = faults(found, argued())
    page = PAGE.read_text(encoding="utf-8")
    written = f"{page.split(START)[0]}{START}{table(found)}{END}{page.split(END)[1]}"
    if options.write:
        PAGE.write_text(written, encoding="utf-8")
    elif written != page:
        wrong.append(f"{PAGE.name}: another table, see --write")
    print("\n".join(wrong))
    return 1 if wrong else 0


if __name__ == "__main__":
    sys.exit(main())
