# SPDX-License-Identifier: Apache-2.0
"""The memory plan that a .tflite file brings for TensorFlow Lite Micro, see oracle/offline.py."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import tflite

from ..common import parsing
from .file import tensor_names

KEY = "OfflineMemoryAllocation"
VERSION = 1
# The interpreter finds a place for a tensor with this offset.
UNPLANNED = -1
_HEADER = 3


def offsets_of(path: Path) -> dict[str, int]:
    """Offsets in bytes, by tensor, of those that the file's plan has; none without such a plan.
    Raises UserError for a damaged one."""
    with parsing(str(path)):
        model = tflite.Model.GetRootAsModel(path.read_bytes(), 0)
        for number in range(model.MetadataLength()):
            entry = model.Metadata(number)
            if (entry.Name() or b"") != KEY.encode():
                continue
            words = np.array(model.Buffers(entry.Buffer()).DataAsNumpy(), np.uint8).view("<i4")
            names = tensor_names(path)
            if len(words) != _HEADER + len(names) or words[2] != len(names):
                raise ValueError(f"{KEY} is not about {len(names)} tensors")
            return {
                name: int(offset)
                for name, offset in zip(names, words[_HEADER:], strict=True)
                if offset != UNPLANNED
            }
    return {}
