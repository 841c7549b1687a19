# SPDX-License-Identifier: Apache-2.0
"""Runtimes that are packages of extras: ONNX Runtime and TensorFlow Lite Micro."""

from __future__ import annotations

import importlib
from types import ModuleType

from .errors import missing_package

# Of onnxruntime's logger.
_FATAL = 4
_LONGEST_LINE = 300


def one_line(error: Exception) -> str:
    """Shortens a runtime's exception to one line of a message."""
    text = " ".join(str(error).split()) or type(error).__name__
    return text if len(text) <= _LONGEST_LINE else f"{text[:_LONGEST_LINE]}..."


def required(module: str, package: str, purpose: str, extra: str = "verify") -> ModuleType:
    """Imports a package of an extra; raises UserError with the command that installs it if it is
    absent. onnxruntime reports problems in its exceptions, not on standard error."""
    try:
        imported = importlib.import_module(module)
        if package == "onnxruntime":
            importlib.import_module(package).set_default_logger_severity(_FATAL)
        return imported
    except ImportError as error:
        raise missing_package(package, purpose, extra) from error
