# SPDX-License-Identifier: Apache-2.0
"""Writes hello.onnx: one fully connected layer that names the hue of a colour.

Input: red, green and blue, int8, shape (1, 3), real = (q + 128) / 255. Output: a score for each of
HUES, int8, shape (1, 6). The weights are chosen, not trained: each row is the direction from grey
to its hue, so that the largest score belongs to the nearest hue. Needs onnx; hello.onnx is
committed, and a second run gives the same bytes.
"""

from __future__ import annotations

from pathlib import Path

import numpy as np
import onnx
from onnx import TensorProto, helper, numpy_helper

HUES = {
    "red": (2, -1, -1),
    "yellow": (1, 1, -2),
    "green": (-1, 2, -1),
    "cyan": (-2, 1, 1),
    "blue": (-1, -1, 2),
    "magenta": (1, -2, 1),
}
LARGEST_SCORE = 2.0


def model() -> onnx.ModelProto:
    """QLinearMatMul alone: int8 goes in and comes out."""
    weights = np.array(list(HUES.values()), np.int8).T
    constants = {
        "x_scale": np.float32(1 / 255),
        "x_zero": np.int8(-128),
        "w": weights,
        "w_scale": np.float32(1),
        "w_zero": np.int8(0),
        "y_scale": np.float32(LARGEST_SCORE / 127),
        "y_zero": np.int8(0),
    }
    node = helper.make_node("QLinearMatMul", ["x", *constants], ["y"])
    graph = helper.make_graph(
        [node],
        "hello",
        [helper.make_tensor_value_info("x", TensorProto.INT8, (1, weights.shape[0]))],
        [helper.make_tensor_value_info("y", TensorProto.INT8, (1, weights.shape[1]))],
        [numpy_helper.from_array(np.asarray(value), name) for name, value in constants.items()],
    )
    return helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=8)


if __name__ == "__main__":
    onnx.save(model(), Path(__file__).parent / "hello.onnx")
