# SPDX-License-Identifier: Apache-2.0
"""Ways to choose a tensor's range from calibration samples, by onnxruntime's names for them."""

METHODS = {"minmax": "MinMax", "entropy": "Entropy", "percentile": "Percentile"}
