# SPDX-License-Identifier: Apache-2.0
"""Networks that onnxruntime's quantize_static made int8, as users hand them in: what this compiler
makes of each is what ONNX Runtime makes of the file as it is."""

from __future__ import annotations

import itertools

import numpy as np
import onnx
import pytest
from builders.exported import FLOAT, WAYS, Net, static
from builders.exported_more import MORE
from builders.exported_networks import IMAGES
from builders.exported_sequences import SEQUENCES
from builders.onnx_models import OnnxModel
from vmcu_bench.verify.verify import verify
from vmcu_tools.compiler import compile_model
from vmcu_tools.errors import UserError
from vmcu_tools.planner.options import CompileOptions

NETWORKS = {**IMAGES, **SEQUENCES, **MORE}
EXPORTERS = {"torchscript": False, "dynamo": True}
LOST = "int8 cannot represent accurately"
NOT_INT8 = "a float result that is not quantised"
# What stays in float in these files cannot be computed in int8; `vmcu quantize` does not leave it.
REFUSED = {
    "generalised_mean": LOST,
    "kan": NOT_INT8,
    "kan_polynomial": "the float input",
    "panns": NOT_INT8,
    ("transformer_decomposed", "raw"): NOT_INT8,
    # One scale for each number that is summed, of a matrix on the left.
    ("graph_convolution", "raw"): "scales are on axis 1",
    ("graph_convolution", "uint8"): "scales are on axis 1",
}


def check(tmp_path, name: str, exporter: str, way: str) -> None:
    path = tmp_path / "int8.onnx"
    static(NETWORKS[name](Net(EXPORTERS[exporter])), path, way)
    reason = REFUSED.get(name) or REFUSED.get((name, way))
    if reason is not None:
        with pytest.raises(UserError, match=reason) as caught:
            compile_model(path, CompileOptions(planner="single"))
        assert "vmcu quantize" in str(caught.value)
        return
    outcome = verify(
        compile_model(path, CompileOptions(planner="single", ram=None)),
        "virtual",
        3,
        1,
        0,
    )
    assert outcome.passed, [check for check in outcome.checks if not check.passed]


# Each network by one exporter in one way, and each way with each exporter; the rest is slow.
_EVERY = list(itertools.product(WAYS, EXPORTERS))
_SOME = [
    (name, exporter, way)
    for name, (way, exporter) in zip(NETWORKS, itertools.cycle(_EVERY), strict=False)
]


@pytest.mark.parametrize(("name", "exporter", "way"), _SOME)
def test_quantize_static(tmp_path, name, exporter, way):
    check(tmp_path, name, exporter, way)


@pytest.mark.slow
@pytest.mark.parametrize("way", WAYS)
@pytest.mark.parametrize("exporter", EXPORTERS)
@pytest.mark.parametrize("name", NETWORKS)
def test_quantize_static_in_every_way(tmp_path, name, exporter, way):
    check(tmp_path, name, exporter, way)


@pytest.mark.parametrize("ratio", [0.2, 1.5])
@pytest.mark.parametrize("op", ["Conv", "ConvTranspose", "Gemm"])
def test_layers_that_share_biases(tmp_path, op, ratio):
    """Quantised once, at the scale of the first layer's product, as older quantisers do it."""
    m = OnnxModel(dtype=np.uint8)
    shape = (4, 4) if op == "Gemm" else (4, 4, 1, 1)
    arrays = m.rng.integers(-90, 90, shape).astype(np.int8), np.float32(0.01), np.int8(0)
    weights = m.node("DequantizeLinear", [m.constant(a) for a in arrays])
    arrays = np.array([1000, -2000, 300, 0], np.int32), np.float32(0.001), np.int32(0)
    biases = m.node("DequantizeLinear", [m.constant(a) for a in arrays])
    y = m.qdq("x", m.stated(0.1, 128))
    for scale in (0.1 * ratio, 0.1):
        y = m.qdq(m.node(op, [y, weights, biases]), m.stated(scale, 120))
    kinds = {"x": (FLOAT, (1, 4, *[3] * (len(shape) - 2)))}, {y: (FLOAT, None)}
    onnx.save(m.proto(*kinds), tmp_path / "m.onnx")
    if op == "Gemm":
        with pytest.raises(UserError, match="ONNX Runtime takes it for that"):
            compile_model(tmp_path / "m.onnx", CompileOptions(planner="single"))
        return
    assert verify(
        compile_model(tmp_path / "m.onnx", CompileOptions(planner="single")), "virtual", 5, 2, 0
    ).passed
