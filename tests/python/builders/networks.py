# SPDX-License-Identifier: Apache-2.0
"""Networks that tests read as files, and inputs for any graph.

The real ones are not part of this project: VMCU_MODELS names the folder that has them. Tests that
need one skip where it is absent; the project's own benchmark networks are always there.
"""

from __future__ import annotations

import functools
import os
import subprocess
import sys
import tempfile
from pathlib import Path

import numpy as np
import pytest
from vmcu_bench.runners.samples import random_values
from vmcu_tools.graph import Graph

ROOT = Path(__file__).resolve().parents[3]
SHARED = Path(os.environ.get("VMCU_MODELS", ROOT.parent / "shared" / "models"))
MODELS = ["mcunet-vww-5fps", "mcunet-imagenet-320kb", "mlperf-tiny-vww", "mlperf-tiny-resnet8"]
MODELS += ["mlperf-tiny-kws", "mlperf-tiny-ad"]
# Of benchmarks/models/build.py, those whose integer programs are solved within seconds.
OWN = ["ds-cnn", "resnet8", "transformer"]
_BUILT = tempfile.TemporaryDirectory(prefix="vmcu-networks-")


def network_file(name: str) -> Path:
    """One of MODELS or OWN; skips the test that asks for a real one that is not there."""
    return own(name) if name in OWN else present(SHARED / f"{name}.tflite")


def present(path: Path) -> Path:
    """The file, if it is there; otherwise the test is skipped."""
    if not path.is_file():
        pytest.skip(f"{path} is not there; VMCU_MODELS names the folder of the real networks")
    return path


@functools.cache
def own(name: str) -> Path:
    command = [sys.executable, str(ROOT / "benchmarks" / "models" / "build.py"), name]
    subprocess.run([*command, "-o", _BUILT.name], check=True, capture_output=True)
    return Path(_BUILT.name) / f"{name}.onnx"


def random_inputs(graph: Graph, seed: int) -> list[np.ndarray]:
    """Uniform int8 values for every graph input, or the numbers that it takes."""
    rng = np.random.default_rng(seed)
    shapes = [(port, graph.tensors[port.tensor].shape) for port in graph.inputs]
    return [random_values(rng, port, shape) for port, shape in shapes]


def extreme_inputs(graph: Graph, seed: int) -> list[np.ndarray]:
    """As random_inputs(), but a half of the values are the least or the largest there are."""
    dice = np.random.default_rng(seed)
    return [
        values
        if port.below
        else np.where(
            dice.random(values.shape) < 0.5, values, dice.choice([-128, 127], values.shape)
        ).astype(np.int8)
        for port, values in zip(graph.inputs, random_inputs(graph, seed), strict=True)
    ]
