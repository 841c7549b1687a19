# SPDX-License-Identifier: Apache-2.0
"""Readers of the memory plans of other tools."""

from __future__ import annotations

from ..plans import MemoryPlan, PlanFileError
from . import executorch, tflite, tflm_log


def read(data: bytes, suffix: str) -> MemoryPlan | None:
    """Returns the plan of a file, None if it is in none of these formats; PlanFileError if it is
    damaged or has no plan."""
    if data[4:8] == tflite.IDENTIFIER:
        return tflite.read(data)
    if data[4:6] == executorch.IDENTIFIER and data[6:8].isdigit():
        return executorch.read(data)
    if suffix in (".tflite", ".pte"):
        raise PlanFileError(f"not a {suffix} file: wrong identifier", "name another file")
    return tflm_log.read(data.decode("utf-8", "replace"))
