# SPDX-License-Identifier: Apache-2.0
"""Writes tiny.onnx, a small int8 network with random weights, and src/golden.h, inputs and what
ONNX Runtime makes of them. Only ops whose results must equal ONNX Runtime's bit for bit are in it.

Needs onnx and onnxruntime; both files are committed. A second run gives the same bytes.
"""

from __future__ import annotations

import tempfile
from pathlib import Path

import numpy as np
import onnx
import onnxruntime as ort
from onnx import TensorProto, helper, numpy_helper
from onnxruntime.quantization import (
    CalibrationDataReader,
    QuantFormat,
    QuantType,
    quantize_static,
)

HERE = Path(__file__).parent
SHAPE = (1, 3, 9, 8)
CASES = 4


def float_model(random: np.random.Generator) -> onnx.ModelProto:
    """conv 3x3 - depthwise 3x3 stride 2 - conv 1x1 - max pool - fully connected."""

    def weights(name: str, *shape: int) -> onnx.TensorProto:
        fan_in = np.prod(shape[1:]) if len(shape) > 1 else 100
        values = random.normal(0, fan_in**-0.5, shape).astype(np.float32)
        return numpy_helper.from_array(values, name)

    nodes = [
        helper.make_node("Conv", ["x", "w0", "b0"], ["c0"], pads=[1, 1, 1, 1]),
        helper.make_node("Relu", ["c0"], ["a0"]),
        helper.make_node(
            "Conv", ["a0", "w1", "b1"], ["c1"], pads=[1, 1, 1, 1], strides=[2, 2], group=7
        ),
        helper.make_node("Relu", ["c1"], ["a1"]),
        helper.make_node("Conv", ["a1", "w2", "b2"], ["a2"]),
        helper.make_node("MaxPool", ["a2"], ["a3"], kernel_shape=[2, 2], strides=[2, 2]),
        helper.make_node("Flatten", ["a3"], ["a4"]),
        helper.make_node("Gemm", ["a4", "w5", "b5"], ["y"], transB=1),
    ]
    constants = [
        weights("w0", 7, 3, 3, 3),
        weights("b0", 7),
        weights("w1", 7, 1, 3, 3),
        weights("b1", 7),
        weights("w2", 10, 7, 1, 1),
        weights("b2", 10),
        weights("w5", 6, 40),
        weights("b5", 6),
    ]
    graph = helper.make_graph(
        nodes,
        "tiny",
        [helper.make_tensor_value_info("x", TensorProto.FLOAT, SHAPE)],
        [helper.make_tensor_value_info("y", TensorProto.FLOAT, (1, 6))],
        constants,
    )
    return helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=8)


class Calibration(CalibrationDataReader):
    """Random inputs."""

    def __init__(self, random: np.random.Generator):
        inputs = [random.uniform(-1, 1, SHAPE).astype(np.float32) for _ in range(16)]
        self.feeds = iter([{"x": x} for x in inputs])

    def get_next(self) -> dict[str, np.ndarray] | None:
        return next(self.feeds, None)


def answers(path: Path, inputs: np.ndarray) -> np.ndarray:
    """The int8 outputs for int8 inputs (N, C, H, W)."""
    options = ort.SessionOptions()
    options.intra_op_num_threads = 1
    # Without it, processors lacking VNNI saturate 16-bit sums and answer differently.
    options.add_session_config_entry("session.x64quantprecision", "1")
    session = ort.InferenceSession(path, options, providers=["CPUExecutionProvider"])

    graph = onnx.load(path).graph
    constants = {c.name: numpy_helper.to_array(c) for c in graph.initializer}
    first = next(n for n in graph.node if n.op_type == "QuantizeLinear" and n.input[0] == "x")
    last = next(n for n in graph.node if n.output[0] == "y")
    (in_scale, in_zero), (out_scale, out_zero) = (
        (constants[n.input[1]], constants[n.input[2]].astype(np.int32)) for n in (first, last)
    )
    reals = ((inputs.astype(np.int32) - in_zero) * in_scale).astype(np.float32)
    outputs = np.concatenate([session.run(None, {"x": x[None]})[0] for x in reals])
    return (np.rint(outputs / out_scale) + out_zero).astype(np.int8)


def c_rows(values: np.ndarray) -> str:
    lines = []
    for case in values.reshape(len(values), -1).tolist():
        lines.append("\t{")
        for i in range(0, len(case), 16):
            lines.append("\t\t" + ", ".join(map(str, case[i : i + 16])) + ",")
        lines.append("\t},")
    return "\n".join(lines)


def main() -> None:
    random = np.random.default_rng(2024)
    path = HERE / "tiny.onnx"
    with tempfile.TemporaryDirectory() as folder:
        onnx.save(float_model(random), Path(folder) / "float.onnx")
        quantize_static(
            Path(folder) / "float.onnx",
            path,
            Calibration(random),
            quant_format=QuantFormat.QDQ,
            activation_type=QuantType.QInt8,
            weight_type=QuantType.QInt8,
            per_channel=True,
        )
    inputs = random.integers(-128, 128, (CASES, *SHAPE[1:])).astype(np.int8)
    outputs = answers(path, inputs)
    (HERE / "src" / "golden.h").write_text(
        f"""/*
 * SPDX-License-Identifier: Apache-2.0
 *
 * Written by make_model.py: inputs of tiny.onnx in NHWC order and ONNX Runtime's outputs.
 */

#ifndef RUNTIME_GOLDEN_H_
#define RUNTIME_GOLDEN_H_

#include <stdint.h>

#define GOLDEN_COUNT        {CASES}
#define GOLDEN_INPUT_BYTES  {inputs[0].size}
#define GOLDEN_OUTPUT_BYTES {outputs[0].size}

/* clang-format off */
static const int8_t golden_inputs[GOLDEN_COUNT][GOLDEN_INPUT_BYTES] = {{
{c_rows(inputs.transpose(0, 2, 3, 1))}
}};

static const int8_t golden_outputs[GOLDEN_COUNT][GOLDEN_OUTPUT_BYTES] = {{
{c_rows(outputs)}
}};
/* clang-format on */

#endif /* RUNTIME_GOLDEN_H_ */
"""
    )
    print(outputs)


if __name__ == "__main__":
    main()
