# SPDX-License-Identifier: Apache-2.0
"""The ceilings of tests/lines.csv: no package is above one, no commit raises one in silence."""

from __future__ import annotations

import itertools
import re
import runpy
import subprocess

import pytest
from vmcu_tools import paths

HEADER = "package,most"
LINES = runpy.run_path(str(paths.root() / "scripts" / "lines.py"))

PYTHON = '''\
"""A module
of two lines."""

import os  # not a comment's line


# One comment.
def f() -> str:
    """One docstring."""
    text = """
a text"""

    return text
'''
C = """\
/** Doxygen
 * of two lines.
 */
int f(void); /* no line of its own */

/* One comment. */
int g(void);
"""


def test_lines_are_counted_by_kind() -> None:
    assert LINES["python_lines"](PYTHON) == {"code": 5, "docstrings": 3, "comments": 1}
    assert LINES["c_lines"](C) == {"code": 2, "docstrings": 3, "comments": 1}


def test_no_package_is_above_its_ceiling() -> None:
    size, most = LINES["sizes"](LINES["counted"]()), LINES["ceilings"](LINES["BUDGET"].read_text())
    assert set(size) == set(most)
    above = {name: lines for name, lines in size.items() if lines > most[name]}
    assert not above, f"remove code, or raise the ceiling in tests/lines.csv and say why: {above}"


def silent_raises(before: str, after: str, message: str) -> list[str]:
    """The packages whose ceiling a commit raises without a paragraph that says why."""
    if re.search(r"^Ceiling: \S", message, re.MULTILINE):
        return []
    old, new = LINES["ceilings"](before), LINES["ceilings"](after)
    return [name for name, most in new.items() if most > old.get(name, 0)]


def test_each_raise_of_a_ceiling_has_its_reason() -> None:
    """Of all commits since there are ceilings."""

    def git(*words: str) -> str:
        command = ["git", "-C", str(paths.root()), *words]
        return subprocess.run(command, check=True, capture_output=True, text=True).stdout

    commits = git("log", "--format=%H", "--", "tests/lines.csv").split()
    tables = [git("show", f"{commit}:tests/lines.csv") for commit in commits]
    pairs = zip(commits, itertools.pairwise(tables), strict=False)
    for commit, (after, before) in pairs:
        if not before.startswith(HEADER):
            break
        silent = silent_raises(before, after, git("log", "-1", "--format=%B", commit))
        assert not silent, f"{commit}: {silent}"
    else:
        pytest.skip("the history is not here")


def test_a_raise_without_a_reason_is_seen() -> None:
    before, after = f"{HEADER}\na,10\nb,5\n", f"{HEADER}\na,9\nb,6\nc,1\n"
    assert silent_raises(before, after, "area: change") == ["b", "c"]
    assert silent_raises(before, after, "area: change\n\nCeiling: a new package.") == []
    assert silent_raises(after, before, "area: change") == ["a"]


def test_each_file_of_the_product_is_counted() -> None:
    root = paths.root()
    command = ["git", "-C", str(root), "ls-files", "python", "lib/vmcu"]
    listed = subprocess.run(command, check=True, capture_output=True, text=True).stdout.split()
    suffixes = LINES["SUFFIXES"]
    wanted = {
        name for name in listed if name.endswith(suffixes) and not LINES["GENERATED"].search(name)
    }
    found = {p.relative_to(root).as_posix() for _, files in LINES["packages"]() for p in files}
    assert wanted <= found
