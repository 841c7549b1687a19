# SPDX-License-Identifier: Apache-2.0
"""What the page of several memories says is what its benchmark prints."""

from __future__ import annotations

import sys
from types import ModuleType

import pytest

from scripts import ROOT, script

PAGE = ROOT / "doc" / "memories.md"
# Of the accesses to pools, in the fast one of two memories of 64 KB and 256 KB.
LEAST = 0.9


def benchmark() -> ModuleType:
    return script("memories", "benchmarks/memories/run.py")


@pytest.mark.parametrize("number", range(3))
def test_figures_are_counted_again(number: int) -> None:
    memories = benchmark()
    case, folder = memories.CASES[number], sys.modules["pages"].MODELS
    if not (folder / case.file).exists():
        pytest.skip(f"{case.file} is not in {folder}")
    row = memories.row(case, folder)
    assert "| " + " | ".join(row) + " |\n" in PAGE.read_text(encoding="utf-8")
    assert float(row[-1].rstrip("%")) / 100 >= LEAST


def test_the_page_has_every_table() -> None:
    memories = benchmark()
    page = PAGE.read_text(encoding="utf-8")
    for name in memories.TABLES:
        assert sys.modules["pages"].insert(page, name, "")
        assert memories.command(name) in page
