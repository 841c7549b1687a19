# SPDX-License-Identifier: Apache-2.0
"""What `pip install ./python` installs is all that the commands read."""

from __future__ import annotations

import shutil
import subprocess
from pathlib import Path

import pytest

PYTHON = Path(__file__).resolve().parents[2] / "python"


def test_every_file_that_is_no_module_is_installed() -> None:
    tomllib = pytest.importorskip("tomllib", reason="Python 3.10 reads no TOML")
    if not shutil.which("git") or not (PYTHON.parent / ".git").exists():
        pytest.skip("no git checkout: nothing says which files belong to vmcu")
    listed = subprocess.run(
        ["git", "ls-files", "vmcu_tools"], cwd=PYTHON, capture_output=True, text=True, check=True
    )
    needed = {name for name in listed.stdout.split() if not name.endswith(".py")}
    tool = tomllib.loads((PYTHON / "pyproject.toml").read_text())["tool"]
    globs = tool["setuptools"]["package-data"]["vmcu_tools"]
    package = PYTHON / "vmcu_tools"
    found = {glob: [f.relative_to(PYTHON) for f in package.glob(glob)] for glob in globs}
    assert needed
    assert needed - {str(file) for files in found.values() for file in files} == set()
    assert [glob for glob, files in found.items() if not files] == []
