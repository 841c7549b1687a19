# SPDX-License-Identifier: Apache-2.0
"""Single operators of drawn shapes and quantisations equal TensorFlow Lite Micro's, to the byte.

`VMCU_CASES=2000 pytest tests/python/test_tflite_ops.py` draws 50 files of each operator.
"""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
from builders.networks import random_inputs
from builders.tflite_models import TfliteModel
from builders.tflite_ops import CASES as OPS
from builders.tflite_options import CASES as OPTIONS
from builders.tflite_tables import CASES as TABLES
from builders.tflite_wide import CASES as WIDE
from drawn import CASES as CASE_COUNT
from vmcu_bench import oracle
from vmcu_tools.graph import Graph
from vmcu_tools.machine import reference

CASES = OPS | TABLES | OPTIONS | WIDE
FILES = max(4, CASE_COUNT // 40)


def near_zero(graph: Graph, seed: int) -> list[np.ndarray]:
    """Values of which many are equal and a third are zero: ties, and quotients of nothing."""
    rng = np.random.default_rng(seed)
    found = []
    for port, numbers in zip(graph.inputs, random_inputs(graph, seed), strict=True):
        tensor = graph.tensors[port.tensor]
        steps = tensor.zero_point + rng.integers(-1, 2, tensor.shape)
        values = np.clip(steps, -128, 127).astype(np.int8)
        found.append(numbers if port.below else values)
    return found


def assert_equal(path: Path, seed: int) -> int:
    """The bytes that were compared."""
    judge = oracle.open(path)
    compared = 0
    for inputs in (random_inputs(judge.graph, seed), near_zero(judge.graph, seed)):
        expected = judge.run(inputs)
        computed = reference.run(judge.graph, inputs)
        for port in judge.graph.outputs:
            wanted = expected[port.tensor]
            np.testing.assert_array_equal(computed[port.tensor], wanted, err_msg=f"seed {seed}")
            compared += wanted.size
    return compared


@pytest.mark.parametrize("case", CASES)
def test_operator_equals_tflm(tmp_path, case):
    for seed in range(FILES):
        model = TfliteModel(seed)
        inputs, outputs = CASES[case](model)
        path = model.save(tmp_path / f"{seed}.tflite", inputs, outputs)
        assert assert_equal(path, seed) > 0
