# SPDX-License-Identifier: Apache-2.0
"""A pytest plugin that leaves out what runs on emulated boards: slow, and which lines of C it runs
is not seen."""

from __future__ import annotations

import pytest


def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    boards = [item for item in items if "qemu" in item.nodeid or "board" in item.name]
    config.hook.pytest_deselected(items=boards)
    items[:] = [item for item in items if item not in boards]
