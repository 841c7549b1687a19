# SPDX-License-Identifier: Apache-2.0
"""Options and QOperators equal ONNX Runtime's: moves, products and tables to the byte, the rest
within one step, each given the runtime's own input values."""

from __future__ import annotations

from itertools import product

import numpy as np
import onnx
import pytest
from builders import onnx_options, onnx_qoperators
from builders.networks import random_inputs
from builders.onnx_models import OnnxModel, single, unary
from onnx import helper
from test_onnx_ops import FLOAT, assert_close
from vmcu_bench import oracle
from vmcu_tools.errors import UserError
from vmcu_tools.frontends.common import UnsupportedError
from vmcu_tools.frontends.onnx import input_scales
from vmcu_tools.frontends.onnx.file import FileModel, FileNode
from vmcu_tools.machine import reference
from vmcu_tools.ops.lookup import Lookup


@pytest.mark.parametrize("dtype", [np.int8, np.uint8])
@pytest.mark.parametrize("case", onnx_options.CASES)
def test_option_equals_onnxruntime(tmp_path, case, dtype):
    opset, shape, layer = onnx_options.CASES[case]
    path = tmp_path / "m.onnx"
    onnx.save(single(OnnxModel(0, dtype, opset), shape, layer), path)
    assert_close(path)


@pytest.mark.parametrize("case", onnx_qoperators.CASES)
def test_qoperator_equals_onnxruntime(tmp_path, case):
    for seed in range(3):
        path = tmp_path / f"{seed}.onnx"
        onnx.save(onnx_qoperators.single(*onnx_qoperators.CASES[case], seed), path)
        assert_close(path)
        judge = oracle.open(path)
        expected = judge.run(random_inputs(judge.graph, seed))
        for found in oracle.node_differences(judge.graph, expected):
            assert found.largest == 0 or not isinstance(found.node.op, Lookup), found


@pytest.mark.parametrize("case", onnx_options.CURVES)
def test_reduced_functions_lose_no_whole_step(tmp_path, case):
    """Errors of the function's values do not add up: where they would, a second tensor holds what
    the first leaves. Half of this input's values are in the middle of the function."""
    path = tmp_path / "m.onnx"
    onnx.save(single(OnnxModel(0), *onnx_options.CURVES[case]), path)
    judge = oracle.open(path)
    inputs, last = random_inputs(judge.graph, 0), judge.graph.outputs[0].tensor
    found, wanted = reference.run(judge.graph, inputs)[last], judge.run(inputs)[last]
    assert len(np.unique(wanted)) > 10
    assert np.abs(found.astype(int) - wanted.astype(int)).max() <= 1


def test_initialisers_that_are_listed_as_inputs_are_constants(tmp_path):
    """Old exporters list them. A scale of shape (1,) is a scalar for ONNX Runtime's operators."""
    m = OnnxModel()
    stated = [m.constant(np.array([0.1], np.float32)), m.constant(np.zeros(1, np.int8))]
    y = m.qdq(m.node("Relu", [m.qdq("x", stated)]), stated)
    model = m.proto({"x": (FLOAT, (1, 8))}, {y: (FLOAT, None)})
    for constant in m.initializers:
        kind, shape = constant.data_type, list(constant.dims)
        model.graph.input.append(helper.make_tensor_value_info(constant.name, kind, shape))
    onnx.save(model, path := tmp_path / "m.onnx")
    assert_close(path)


@pytest.mark.parametrize("op", ["AveragePool", "MaxPool"])
@pytest.mark.parametrize("auto", ["SAME_UPPER", "SAME_LOWER"])
def test_padding_is_onnxruntimes_or_refused(tmp_path, op, auto):
    """Its pools do not heed dilation there, and pad by -1 where strides skip the image's end."""
    taken = 0
    for width, (kernel, stride, dilation) in product((5, 6), product((1, 2), (1, 3), (1, 2))):
        more = {"strides": [1, stride], "auto_pad": auto}
        more |= {"dilations": [1, dilation]} if dilation > 1 else {}
        layer = unary(op, 0.9, kernel_shape=[1, kernel], **more)
        onnx.save(single(OnnxModel(1, opset=19), (1, 2, 3, width), layer), tmp_path / "m.onnx")
        try:
            assert_close(tmp_path / "m.onnx")
            taken += 1
        except UserError as error:
            assert "use pads" in str(error) or "a dilated average" in str(error)
    assert taken >= 5


def parts(*stated: tuple[float, int]) -> FileModel:
    """A float input of which each slice is quantised in its own way."""
    nodes, constants = [], {}
    for number, (scale, zero) in enumerate(stated):
        nodes.append(FileNode(f"cut {number}", "Slice", ("x",), (f"p{number}",), {}))
        names = (f"p{number}", f"scale {number}", f"zero {number}")
        nodes.append(FileNode(f"q {number}", "QuantizeLinear", names, (f"y{number}",), {}))
        constants[names[1]], constants[names[2]] = np.float32([scale]), np.int8([zero])
    return FileModel(tuple(nodes), constants, (), (), 13)


def test_an_input_in_parts_has_the_range_of_all():
    assert input_scales.of_all(parts((0.25, 3)), "x") is None
    assert input_scales.of_all(parts((0.25, 3), (0.25, 3)), "x") is None
    for first, second in (
        ((0.25, 0), (0.375, 0)),
        ((0.25, -128), (0.25, 0)),
        ((0.5, 10), (0.4, 9)),
    ):
        scale, zero = input_scales.of_all(parts(first, second), "x")
        low = min((-128 - z) * s for s, z in (first, second))
        high = max((127 - z) * s for s, z in (first, second))
        assert scale == pytest.approx((high - low) / 255, rel=1e-6)
        assert (-128 - zero) * scale == pytest.approx(low, abs=0.51 * scale)
        assert (127 - zero) * scale == pytest.approx(high, abs=0.51 * scale)
    # The coarsest step is two of the finest part's.
    assert input_scales.of_all(parts((0.25, 0), (0.5, 0)), "x") is not None
    with pytest.raises(UnsupportedError):
        input_scales.of_all(parts((0.25, 0), (0.51, 0)), "x")
