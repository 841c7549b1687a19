# SPDX-License-Identifier: Apache-2.0
"""How often Python looks for garbage while a command runs, and that it does as before after it."""

from __future__ import annotations

import gc
from collections.abc import Iterator

import pytest
from vmcu_tools import collector


@pytest.fixture(autouse=True)
def _own_threshold() -> Iterator[None]:
    before = gc.get_threshold()
    yield
    gc.set_threshold(*before)


def test_it_comes_seldom_and_then_as_before() -> None:
    gc.set_threshold(700, 10, 10)
    with pytest.raises(ZeroDivisionError), collector.seldom():
        assert gc.get_threshold()[0] == collector.SELDOM
        raise ZeroDivisionError
    assert gc.get_threshold() == (700, 10, 10)


@pytest.mark.parametrize("first", [0, 2 * collector.SELDOM])
def test_whoever_wants_it_less_often_has_it_so(first: int) -> None:
    gc.set_threshold(first, 10, 10)
    with collector.seldom():
        assert gc.get_threshold()[0] == first
