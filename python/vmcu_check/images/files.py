# SPDX-License-Identifier: Apache-2.0
"""The weights, biases and scales of a model file."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

import onnx

from .elf import ImageError
from .nodes import PlainNode, WeightNode
from .onnx_file import OnnxFile
from .tflite_file import TfliteFile


@dataclass(frozen=True)
class FileNodes:
    """The nodes of a file whose constants are compared, in its order."""

    weighted: list[WeightNode]
    plain: list[PlainNode]


def read(path: Path) -> FileNodes:
    """Returns the nodes with constants.

    Raises ImageError if the file is neither .tflite nor .onnx, or damaged.
    """
    try:
        data = path.read_bytes()
        if data[4:8] == b"TFL3":
            of_file: TfliteFile | OnnxFile = TfliteFile(data)
        else:
            of_file = OnnxFile(onnx.load_model_from_string(data))
        return FileNodes(of_file.nodes(), of_file.plain)
    except ImageError:
        raise
    except Exception as error:  # Readers of damaged files raise whatever they like.
        raise ImageError(
            f"'{path}' cannot be read: {error}", "pass the .tflite or .onnx"
        ) from error
