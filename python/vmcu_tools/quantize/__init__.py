# SPDX-License-Identifier: Apache-2.0
"""Float .onnx models to int8: calibration, and the rewrites for it."""
