# SPDX-License-Identifier: Apache-2.0
"""Float .tflite files as float32 ONNX models, which `vmcu quantize` calibrates."""

from .convert import Converted, convert, to_onnx
from .writer import KeptWeights

__all__ = ["Converted", "KeptWeights", "convert", "to_onnx"]
