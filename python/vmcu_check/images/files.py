# SPDX-License-Identifier: Apache-2.0
"""The weights, biases and scales of a model file."""

from __future__ import annotations

from pathlib import Path

from . import onnx_file, tflite_file
from .elf import ImageError
from .nodes import FileNode


def read(path: Path) -> list[FileNode]:
    """Returns the nodes with constants, in the order of the file.

    Raises ImageError if the file is neither .tflite nor .onnx, or damaged.
    """
    try:
        data = path.read_bytes()
        return [*(tflite_file if data[4:8] == b"TFL3" else onnx_file).nodes(data)]
    except Exception as error:  # Readers of damaged files raise whatever they like.
        reason = f"'{path}' cannot be read: {error}"
        raise ImageError(reason, "pass the .tflite or .onnx") from error
