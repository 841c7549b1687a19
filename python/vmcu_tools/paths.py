# SPDX-License-Identifier: Apache-2.0
"""Finds the runtime's sources, and the modules of a package."""

from __future__ import annotations

import importlib
import importlib.util
import os
import pkgutil
from pathlib import Path
from typing import Any

from .errors import Problem, UserError

ROOT_VARIABLE = "VMCU_ROOT"


def root() -> Path:
    """The tree that holds lib/vmcu, cmake and the Zephyr module: $VMCU_ROOT, else the checkout of
    this package, else the copy that a wheel brings.

    Raises UserError where $VMCU_ROOT is no such tree, or none of the others is there."""
    package = Path(__file__).resolve().parent
    chosen = os.environ.get(ROOT_VARIABLE)
    folders = [Path(chosen)] if chosen else [package.parents[1], package / "tree"]
    for folder in folders:
        if (folder / "lib" / "vmcu" / "executor.c").is_file():
            return folder
    raise UserError(
        Problem(
            f"no vmcu sources in {folders[0]}",
            f"set {ROOT_VARIABLE} to a checkout of vmcu",
        )
    )


def runtime() -> Path:
    """lib/vmcu of the checkout."""
    return root() / "lib" / "vmcu"


def sources(folder: Path) -> list[Path]:
    """Lists the source files of a folder and those below: C, and assembly, which is empty on
    cores that it is not for."""
    return sorted(file for file in folder.rglob("*") if file.suffix in {".c", ".S"})


def import_modules(package: str) -> None:
    """Imports all modules of a package, so that a new file in its folder is enough; the module
    for `python -m` is left out."""
    for module in pkgutil.iter_modules(importlib.import_module(package).__path__):
        if module.name != "__main__":
            importlib.import_module(f"{package}.{module.name}")


def optional(module: str) -> Any:
    """A module of a package that stands on this one; None where that is not installed."""
    there = importlib.util.find_spec(module.partition(".")[0])
    return importlib.import_module(module) if there else None
