# SPDX-License-Identifier: Apache-2.0
"""Scripts of the project that are no package, as modules."""

from __future__ import annotations

import importlib.util
import sys
from pathlib import Path
from types import ModuleType

ROOT = Path(__file__).resolve().parents[2]


def script(name: str, path: str) -> ModuleType:
    """The file at `path` of the checkout under a name of its own: several are called run.py."""
    spec = importlib.util.spec_from_file_location(name, ROOT / path)
    assert spec is not None and spec.loader is not None
    # Dataclasses look their module up.
    module = sys.modules[name] = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module
