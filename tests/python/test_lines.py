# SPDX-License-Identifier: Apache-2.0
"""The budget of lines: no package has more code than tests/lines.csv allows."""

from __future__ import annotations

import runpy
import subprocess

from vmcu_tools import paths

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


def test_no_package_grows_in_silence() -> None:
    budget, counted = LINES["budget"](), LINES["counted"]()
    assert set(budget) == set(counted)
    above = {name: lines["code"] for name, lines in counted.items() if lines["code"] > budget[name]}
    raised = "remove code, or run `python scripts/lines.py --write` and say in the commit why"
    assert not above, f"{raised}: {above}"


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
