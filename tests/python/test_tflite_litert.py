# SPDX-License-Identifier: Apache-2.0
"""int8 operators that TensorFlow Lite (LiteRT) has and Micro has not.

The checksums are of what LiteRT of TensorFlow 2.21, with its reference kernels, makes of -128 to
127 under these quantisations.
"""

from __future__ import annotations

import zlib
from pathlib import Path

import numpy as np
import pytest
from builders.networks import random_inputs
from builders.tflite_models import TfliteModel
from vmcu_tools import frontends, oracle
from vmcu_tools.errors import UserError
from vmcu_tools.machine import reference
from vmcu_tools.verify import Tally

# Scale and zero point of input and output, checksum.
LITERT = {
    "EXP": (0.02, -40, 0.03, -120, 0xBE0F92D7),
    "GELU": (0.03, 5, 0.009, -100, 0xB8C6E3EF),
    "GELU by tanh": (0.03, 5, 0.009, -100, 0xEE3D3AB5),
    "LOG": (0.01, -100, 0.02, 40, 0x273A8FA5),
    "SQRT": (0.02, -128, 0.01, -128, 0x1E071DDA),
}


def saved(path: Path, case: str) -> Path:
    scale, zero, out_scale, out_zero, _ = LITERT[case]
    m = TfliteModel()
    x, y = m.activation((1, 256), scale, zero), m.activation((1, 256), out_scale, out_zero)
    if case.startswith("GELU"):
        m.op("GELU", [x], y, "Gelu", approximate=case != "GELU")
    else:
        m.op(case, [x], y)
    return m.save(path, [x], [y])


@pytest.mark.parametrize("case", LITERT)
def test_table_is_that_of_litert(tmp_path, case):
    graph = frontends.load(saved(tmp_path / "m.tflite", case))
    x = np.arange(-128, 128, dtype=np.int8).reshape(1, 1, 256)
    y = reference.run(graph, [x])[graph.outputs[0].tensor]
    assert zlib.crc32(np.ascontiguousarray(y).tobytes()) == LITERT[case][4]


@pytest.mark.parametrize("case", LITERT)
def test_what_stands_around_a_table_is_verified(tmp_path, case):
    path = saved(tmp_path / "m.tflite", case)
    judge = oracle.open(path)
    inputs = random_inputs(judge.graph, 0)
    tally = Tally()
    tally.compare(judge.graph, reference.run(judge.graph, inputs), judge.run(inputs))
    assert [check.differing for check in tally.checks.values()] == [0]


def test_verification_says_what_micro_lacks(tmp_path):
    m = TfliteModel()
    x = m.activation((1, 8))
    f, g = (m.activation((1, 8), dtype=np.float32) for _ in range(2))
    m.op("DEQUANTIZE", [x], f)
    m.op("POW", [f, m.constant(np.array(3, np.float32))], g, "Pow")
    y = m.op("QUANTIZE", [g], m.activation((1, 8)))
    with pytest.raises(UserError, match="no kernel of POW"):
        oracle.open(m.save(tmp_path / "m.tflite", [x], [y]))
