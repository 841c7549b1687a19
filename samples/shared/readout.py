# SPDX-License-Identifier: Apache-2.0
"""Networks along time of which only the last layer is trained, for the samples that listen.

Convolutions with random weights, a dense layer over all that they see, a logistic regression for
its weights: enough for signals that are easily told apart, without a framework.
"""

from __future__ import annotations

import tempfile
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import onnx
import onnxruntime as ort
from onnx import TensorProto, helper, numpy_helper
from sklearn.linear_model import LogisticRegression
from vmcu_tools.quantize.calibration import quantize


@dataclass(frozen=True)
class Network:
    """`shape` is that of a window, (channels, rows, width); `filters` are the weights of the
    convolutions, (to, from, rows, width), `strides` their steps along the rows."""

    name: str
    input: str
    output: str
    shape: tuple[int, int, int]
    filters: Mapping[str, np.ndarray]
    strides: Sequence[int]

    def model(self, readout: np.ndarray, bias: np.ndarray) -> onnx.ModelProto:
        """The float network with a dense layer of `readout` (seen, outputs) behind it."""
        constants = {**self.filters, "readout": readout, "bias": bias}
        nodes, last, names = [], self.input, iter("abcdefgh")
        for weights, stride in zip(self.filters, self.strides, strict=True):
            step = {"strides": [stride, 1]} if stride > 1 else {}
            seen, positive = next(names), next(names)
            nodes.append(helper.make_node("Conv", [last, weights], [seen], **step))
            nodes.append(helper.make_node("Relu", [seen], [positive]))
            last = positive
        nodes.append(helper.make_node("Flatten", [last], ["seen"]))
        nodes.append(helper.make_node("Gemm", ["seen", "readout", "bias"], [self.output]))
        graph = helper.make_graph(
            nodes,
            self.name,
            [helper.make_tensor_value_info(self.input, TensorProto.FLOAT, (1, *self.shape))],
            [helper.make_tensor_value_info(self.output, TensorProto.FLOAT, (1, len(bias)))],
            [numpy_helper.from_array(v.astype(np.float32), name) for name, v in constants.items()],
        )
        return helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=8)

    def width(self) -> int:
        """How many values the dense layer sees."""
        _, rows, width = self.shape
        for weights, stride in zip(self.filters.values(), self.strides, strict=True):
            channels, _, high, wide = weights.shape
            rows, width = (rows - high) // stride + 1, width - wide + 1
        return channels * rows * width

    def scores(
        self, model: bytes | str, inputs: np.ndarray, output: str | None = None
    ) -> np.ndarray:
        """What ONNX Runtime answers to windows, one at a time."""
        runtime = _session(model)
        names = [output or self.output]
        return np.concatenate([runtime.run(names, {self.input: x[None]})[0] for x in inputs])

    def train(
        self,
        inputs: np.ndarray,
        wanted: np.ndarray,
        penalty: float,
        weight: Mapping[int, float] | None = None,
    ) -> onnx.ModelProto:
        """The readout of a logistic regression of `wanted`, one class a window: with two classes
        one score, which is 0 where both are as likely. `penalty` is scikit-learn's C."""
        width = self.width()
        empty = self.model(np.zeros((width, 1)), np.zeros(1))
        empty.graph.output.append(
            helper.make_tensor_value_info("seen", TensorProto.FLOAT, (1, width))
        )
        seen = self.scores(empty.SerializeToString(), inputs, "seen").astype(np.float64)
        scale = seen.std()
        found = LogisticRegression(C=penalty, class_weight=weight, max_iter=300).fit(
            seen / scale, wanted
        )
        return self.model(found.coef_.T / scale, found.intercept_)

    def quantise(self, model: onnx.ModelProto, inputs: np.ndarray, path: Path) -> None:
        """Writes the int8 model, calibrated with windows."""
        with tempfile.TemporaryDirectory() as folder:
            exact = Path(folder) / "float.onnx"
            onnx.save(model, exact)
            quantize(exact, path, [{self.input: x[None]} for x in inputs])


def _session(model: bytes | str) -> ort.InferenceSession:
    options = ort.SessionOptions()
    options.intra_op_num_threads = 1
    # Without it, processors lacking VNNI saturate 16-bit sums and answer differently.
    options.add_session_config_entry("session.x64quantprecision", "1")
    return ort.InferenceSession(model, options, providers=["CPUExecutionProvider"])
