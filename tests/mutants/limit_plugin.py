# SPDX-License-Identifier: Apache-2.0
"""A pytest plugin that ends a test, or a program that it runs, which takes more CPU seconds than
VMCU_MUTANTS_SECONDS: a mutant may make a loop endless."""

from __future__ import annotations

import os
import resource

import pytest

SECONDS = float(os.environ["VMCU_MUTANTS_SECONDS"])


@pytest.hookimpl(tryfirst=True)
def pytest_runtest_setup() -> None:
    """Processes inherit it, and each of them counts from 0."""
    used = sum(resource.getrusage(resource.RUSAGE_SELF)[:2])
    _, most = resource.getrlimit(resource.RLIMIT_CPU)
    resource.setrlimit(resource.RLIMIT_CPU, (int(used + SECONDS) + 1, most))
