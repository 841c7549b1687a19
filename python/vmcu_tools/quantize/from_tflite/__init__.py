# SPDX-License-Identifier: Apache-2.0
"""Float .tflite files as float32 ONNX models, which `vmcu quantize` calibrates."""

from .convert import Converted, convert

__all__ = ["Converted", "convert"]
