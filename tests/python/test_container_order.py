# SPDX-License-Identifier: Apache-2.0
"""The C files of the loader call each other in one direction only."""

from __future__ import annotations

import subprocess
from graphlib import TopologicalSorter
from pathlib import Path

from vmcu_tools import paths

OPTIONS = ("VMCU_CONTAINERS", "VMCU_STREAMS", "VMCU_ONLINE_PLANNER", "VMCU_CONTAINER_REPLAY")


def names(path: Path, which: str) -> set[str]:
    """The external names that an object defines or needs."""
    command = ["nm", "--extern-only", "--format=posix", f"--{which}-only", str(path)]
    lines = subprocess.run(command, check=True, capture_output=True, text=True).stdout.splitlines()
    return {line.split()[0] for line in lines}


def test_no_file_calls_one_that_calls_it(tmp_path: Path) -> None:
    files = sorted((paths.runtime() / "container").rglob("*.c"))
    flags = [f"-I{paths.runtime() / 'include'}", *(f"-D{option}" for option in OPTIONS)]
    command = ["gcc", "-std=c99", "-c", *flags, *map(str, files)]
    subprocess.run(command, check=True, cwd=tmp_path)
    objects = {path.stem: tmp_path / f"{path.stem}.o" for path in files}
    owner = {name: stem for stem, path in objects.items() for name in names(path, "defined")}
    needed = {stem: names(path, "undefined") for stem, path in objects.items()}
    calls = {stem: {owner[name] for name in used & owner.keys()} for stem, used in needed.items()}
    assert len(files) > 20 and calls["load"]
    order = list(TopologicalSorter(calls).static_order())
    assert order[-1] == "load"
