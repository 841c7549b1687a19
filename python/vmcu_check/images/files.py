# SPDX-License-Identifier: Apache-2.0
"""The weights, biases and scales of a model file."""

from __future__ import annotations

from pathlib import Path

import onnx

from .elf import ImageError
from .nodes import FileNodes
from .onnx_file import OnnxFile
from .tflite_file import TfliteFile


def read(path: Path) -> FileNodes:
    """Returns the nodes with constants.

    Raises ImageError if the file is neither .tflite nor .onnx, or damaged.
    """
    try:
        data = path.read_bytes()
        if data[4:8] == b"TFL3":
            return TfliteFile(data).nodes()
        return OnnxFile(onnx.load_model_from_string(data)).nodes()
    except Exception as error:  # Readers of damaged files raise whatever they like.
        raise ImageError(
            f"'{path}' cannot be read: {error}", "pass the .tflite or .onnx"
        ) from error
