# SPDX-License-Identifier: Apache-2.0
"""A pytest plugin that writes down, for each test, which lines of the product it ran.

To the file VMCU_MUTANTS_REACH, a JSON object a line: sets of lines once each, then tests that refer
to them. Lines of Python that run in other processes are not seen; lines of C are, see compiler.py.
"""

from __future__ import annotations

import ctypes
import json
import os
import subprocess
from collections.abc import Iterator
from pathlib import Path

import coverage
import pytest

TREE = Path(os.environ["VMCU_MUTANTS_TREE"])
OBJECTS = Path(os.environ["VMCU_MUTANTS_CC"])
PRODUCT = (TREE / "python" / "vmcu_tools", TREE / "lib" / "vmcu")


class Recorder:
    def __init__(self, target: Path):
        self.target = target.open("a", encoding="utf-8")
        self.known: dict[str, int] = {}
        self.failed: set[str] = set()
        self.seconds = 0.0
        # The project's settings are those of another run, which counts other processes too.
        self.coverage = coverage.Coverage(
            data_file=None, config_file=False, include=[f"{PRODUCT[0]}/*"]
        )

    def write(self, **entry: object) -> None:
        self.target.write(json.dumps(entry) + "\n")
        self.target.flush()

    def number(self, file: str, lines: list[int]) -> int:
        key = f"{file} {lines}"
        if key not in self.known:
            self.known[key] = len(self.known)
            self.write(set=self.known[key], file=file, lines=lines)
        return self.known[key]

    @pytest.hookimpl(hookwrapper=True)
    def pytest_runtest_protocol(self, item: pytest.Item) -> Iterator[None]:
        self.coverage.erase()
        self.seconds = 0.0
        self.coverage.start()
        yield
        self.coverage.stop()
        data = self.coverage.get_data()
        found = {name: data.lines(name) or [] for name in data.measured_files()}
        found |= _lines_of_c()
        sets = [
            self.number(str(Path(name).relative_to(TREE)), sorted(lines))
            for name, lines in sorted(found.items())
            if lines
        ]
        failed = item.nodeid in self.failed
        self.write(test=item.nodeid, seconds=round(self.seconds, 3), failed=failed, sets=sets)

    @pytest.hookimpl(hookwrapper=True)
    def pytest_runtest_call(self) -> Iterator[None]:
        """Fixtures are not counted: tests share them."""
        start = _spent()
        yield
        self.seconds = _spent() - start

    def pytest_runtest_logreport(self, report: pytest.TestReport) -> None:
        if report.failed:
            self.failed.add(report.nodeid)


def _spent() -> float:
    """CPU seconds, those of programs that have ended included: the same on a busy machine."""
    return sum(os.times()[:4])


def _write_counters() -> None:
    """Those of libraries in this process, which write them at its end otherwise."""
    mapped = Path("/proc/self/maps")
    lines = mapped.read_text().splitlines() if mapped.exists() else []
    for name in sorted({line.split(maxsplit=5)[-1] for line in lines if line.endswith(".so")}):
        library = ctypes.CDLL(name) if Path(name).exists() else None
        if hasattr(library, "__gcov_dump"):
            library.__gcov_dump()
            library.__gcov_reset()


def _lines_of_c() -> dict[str, list[int]]:
    """By file, from the counters that programs and libraries have left; these are taken away."""
    _write_counters()
    counters = sorted(OBJECTS.glob("*.gcda"))
    if not counters:
        return {}
    command = ["gcov", "--json-format", "--stdout", *map(str, counters)]
    done = subprocess.run(command, capture_output=True, text=True, check=True, cwd=OBJECTS)
    for counter in counters:
        counter.unlink()
    lines: dict[str, set[int]] = {}
    for text in done.stdout.splitlines():
        for file in json.loads(text)["files"]:
            path = Path(file["file"])
            if PRODUCT[1] in path.parents:
                ran = {line["line_number"] for line in file["lines"] if line["count"]}
                lines.setdefault(str(path), set()).update(ran)
    return {name: sorted(numbers) for name, numbers in lines.items()}


def pytest_configure(config: pytest.Config) -> None:
    config.pluginmanager.register(Recorder(Path(os.environ["VMCU_MUTANTS_REACH"])))
