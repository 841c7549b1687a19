# SPDX-License-Identifier: Apache-2.0
"""The constants of an .onnx file, read with the package of its format alone."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import onnx
from onnx import numpy_helper

from .nodes import POINT, Bounds, FileNodes, FileTensor, PlainNode, WeightNode

PLAIN = {
    "Add": "sum",
    "AveragePool": "mean",
    "GlobalAveragePool": "mean",
    "ReduceMean": "mean",
    "Softmax": "softmax",
}
# Nodes that change no byte of what they get, or only cut it.
CUTTING = ("Relu", "Clip", "Identity", "Reshape", "Flatten", "Squeeze", "Unsqueeze", "Transpose")
MOST_BETWEEN = 8
# Inputs of operators with weights: of the output's scale, and of the bias.
OPERATORS = {"QLinearConv": (6, 8), "QLinearMatMul": (6, 9), "QGemm": (7, 6)}


class OnnxFile:
    """Convolutions and matrix products between DequantizeLinear and QuantizeLinear nodes, and those
    of the operators QLinearConv, QLinearMatMul and QGemm."""

    def __init__(self, model: onnx.ModelProto):
        self.graph = model.graph
        self.constants = {one.name: numpy_helper.to_array(one) for one in model.graph.initializer}
        self.made = {name: node for node in self.graph.node for name in node.output}
        self.users: dict[str, list[onnx.NodeProto]] = {}
        for node in self.graph.node:
            if node.op_type == "Constant" and node.attribute[0].name == "value":
                self.constants[node.output[0]] = numpy_helper.to_array(node.attribute[0].t)
            for name in node.input:
                self.users.setdefault(name, []).append(node)

    def nodes(self) -> FileNodes:
        nodes = FileNodes()
        for node in self.graph.node:
            if node.op_type in PLAIN:
                nodes.plain.extend(self._plain(node))
            elif node.op_type in ("Conv", "Gemm", "MatMul"):
                nodes.weighted.extend(self._dequantized(node))
            elif node.op_type in OPERATORS:
                nodes.weighted.extend(self._operator(node))
        return nodes

    def _plain(self, node: onnx.NodeProto) -> list[PlainNode]:
        """Returns a node without weights between DequantizeLinear and QuantizeLinear."""
        names = node.input[: 2 if node.op_type == "Add" else 1]
        ends = [self._source(name) for name in names] + [self._target(node.output[0])[0]]
        known = [
            end for end in ends if end is not None and end.values is None and len(end.scale) == 1
        ]
        return [PlainNode.of(PLAIN[node.op_type], known, True)] if len(known) == len(ends) else []

    def _tensor(self, names: list[str]) -> FileTensor | None:
        """Returns a tensor of these inputs: values, scale and zero point."""
        values, scale = (self.constants.get(name) for name in names[:2])
        zero: np.ndarray | None = np.zeros((), np.uint8 if values is None else values.dtype)
        zero = self.constants.get(names[2]) if len(names) > 2 else zero
        if scale is None or zero is None:
            return None
        return FileTensor.of(values, scale.astype(np.float32), zero, zero.dtype == np.uint8)

    def _source(self, name: str) -> FileTensor | None:
        """Returns the tensor that DequantizeLinear reads."""
        node = self.made.get(name)
        while node is not None and node.op_type in CUTTING:
            node = self.made.get(node.input[0])
        if node is None or node.op_type != "DequantizeLinear":
            return None
        return self._tensor(list(node.input))

    def _target(self, name: str) -> tuple[FileTensor | None, str, Bounds]:
        """Returns the tensor of the QuantizeLinear behind a value, past nodes that only cut it and
        one Add; the Add's addend, and real bounds."""
        addend = ""
        bounds: Bounds = (None, None)
        for _ in range(MOST_BETWEEN):
            users = self.users.get(name, [])
            if len(users) != 1:
                break
            (user,) = users
            if user.op_type == "QuantizeLinear":
                return self._tensor(["", *user.input[1:]]), addend, bounds
            if user.op_type == "Add" and not addend:
                addend = next((one for one in user.input if one != name), "")
            elif user.op_type not in CUTTING:
                break
            if user.op_type == "Relu":
                bounds = (0.0, None)
            elif user.op_type == "Clip":
                ends = [self.constants.get(one) for one in (*user.input[1:], "", "")[:2]]
                low, high = (None if end is None else float(end) for end in ends)
                bounds = low, high
            name = user.output[0]
        return None, "", (None, None)

    def _dequantized(self, node: onnx.NodeProto) -> list[WeightNode]:
        into, weights = self._source(node.input[0]), self._source(node.input[1])
        out, addend, bounds = self._target(node.output[0])
        if into is None or weights is None or out is None or weights.values is None:
            return []
        name = node.input[2] if len(node.input) > 2 else addend
        quantised, bias = self._source(name), self.constants.get(name)
        if quantised is not None:
            bias = quantised.values
        elif bias is not None:
            bias = np.rint(bias / (into.scale.astype(np.float64) * weights.scale))
        return self._node(node, weights, bias, (into, out), bounds)

    def _operator(self, node: onnx.NodeProto) -> list[WeightNode]:
        at, of_bias = OPERATORS[node.op_type]
        names = [*node.input]
        ends = self._tensor(names[:3]), self._tensor(["", *names[at : at + 2]])
        weights = self._tensor(names[3:6])
        if weights is None or weights.values is None or ends[0] is None or ends[1] is None:
            return []
        bias = self.constants.get(names[of_bias]) if len(names) > of_bias else None
        return self._node(node, weights, bias, (ends[0], ends[1]), (None, None))

    def _node(
        self,
        node: onnx.NodeProto,
        weights: FileTensor,
        bias: np.ndarray | None,
        ends: tuple[FileTensor, FileTensor],
        bounds: Bounds,
    ) -> list[WeightNode]:
        attributes = {one.name: onnx.helper.get_attribute_value(one) for one in node.attribute}
        values, axes, kind = weights.values, POINT, "dense"
        assert values is not None
        if "Conv" in node.op_type:
            values = values[:, :, None] if values.ndim == 3 else values
            kind, ones = "conv", [1] * 2
            strides, dilations = (
                [*ones, *attributes.get(name, ones)][-2:] for name in ("strides", "dilations")
            )
            pads = attributes.get("pads", (0,) * 4)
            pads = [0, 0, *pads[: len(pads) // 2]][-2:]
            axes = tuple(zip(values.shape[2:], strides, dilations, pads, strict=True))
            if attributes.get("group", 1) > 1 and values.shape[1] == 1:
                kind = "depthwise"
            values = values.transpose(0, 2, 3, 1)
        elif values.ndim != 2:
            return []
        elif not attributes.get("transB", 0):
            values = values.T
        name = node.name or node.output[0]
        weights = replace(weights, values=values)
        return [WeightNode.of((name, kind, axes), weights, bias, ends, bounds)]
