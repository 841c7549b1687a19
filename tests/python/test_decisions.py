# SPDX-License-Identifier: Apache-2.0
"""The page of design decisions has the figures that its benchmark prints."""

from __future__ import annotations

import sys
from types import ModuleType

import pytest

from scripts import ROOT, script

PAGE = ROOT / "doc" / "design-decisions.md"


def benchmark() -> ModuleType:
    return script("decisions", "benchmarks/decisions/run.py")


@pytest.mark.parametrize("name", ["orders", "places", "tiles", "windows"])
def test_figures_are_computed_again(name: str) -> None:
    decisions = benchmark()
    page = PAGE.read_text(encoding="utf-8")
    block = decisions.TABLES[name]().markdown(decisions.command(name))
    again = f"{decisions.command(name)} --write doc/{PAGE.name}"
    assert sys.modules["pages"].insert(page, name, block) == page, again


def test_every_table_is_on_the_page_and_tested() -> None:
    assert sorted(benchmark().TABLES) == ["orders", "places", "tiles", "windows"]
