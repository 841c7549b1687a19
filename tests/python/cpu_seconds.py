# SPDX-License-Identifier: Apache-2.0
"""CPU seconds of each test case, its programs included: the dearest are printed, and a case over
LIMIT fails unless it is marked slow or slow_cases.txt names it with a reason. For ./test, what was
skipped is listed."""

from __future__ import annotations

import json
import os
import resource
from collections import defaultdict
from collections.abc import Iterator
from pathlib import Path

import pytest

# Compilers are cold in CI, and its cores may have half the speed of a quiet desk.
LIMIT, PRINTED = 100.0, 40
LIST = Path(__file__).with_name("slow_cases.txt")


def allowed() -> dict[str, str]:
    """By case, or by test for all its cases, why it may cost more than LIMIT."""
    lines = (line.split(": ", 1) for line in LIST.read_text().splitlines() if line[:1] != "#")
    return dict(lines)


def short(case: str) -> str:
    """A case with its file's name, without folders; its parameters may have slashes."""
    file, _, test = case.partition("::")
    return f"{Path(file).name}::{test}"


def now() -> float:
    """CPU seconds of this process and of the programs that it has run."""
    parts = [resource.getrusage(who) for who in (resource.RUSAGE_SELF, resource.RUSAGE_CHILDREN)]
    return sum(part.ru_utime + part.ru_stime for part in parts)


class CpuSeconds:
    """A plugin of pytest, in each worker and in what starts them."""

    def __init__(self) -> None:
        self.begun = 0.0
        self.spent: dict[str, float] = {}
        # By file, of each case whether it was skipped.
        self.skipped: dict[str, list[bool]] = defaultdict(list)
        self.allowed = allowed()

    @pytest.hookimpl(wrapper=True, tryfirst=True)
    def pytest_runtest_protocol(self, item: pytest.Item) -> Iterator[None]:
        self.begun = now()
        return (yield)

    @pytest.hookimpl(wrapper=True)
    def pytest_runtest_makereport(self, item: pytest.Item, call: pytest.CallInfo) -> Iterator[None]:
        report = yield
        if call.when == "teardown":
            seconds = now() - self.begun
            report.user_properties.append(("cpu_seconds", seconds))
            name = short(item.nodeid)
            bound = seconds > LIMIT and item.get_closest_marker("slow") is None
            if bound and not {name, name.partition("[")[0]} & set(self.allowed):
                report.outcome = "failed"
                report.longrepr = (
                    f"{seconds:.0f} CPU s, more than {LIMIT:.0f}: make the case cheaper, mark it "
                    f"slow, or name it in {LIST.name} with a reason"
                )
        return report

    def pytest_runtest_logreport(self, report: pytest.TestReport) -> None:
        file = report.nodeid.partition("::")[0]
        if report.when == "teardown":
            self.spent[report.nodeid] = dict(report.user_properties).get("cpu_seconds", 0.0)
        elif report.skipped or report.when == "call":
            self.skipped[file].append(report.skipped)

    def pytest_collectreport(self, report: pytest.CollectReport) -> None:
        if report.skipped:
            self.skipped[report.nodeid] = [True]

    def pytest_terminal_summary(self, terminalreporter: pytest.TerminalReporter) -> None:
        dearest = sorted(self.spent.items(), key=lambda one: -one[1])[:PRINTED]
        total = sum(self.spent.values())
        terminalreporter.section(f"{total:,.0f} CPU s; the dearest of {len(self.spent):,} cases")
        for name, seconds in dearest:
            if seconds >= 1:
                terminalreporter.write_line(f"{seconds:6.1f} {short(name)}")
        if name := os.environ.get("VMCU_CASES_LIST"):
            Path(f"{name}.skipped").write_text("".join(self._skipped()))
            Path(f"{name}.json").write_text(json.dumps(self.spent))

    def _skipped(self) -> Iterator[str]:
        """A line a file: how many cases were skipped, and, if all were, its name."""
        for file, cases in sorted(self.skipped.items()):
            if any(cases):
                name = f"\t{file.rpartition('/')[2]}" if all(cases) else ""
                yield f"{sum(cases)}{name}\n"
