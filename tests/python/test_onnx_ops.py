# SPDX-License-Identifier: Apache-2.0
"""The operators between big layers equal ONNX Runtime's: products to the byte, the rest within
one step and for few bytes, each given the runtime's own input values."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import onnx
import pytest
from builders import onnx_exports, onnx_norms, onnx_ops
from builders.networks import extreme_inputs, random_inputs
from builders.onnx_models import OnnxModel, single
from promises import assert_within
from vmcu_bench import oracle

OPSET = 17
CASES = onnx_ops.CASES | onnx_norms.CASES | onnx_exports.CASES
FLOAT = onnx.TensorProto.FLOAT


def assert_close(path: Path) -> None:
    judge = oracle.open(path)
    for inputs in (random_inputs(judge.graph, 0), extreme_inputs(judge.graph, 1)):
        expected = judge.run(inputs)
        differences = oracle.node_differences(judge.graph, expected)
        last = judge.graph.outputs[0].tensor
        compared = {found.node.outputs[0] for found in differences}
        assert compared, "nothing was compared"
        producer = judge.graph.producer(last)
        assert last in compared or set(producer.inputs) & compared
        for found in differences:
            assert_within(judge, found)


@pytest.mark.parametrize("dtype", [np.int8, np.uint8])
@pytest.mark.parametrize("case", CASES)
def test_operator_equals_onnxruntime(tmp_path, case, dtype):
    for seed in range(2):
        path = tmp_path / f"{seed}.onnx"
        onnx.save(single(OnnxModel(seed, dtype, OPSET), *CASES[case]), path)
        assert_close(path)
