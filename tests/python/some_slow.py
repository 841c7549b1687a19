# SPDX-License-Identifier: Apache-2.0
"""A draw of the slow cases: VMCU_DRAW of each test that has SEVERAL, the same ones of the same tree
on every machine."""

from __future__ import annotations

import random
import subprocess
from collections import defaultdict
from pathlib import Path

import pytest

# Fewer slow cases of a test are no sample: each takes minutes.
SEVERAL = 8


def seed_of(root: Path) -> str:
    """What git calls the tree of the last commit."""
    command = ["git", "-C", str(root), "rev-parse", "HEAD^{tree}"]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    return done.stdout.strip()


class SomeSlow:
    """A plugin of pytest."""

    def __init__(self, cases: int) -> None:
        self.cases = cases

    @pytest.hookimpl(trylast=True)
    def pytest_collection_modifyitems(
        self, config: pytest.Config, items: list[pytest.Item]
    ) -> None:
        dice = random.Random(seed_of(config.rootpath))
        tests = defaultdict(list)
        for item in items:
            tests[item.nodeid.partition("[")[0]].append(item)
        rows = [cases for cases in tests.values() if len(cases) >= SEVERAL]
        items[:] = [item for row in rows for item in dice.sample(row, min(self.cases, len(row)))]
