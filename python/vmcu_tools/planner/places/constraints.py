# SPDX-License-Identifier: Apache-2.0
"""OR-tools' cp_model, which everything here imports from this module.

cp_model imports pandas, for series of variables that nothing here makes, and pandas takes longer to
import than the rest of a command together. It is imported when somebody makes such a series.
"""

from __future__ import annotations

import importlib.util
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from types import ModuleType
from typing import Any

from ...errors import missing_package


class _Later(ModuleType):
    """A module that is imported when something of it is asked for."""

    def __getattr__(self, name: str) -> Any:
        return getattr(importlib.import_module(self.__name__), name)


@contextmanager
def _named_only(package: str, *classes: str) -> Iterator[None]:
    """Meanwhile `import` gives the package's classes as names, for annotations."""
    stand_in = ModuleType(package)
    for name in classes:
        setattr(stand_in, name, type(name, (), {}))
    sys.modules[package] = stand_in
    try:
        yield
    finally:
        del sys.modules[package]


def _import() -> None:
    if importlib.util.find_spec("ortools") is None:
        raise missing_package("ortools", "solve this placement", "solver")
    if "pandas" in sys.modules:
        return
    try:
        with _named_only("pandas", "Index", "Series"):
            module = importlib.import_module("ortools.sat.python.cp_model")
    except (ImportError, AttributeError):
        # A version that needs more of it; what failed is not in sys.modules.
        return
    vars(module)["pd"] = _Later("pandas")


_import()
from ortools.sat.python import cp_model as cp_model  # noqa: E402
