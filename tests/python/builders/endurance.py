# SPDX-License-Identifier: Apache-2.0
"""The scripts of benchmarks/endurance, and how what they measure is compared."""

from __future__ import annotations

import importlib.util
import json
import sys
from types import ModuleType

import pytest
from vmcu_tools import paths

BENCHMARK = paths.root() / "benchmarks" / "endurance"


def script(name: str) -> ModuleType:
    spec = importlib.util.spec_from_file_location(f"endurance_{name}", BENCHMARK / f"{name}.py")
    assert spec is not None and spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    # Dataclasses look their module up.
    sys.modules[spec.name] = module
    spec.loader.exec_module(module)
    return module


def expect_same(found: object, kept: object, where: str = "") -> None:
    if isinstance(kept, dict):
        assert isinstance(found, dict) and found.keys() == kept.keys(), where
        for key, value in kept.items():
            expect_same(found[key], value, f"{where}/{key}")
    elif isinstance(kept, list):
        assert isinstance(found, list) and len(found) == len(kept), where
        for number, value in enumerate(kept):
            expect_same(found[number], value, f"{where}/{number}")
    else:
        assert found == (pytest.approx(kept) if isinstance(kept, float) else kept), where


def plain(value: object) -> object:
    return json.loads(json.dumps(value))
