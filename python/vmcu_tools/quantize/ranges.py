# SPDX-License-Identifier: Apache-2.0
"""Ways to choose a tensor's range from calibration samples, by onnxruntime's names for them, and
what quantised models are to reach."""

from pathlib import Path

METHODS = {"minmax": "MinMax", "entropy": "Entropy", "percentile": "Percentile"}
# The least agreement of a classifier's largest outputs, in percent, and ratio of outputs in dB.
LEAST_AGREEMENT, LEAST_DB = 60.0, 10.0
# Calibration data that vmcu draws itself, and what every output says of them.
RANDOM = "random"
RANDOM_NOTE = "warning: calibrated with random samples: only the RAM figures apply, not the results"


def is_random(data: Path) -> bool:
    """Whether calibration data are the word, and no file."""
    return data == Path(RANDOM) and not data.exists()
