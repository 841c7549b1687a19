# SPDX-License-Identifier: Apache-2.0
"""The vmcu compiler: an int8 model file in, a proven memory plan and const C tables out."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from .api import load as load
    from .errors import PlanError as PlanError
    from .errors import UserError as UserError
    from .peaks import peak as peak

__version__ = "0.3.0"

_LAZY = {"load": "api", "peak": "peaks", "PlanError": "errors", "UserError": "errors"}


def __getattr__(name: str) -> object:
    """`vmcu_tools.load` and its like, loaded when they are asked for: commands such as --help
    wait for nothing."""
    if name in _LAZY:
        import importlib

        return getattr(importlib.import_module(f".{_LAZY[name]}", __name__), name)
    raise AttributeError(f"module '{__name__}' has no attribute '{name}'")
