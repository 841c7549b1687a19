# SPDX-License-Identifier: Apache-2.0
"""Runs C of the Zephyr port on this computer, with Zephyr's functions in the tests."""

from __future__ import annotations

import subprocess
from pathlib import Path

import online_device as device
import pytest
from vmcu_tools import paths

PORT = paths.runtime() / "port/zephyr"
TESTS = Path(__file__).parents[1] / "c/port"
INCLUDES = tuple(f"-I{folder}" for folder in (TESTS / "include", PORT / "include"))
PARTS = {
    "slots": ("updates/slots.c", "updates/minimum.c"),
    "async": ("async.c",),
    "trace": ("trace.c",),
}


@pytest.mark.parametrize("name", PARTS)
def test_port(name: str, tmp_path: Path) -> None:
    program = tmp_path / name
    files = (TESTS / f"{name}.c", *(PORT / part for part in PARTS[name]))
    target = device.host(INCLUDES, False)
    target.gcc(["-Wconversion", "-Wshadow", *map(str, files), "-o", str(program)], tmp_path)
    subprocess.run([program], check=True)
