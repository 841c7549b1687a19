# SPDX-License-Identifier: Apache-2.0
"""What a draw of the slow cases runs."""

from __future__ import annotations

import pytest
from some_slow import SomeSlow

pytest_plugins = ["pytester"]
CASES = """
import pytest

@pytest.mark.parametrize("seed", range(12))
def test_first(seed): pass

@pytest.mark.parametrize("seed", range(8))
def test_second(seed): pass

@pytest.mark.parametrize("seed", range(7))
def test_few(seed): pass
"""


def names(pytester: pytest.Pytester, cases: int) -> list[str]:
    pytester.makepyfile(CASES)
    result = pytester.inline_run("-p", "no:xdist", plugins=[SomeSlow(cases)])
    return [
        report.nodeid.partition("::")[2]
        for report in result.getreports()
        if report.__class__.__name__ == "TestReport" and report.when == "call"
    ]


def test_cases_of_each_test(pytester: pytest.Pytester, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("some_slow.seed_of", lambda root: "a")
    assert [name.partition("[")[0] for name in names(pytester, 1)] == ["test_first", "test_second"]
    every = names(pytester, 9)
    assert every == names(pytester, 9) and len(set(every)) == 17
    monkeypatch.setattr("some_slow.seed_of", lambda root: "b")
    assert names(pytester, 9) != every
