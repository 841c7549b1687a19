# SPDX-License-Identifier: Apache-2.0
"""The packages of the checkout, made once, and the report of CPU seconds of tests/python."""

from __future__ import annotations

import sys
from collections.abc import Callable
from pathlib import Path

import pytest

sys.path.append(str(Path(__file__).resolve().parents[1] / "python"))

from cpu_seconds import CpuSeconds
from packed import ROOT, need, run, unpack


def pytest_configure(config: pytest.Config) -> None:
    # Another name than in tests/python, for runs of both folders.
    config.pluginmanager.register(CpuSeconds(), "cpu-seconds-of-packages")


@pytest.fixture(scope="session")
def built(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The folder that scripts/packages.py has written."""
    pytest.importorskip("hatchling", reason="no hatchling, which builds the wheel")
    need("git", "cmake")
    if not (ROOT / ".git").exists():
        pytest.skip("no git checkout: nothing says which files belong to vmcu")
    out = tmp_path_factory.mktemp("packages")
    run([sys.executable, ROOT / "scripts" / "packages.py", out])
    return out


@pytest.fixture(scope="session")
def unpacked(built: Path, tmp_path_factory: pytest.TempPathFactory) -> Callable[[str], Path]:
    """Unpacks the archive of a kind, once, and returns its folder."""
    folders: dict[str, Path] = {}

    def folder(kind: str) -> Path:
        if kind not in folders:
            (archive,) = (built / kind).iterdir()
            folders[kind] = unpack(archive, tmp_path_factory.mktemp(kind))
        return folders[kind]

    return folder
