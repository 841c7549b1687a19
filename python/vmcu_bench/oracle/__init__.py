# SPDX-License-Identifier: Apache-2.0
"""The runtimes that a model file was written for, as the judges of every tensor.

TensorFlow Lite Micro's reference kernels for .tflite, ONNX Runtime on the CPU for .onnx. Both are
optional packages and only needed to verify.
"""

from __future__ import annotations

from pathlib import Path

from vmcu_tools.frontends import format_of

from .base import Oracle
from .compare import Difference, node_differences, pooled
from .promise import Promise

__all__ = ["Difference", "Oracle", "Promise", "node_differences", "open", "pooled"]


def open(path: str | Path) -> Oracle:
    """The oracle of a model file. UserError if the file or the runtime's package is missing."""
    path = Path(path)
    if format_of(path) == "tflite":
        from .tflm import TflmOracle

        return TflmOracle(path)
    from .ort import OrtOracle

    return OrtOracle(path)
