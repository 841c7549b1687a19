# SPDX-License-Identifier: Apache-2.0
"""The planner makes as many calls as the table of its page says: no clock, so no busy computer,
has a say."""

from __future__ import annotations

import sys
from pathlib import Path

import pytest
from builders.networks import present
from test_tables_again import block_of, lines

from scripts import script

MORE = 1.3
PLANNING = script("planning", "benchmarks/graphs/planning.py")


def on_page() -> dict[str, str]:
    """Millions of calls, by network."""
    _, heads, _, *rows = lines(block_of("planner/planning"))
    assert heads[:2] == PLANNING.COLUMNS[:2]
    return {name: calls.strip() for name, calls, _ in rows}


def test_the_page_has_all_networks() -> None:
    networks = (*PLANNING.FILES, *PLANNING.GRAPHS, PLANNING.ENHANCER)
    assert tuple(on_page()) == networks
    assert {name for name, calls in on_page().items() if calls} == {*PLANNING.COUNTED}


@pytest.mark.skipif(sys.version_info[:2] != (3, 11), reason="others inline comprehensions")
@pytest.mark.parametrize("name", PLANNING.COUNTED)
def test_planning_makes_the_calls_of_the_page(name: str) -> None:
    network, expected = PLANNING.model(name), float(on_page()[name])
    if name in PLANNING.FILES:
        present(Path(network))
    calls = float(PLANNING.calls(network))
    assert expected / MORE < calls < expected * MORE, PLANNING.command(PLANNING.TABLE)
