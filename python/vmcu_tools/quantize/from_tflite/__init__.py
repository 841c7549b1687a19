# SPDX-License-Identifier: Apache-2.0
"""Float .tflite files as float32 ONNX models, which `vmcu quantize` calibrates."""

from .convert import FloatModel, float_model, to_onnx
from .writer import KeptWeights

__all__ = ["FloatModel", "KeptWeights", "float_model", "to_onnx"]
