# SPDX-License-Identifier: Apache-2.0
"""The architecture page names what is there."""

from __future__ import annotations

from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]
PYTHON = ROOT / "python"
ROOMS = sorted(
    {path.parent.name for path in PYTHON.glob("vmcu_tools/*/__init__.py")}
    | {path.parent.name for path in PYTHON.glob("vmcu_bench/*/__init__.py")}
    | {path.parent.name for path in PYTHON.glob("vmcu_lab/*/__init__.py")}
)
FILES = sorted(
    path.name for package in ("tools", "lab") for path in PYTHON.glob(f"vmcu_{package}/[a-z]*.py")
)


@pytest.mark.parametrize("room", [*(f"{name}/" for name in ROOMS), *FILES])
def test_the_table_names_every_room(room: str) -> None:
    page = (ROOT / "doc" / "architecture.md").read_text(encoding="utf-8")
    cells = [line.split("|")[1] for line in page.splitlines() if line.startswith("| `")]
    assert any(f"`{room}`" in cell for cell in cells)


def test_the_table_names_nothing_else() -> None:
    page = (ROOT / "doc" / "architecture.md").read_text(encoding="utf-8")
    cells = [line.split("|")[1] for line in page.splitlines() if line.startswith("| `")]
    named = {name.strip(" `") for cell in cells for name in cell.split(",")}
    assert named == {*(f"{name}/" for name in ROOMS), *FILES}
