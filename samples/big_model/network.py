# SPDX-License-Identifier: Apache-2.0
"""Draws a network with 4 MB of int8 weights: 256 convolutions of 1x1 pixels, 128 channels each.

    python network.py FOLDER

Writes big.onnx, and expected.h with an input and the output of the reference semantics.
"""

from __future__ import annotations

import sys
from pathlib import Path

import numpy as np
import onnx
from onnx import TensorProto, helper, numpy_helper
from vmcu_tools.frontends import load
from vmcu_tools.machine import reference

LAYERS, CHANNELS, PIXELS = 256, 128, 4
# Keeps the values of random layers in the range of int8.
FACTOR = 1 / 700


def network() -> onnx.ModelProto:
    """QLinearConv after QLinearConv, all scales 1 but that of the weights."""
    rng = np.random.default_rng(1)
    constants = [
        numpy_helper.from_array(np.float32(1), "one"),
        numpy_helper.from_array(np.float32(FACTOR), "factor"),
        numpy_helper.from_array(np.int8(0), "zero"),
    ]
    nodes = []
    for number in range(LAYERS):
        weights = rng.integers(-127, 128, (CHANNELS, CHANNELS, 1, 1)).astype(np.int8)
        bias = rng.integers(-9999, 10000, CHANNELS).astype(np.int32)
        constants += [
            numpy_helper.from_array(weights, f"w{number}"),
            numpy_helper.from_array(bias, f"b{number}"),
        ]
        scales = "one", "zero", f"w{number}", "factor", "zero", "one", "zero", f"b{number}"
        nodes.append(
            helper.make_node(
                "QLinearConv", [f"x{number}", *scales], [f"x{number + 1}"], name=f"conv{number}"
            )
        )
    shape = 1, CHANNELS, PIXELS, PIXELS
    ports = [
        helper.make_tensor_value_info(name, TensorProto.INT8, shape)
        for name in ("x0", f"x{LAYERS}")
    ]
    graph = helper.make_graph(nodes, "big", ports[:1], ports[1:], constants)
    return helper.make_model(graph, opset_imports=[helper.make_opsetid("", 13)], ir_version=8)


def as_c(name: str, values: np.ndarray) -> str:
    """An int8 array."""
    numbers = ", ".join(map(str, values.ravel().tolist()))
    return f"static const int8_t {name}[{values.size}] = {{{numbers}}};\n"


def main() -> None:
    folder = Path(sys.argv[1])
    file = folder / "big.onnx"
    onnx.save(network(), file)
    graph = load(file)
    shape = graph.tensors[graph.inputs[0].tensor].shape
    sample = np.random.default_rng(2).integers(-128, 128, shape).astype(np.int8)
    output = reference.run(graph, [sample])[graph.outputs[0].tensor]
    text = as_c("image", sample) + as_c("expected", output)
    (folder / "expected.h").write_text(text)


if __name__ == "__main__":
    main()
