# SPDX-License-Identifier: Apache-2.0
"""Where the runtime's C sources are, and the modules of a package."""

from __future__ import annotations

import importlib
import os
import pkgutil
from pathlib import Path

from .errors import Problem, UserError

ROOT_VARIABLE = "VMCU_ROOT"


def root() -> Path:
    """The checkout that holds lib/vmcu: $VMCU_ROOT, else two folders above this package."""
    chosen = os.environ.get(ROOT_VARIABLE)
    folder = Path(chosen) if chosen else Path(__file__).resolve().parents[2]
    if not (folder / "lib" / "vmcu" / "executor.c").is_file():
        raise UserError(
            Problem(
                f"no vmcu sources in {folder}",
                f"set {ROOT_VARIABLE} to a checkout of vmcu",
            )
        )
    return folder


def runtime() -> Path:
    """lib/vmcu of the checkout."""
    return root() / "lib" / "vmcu"


def import_modules(package: str) -> None:
    """Imports all modules of a package, so that a file in its folder is all that one
    takes; what `python -m` runs is left out."""
    for module in pkgutil.iter_modules(importlib.import_module(package).__path__):
        if module.name != "__main__":
            importlib.import_module(f"{package}.{module.name}")
