# SPDX-License-Identifier: Apache-2.0
"""Real networks that tests read where they are, and inputs for any graph."""

from __future__ import annotations

import os
from pathlib import Path

import numpy as np
from vmcu_tools.graph import Graph

# Beside the repository, unless the environment says otherwise.
_BESIDE = Path(__file__).resolve().parents[4] / "shared" / "models"
SHARED = Path(os.environ.get("VMCU_MODELS", _BESIDE))
MODELS = ["mcunet-vww-5fps", "mcunet-imagenet-320kb", "mlperf-tiny-vww", "mlperf-tiny-resnet8"]
MODELS += ["mlperf-tiny-kws", "mlperf-tiny-ad"]


def random_inputs(graph: Graph, seed: int) -> list[np.ndarray]:
    """Uniform int8 values for every graph input."""
    rng = np.random.default_rng(seed)
    shapes = [graph.tensors[port.tensor].shape for port in graph.inputs]
    return [rng.integers(-128, 128, shape).astype(np.int8) for shape in shapes]
