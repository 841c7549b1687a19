# SPDX-License-Identifier: Apache-2.0
"""Functions of one value equal ONNX Runtime's for all 256 bytes, at scales that fit them. No byte
may differ: what libraries disagree about in its last bits is kept clear of half steps."""

from __future__ import annotations

from decimal import Decimal
from pathlib import Path

import numpy as np
import onnx
import pytest
from builders.onnx_functions import BYTES, CASES
from vmcu_bench import oracle
from vmcu_tools.frontends.onnx.file import FileNode
from vmcu_tools.frontends.onnx.functions import UNARY
from vmcu_tools.frontends.onnx.logic import FUNCTIONS
from vmcu_tools.frontends.softmax import onnx_table
from vmcu_tools.machine import reference

ALL = np.arange(-128, 128).astype(np.int8).reshape(1, 1, BYTES)


def both(path: Path) -> tuple[np.ndarray, np.ndarray]:
    """What the graph computes of all bytes, and what ONNX Runtime does."""
    judge = oracle.open(path)
    (port,) = judge.graph.outputs
    found = (reference.run(judge.graph, [ALL]), judge.run([ALL]))
    computed, expected = (values[port.tensor].ravel() for values in found)
    return computed, expected


@pytest.mark.parametrize("share", [1.0, 0.5])
@pytest.mark.parametrize("dtype", [np.int8, np.uint8])
@pytest.mark.parametrize("case", CASES)
def test_function_equals_onnxruntime(tmp_path, case, dtype, share):
    path = tmp_path / "m.onnx"
    onnx.save(CASES[case].model(dtype, share), path)
    computed, expected = both(path)
    assert int(expected.max()) - int(expected.min()) > 180, "the output's scale does not fit"
    np.testing.assert_array_equal(computed, expected)


def fuses() -> bool:
    """Whether ONNX Runtime's own kernels round a product and a sum once here."""
    info = Path("/proc/cpuinfo")
    return info.exists() and " fma " in info.read_text()


@pytest.mark.skipif(not fuses(), reason="needs a CPU with fused multiply-add that Linux tells of")
@pytest.mark.parametrize(
    "case", ["Tanh", "Sigmoid", "Swish", "com.microsoft.QuickGelu", "Gelu by tanh"]
)
def test_what_onnxruntime_computes_itself_is_equal_to_the_bit(case) -> None:
    """A full scale of 2/255 puts the ends of Tanh half way between two bytes."""
    values = np.linspace(-20, 20, 20001).astype(np.float32)
    node = next(n for n in CASES[case].model(np.int8).graph.node if n.op_type in case)
    op = f"{node.domain}.{node.op_type}" if node.domain else node.op_type
    attributes = {a.name: onnx.helper.get_attribute_value(a) for a in node.attribute}
    found = UNARY[op](FileNode("", op, (), (), attributes), values)
    np.testing.assert_array_equal(found, CASES[case].computed(values))


def test_every_function_has_a_case() -> None:
    made = {
        f"{node.domain}.{node.op_type}" if node.domain else node.op_type
        for case in CASES.values()
        for node in case.model(np.int8).graph.node
    }
    assert sorted(FUNCTIONS - made) == []


@pytest.mark.parametrize("scale", [0.0, 1e-4, 0.03, 0.25, 1.0, 20.0])
def test_exponentials_of_a_softmax_are_the_nearest(scale: float) -> None:
    """In units of 2**-23, by decimal arithmetic."""
    step = Decimal(scale)
    wanted = [int(((-d * step).exp() * 2**23).to_integral_value()) for d in range(256)]
    assert onnx_table(scale).tolist() == wanted and wanted[0] == 1 << 23
