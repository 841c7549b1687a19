# SPDX-License-Identifier: Apache-2.0
"""What a draw of the slow cases runs."""

from __future__ import annotations

import pytest
from some_slow import SomeSlow

pytest_plugins = ["pytester"]
CASES = """
import time, pytest

def spend():
    end = time.process_time() + 0.05
    while time.process_time() < end: pass

@pytest.mark.parametrize("seed", range(8))
def test_first(seed): spend()

@pytest.mark.parametrize("seed", range(4))
def test_second(seed): spend()

@pytest.mark.parametrize("seed", range(3))
def test_few(seed): spend()
"""


def names(pytester: pytest.Pytester, seconds: float) -> list[str]:
    pytester.makepyfile(CASES)
    result = pytester.inline_run("-p", "no:xdist", plugins=[SomeSlow(seconds)])
    return [
        report.nodeid.partition("::")[2]
        for report in result.getreports()
        if report.__class__.__name__ == "TestReport" and report.when == "call"
    ]


def test_tests_take_turns_until_the_seconds_are_spent(
    pytester: pytest.Pytester, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("some_slow.seed_of", lambda root: "a")
    monkeypatch.delenv("PYTEST_XDIST_WORKER_COUNT", raising=False)
    some = names(pytester, 0.17)
    assert 3 <= len(some) <= 4 and some == names(pytester, 100)[: len(some)]
    assert {name.partition("[")[0] for name in some[:2]} == {"test_first", "test_second"}
    every = names(pytester, 100)
    assert len(every) == 12 and not any("few" in name for name in every)
    monkeypatch.setattr("some_slow.seed_of", lambda root: "b")
    assert names(pytester, 100) != every
