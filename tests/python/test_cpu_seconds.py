# SPDX-License-Identifier: Apache-2.0
"""The bound on what a case may cost."""

from __future__ import annotations

import cpu_seconds
import pytest

pytest_plugins = ["pytester"]
CASES = """
import subprocess, sys, pytest

@pytest.mark.parametrize("path", ["a/b"])
def test_program(path):
    subprocess.run([sys.executable, "-c", "while __import__('time').process_time() < 0.5: pass"])

def test_cheap(): pass

@pytest.mark.skip
def test_left_out(): pass
"""


@pytest.mark.parametrize("reason", ["", "test_bounds.py::test_program: it starts a program"])
def test_a_dear_case_fails_without_a_reason(
    reason: str, pytester: pytest.Pytester, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Of programs that it runs, too."""
    listed = pytester.path / "slow_cases.txt"
    listed.write_text(f"# Comment.\n{reason}\n" if reason else "")
    monkeypatch.setattr(cpu_seconds, "LIMIT", 0.4)
    monkeypatch.setattr(cpu_seconds, "LIST", listed)
    monkeypatch.setenv("VMCU_CASES_LIST", str(pytester.path / "cases"))
    left_out = f"import pytest\n{CASES[CASES.index('@pytest.mark.skip') :]}"
    pytester.makepyfile(test_bounds=CASES, test_none=left_out)
    result = pytester.inline_run("-p", "no:xdist", plugins=[cpu_seconds.CpuSeconds()])
    passed, skipped, failed = result.listoutcomes()
    names = [report.nodeid for report in failed]
    assert names == ([] if reason else ["test_bounds.py::test_program[a/b]"])
    lines = (pytester.path / "cases.skipped").read_text().splitlines()
    assert lines == ["1", "1\ttest_none.py"]
    assert len(skipped) == 2 and "test_bounds.py::test_cheap" in str(passed)


def test_listed_cases_exist() -> None:
    """And have a reason; or else the list only grows."""
    for name, reason in cpu_seconds.allowed().items():
        file, _, case = name.partition("::")
        path = cpu_seconds.LIST.with_name(file)
        assert reason and f"def {case.partition('[')[0]}(" in path.read_text(), name
