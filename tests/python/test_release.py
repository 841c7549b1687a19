# SPDX-License-Identifier: Apache-2.0
"""A release says the same everywhere: version, address and the text of its tag."""

from __future__ import annotations

import re
import runpy
import subprocess
from pathlib import Path

from vmcu_tools import __version__

ROOT = Path(__file__).resolve().parents[2]


def read(name: str) -> str:
    return (ROOT / name).read_text(encoding="utf-8")


def test_every_file_has_the_version() -> None:
    assert re.search(rf"^version: {re.escape(__version__)}$", read("CITATION.cff"), re.M)
    assert f"pkg:generic/vmcu@{__version__}" in read("zephyr/module.yml")
    dates = re.search(r"^date-released: (\S+)$", read("CITATION.cff"), re.M)
    assert dates and f"## [{__version__}] - {dates[1]}" in read("CHANGELOG.md")


def test_the_tag_has_the_changelog_of_its_version() -> None:
    text = runpy.run_path(str(ROOT / "scripts" / "tag_text.py"))["tag_text"]
    lines = text(read("CHANGELOG.md")).splitlines()
    assert lines[0] == f"vmcu {__version__}" and lines[1] == "" and "Added:" in lines
    assert not [line for line in lines if line.startswith("#") or "Unreleased" in line]
    old = text("## [1.0] - x\n\nnew\n\n## [0.9] - y\n\n### Fixed\n\n- old\n\n[1.0]: z\n", "0.9")
    assert old == "vmcu 0.9\n\nFixed:\n\n- old\n"


def test_one_address_of_the_repository() -> None:
    """Where it is replaced when there is a public one."""
    stated = re.search(r'^Repository = "([^"]+)"', read("pyproject.toml"), re.M)
    assert stated
    found = subprocess.run(
        ["git", "grep", "-hoE", r"https://[a-z.]+/vmcu\b"], cwd=ROOT, capture_output=True, text=True
    ).stdout.split()
    if found:  # none in an exported tree
        assert set(found) == {stated[1]}
    for page in ("doc/zephyr.md", "doc/zephyr-external-module.rst", "CITATION.cff"):
        assert stated[1] in read(page), page
