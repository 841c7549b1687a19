# SPDX-License-Identifier: Apache-2.0
"""Ways to choose a tensor's range from calibration samples, by onnxruntime's names for them, and
what quantised models are to reach."""

METHODS = {"minmax": "MinMax", "entropy": "Entropy", "percentile": "Percentile"}
# The least agreement of a classifier's largest outputs, in percent, and ratio of outputs in dB.
LEAST_AGREEMENT, LEAST_DB = 60.0, 10.0
