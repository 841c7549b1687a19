# SPDX-License-Identifier: Apache-2.0
"""int8 operators that TensorFlow Lite (LiteRT) has and Micro has not.

The checksums are of what LiteRT of TensorFlow 2.21, or of its own package 2.3.0, with reference
kernels, makes of -128 to 127 under these quantisations.
"""

from __future__ import annotations

import zlib
from pathlib import Path

import numpy as np
import pytest
from builders.networks import random_inputs
from builders.tflite_models import TfliteModel
from vmcu_bench import oracle
from vmcu_bench.verify.verify import Tally
from vmcu_tools import frontends
from vmcu_tools.errors import UserError
from vmcu_tools.machine import reference

# Scale and zero point of input and output, checksum.
LITERT = {
    "EXP": (0.02, -40, 0.03, -120, 0xBE0F92D7),
    "GELU": (0.03, 5, 0.009, -100, 0xB8C6E3EF),
    "GELU by tanh": (0.03, 5, 0.009, -100, 0xEE3D3AB5),
    "LOG": (0.01, -100, 0.02, 40, 0x273A8FA5),
    "SQRT": (0.02, -128, 0.01, -128, 0x1E071DDA),
    "RELU_N1_TO_1": (0.02, 7, 0.02, 7, 0xEDF2BD66),
    "RELU_N1_TO_1 rescaled": (0.02, 7, 0.011, -20, 0x6B1D65D7),
    # Every other step comes out half way between two bytes.
    "RELU_N1_TO_1 of ties": (0.011259222403168678, 0, 0.007506148423999548, 0, 0x6108FCD4),
}
# The same for those between DEQUANTIZE and QUANTIZE, which Micro has no kernels of at all.
IN_FLOAT = {
    "SIGN": (0.02, 10, 0.01, 3, 0xC8298055),
    "POW of 1.7": (0.02, -128, 0.1, -128, 0xCB5B8229),
    "POW of 2": (0.02, -3, 0.07, -128, 0x0583EACD),
}


def saved(path: Path, case: str) -> Path:
    scale, zero, out_scale, out_zero, _ = (LITERT | IN_FLOAT)[case]
    m = TfliteModel()
    x, y = m.activation((1, 256), scale, zero), m.activation((1, 256), out_scale, out_zero)
    if case in IN_FLOAT:
        name, _, exponent = case.partition(" of ")
        f, g = (m.activation((1, 256), dtype=np.float32) for _ in range(2))
        inputs = [m.op("DEQUANTIZE", [x], f)]
        inputs += [m.constant(np.array(float(exponent), np.float32))] if exponent else []
        m.op("QUANTIZE", [m.op(name, inputs, g, name.capitalize())], y)
    elif case.startswith("GELU"):
        m.op("GELU", [x], y, "Gelu", approximate=case != "GELU")
    else:
        m.op(case.partition(" ")[0], [x], y)
    return m.save(path, [x], [y])


@pytest.mark.parametrize("case", LITERT | IN_FLOAT)
def test_table_is_that_of_litert(tmp_path, case):
    graph = frontends.load(saved(tmp_path / "m.tflite", case))
    x = np.arange(-128, 128, dtype=np.int8).reshape(1, 1, 256)
    y = reference.run(graph, [x])[graph.outputs[0].tensor]
    assert zlib.crc32(np.ascontiguousarray(y).tobytes()) == (LITERT | IN_FLOAT)[case][4]


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
    with pytest.raises(UserError, match="no kernel for POW"):
        oracle.open(m.save(tmp_path / "m.tflite", [x], [y]))
