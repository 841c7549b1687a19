# SPDX-License-Identifier: Apache-2.0
"""What tests draw of an operator, in one file each, which importing this folder finds. Each has
`layer`, a random layer for tests of kernels. With an import rule of ONNX, it also has CASES, layers
of files that are compared with ONNX Runtime, and DRAWERS, by operator how random files have it."""

from __future__ import annotations

from importlib import import_module
from pkgutil import iter_modules

MODULES = {one.name: import_module(f"{__name__}.{one.name}") for one in iter_modules(__path__)}
LAYERS = {name: module.layer for name, module in MODULES.items()}
CASES, DRAWERS = {}, {}
for _module in MODULES.values():
    CASES |= getattr(_module, "CASES", {})
    DRAWERS |= getattr(_module, "DRAWERS", {})
