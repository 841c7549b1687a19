# SPDX-License-Identifier: Apache-2.0
"""A draw of the slow cases: of each test that has SEVERAL of them one, then a second of each, until
the CPU seconds of VMCU_DRAW are spent. The same tree has the same draw on every machine."""

from __future__ import annotations

import itertools
import os
import random
import subprocess
from collections import defaultdict
from pathlib import Path

import pytest
from cpu_seconds import now

# Fewer slow cases of a test are no sample: each takes minutes.
SEVERAL = 4


def seed_of(root: Path) -> str:
    """What git calls the tree of the last commit."""
    command = ["git", "-C", str(root), "rev-parse", "HEAD^{tree}"]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    return done.stdout.strip()


def drawn(items: list[pytest.Item], seed: str) -> list[pytest.Item]:
    """In the order in which they run."""
    dice = random.Random(seed)
    tests = defaultdict(list)
    for item in items:
        tests[item.nodeid.partition("[")[0]].append(item)
    rows = [dice.sample(cases, len(cases)) for cases in tests.values() if len(cases) >= SEVERAL]
    turns = itertools.zip_longest(*dice.sample(rows, len(rows)))
    return [item for turn in turns for item in turn if item is not None]


class SomeSlow:
    """A plugin of pytest, in each worker. Cases that begin too late are left out of the reports."""

    def __init__(self, seconds: float) -> None:
        self.seconds = seconds / int(os.environ.get("PYTEST_XDIST_WORKER_COUNT", "1"))
        self.start = 0.0

    def pytest_collection_finish(self) -> None:
        self.start = now()

    @pytest.hookimpl(trylast=True)
    def pytest_collection_modifyitems(
        self, config: pytest.Config, items: list[pytest.Item]
    ) -> None:
        items[:] = drawn(items, seed_of(config.rootpath))

    @pytest.hookimpl(tryfirst=True)
    def pytest_runtest_protocol(self) -> bool | None:
        return True if now() - self.start > self.seconds else None
