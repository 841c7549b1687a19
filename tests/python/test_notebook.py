# SPDX-License-Identifier: Apache-2.0
"""The notebooks of examples/ run from top to bottom, and are committed without outputs."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]
NOTEBOOKS = sorted(ROOT.glob("examples/**/*.ipynb"))


@pytest.mark.parametrize("path", NOTEBOOKS, ids=lambda path: path.stem)
def test_a_notebook_runs(path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(path.parent)
    cells = [one for one in json.loads(path.read_text())["cells"] if one["cell_type"] == "code"]
    assert len(cells) > 3
    values: dict[str, object] = {}
    for number, cell in enumerate(cells):
        assert cell["outputs"] == [] and cell["execution_count"] is None
        # The usual search takes long before it gives up.
        source = "".join(cell["source"]).replace("ram=1000", 'ram=1000, effort="quick"')
        exec(compile(source, f"{path.name}[{number}]", "exec"), values)
