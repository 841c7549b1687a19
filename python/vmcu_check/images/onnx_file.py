# SPDX-License-Identifier: Apache-2.0
"""The constants of an .onnx file, read with the package of its format alone."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import onnx
from onnx import numpy_helper

from .nodes import PlainNode, WeightNode, as_bytes

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


@dataclass(frozen=True)
class QuantizedEnd:
    """A QuantizeLinear, the addend in front of it, and real bounds, None for none."""

    scale: np.ndarray
    zero: np.ndarray
    addend: str = ""
    low: float | None = None
    high: float | None = None


class OnnxFile:
    """Convolutions and matrix products between DequantizeLinear and QuantizeLinear nodes, and those
    of the operators QLinearConv, QLinearMatMul and QGemm."""

    def __init__(self, model: onnx.ModelProto):
        self.plain: list[PlainNode] = []
        self.graph = model.graph
        self.constants = {one.name: numpy_helper.to_array(one) for one in model.graph.initializer}
        self.made = {name: node for node in self.graph.node for name in node.output}
        for node in self.graph.node:
            if node.op_type == "Constant" and node.attribute[0].name == "value":
                self.constants[node.output[0]] = numpy_helper.to_array(node.attribute[0].t)
        self.users: dict[str, list[onnx.NodeProto]] = {}
        for node in self.graph.node:
            for name in node.input:
                self.users.setdefault(name, []).append(node)

    def nodes(self) -> list[WeightNode]:
        nodes = []
        for node in self.graph.node:
            one = None
            if node.op_type in PLAIN:
                self._plain(node)
            elif node.op_type in ("Conv", "Gemm", "MatMul"):
                one = self._dequantized(node)
            elif node.op_type in ("QLinearConv", "QLinearMatMul", "QGemm"):
                one = self._operator(node)
            nodes += [one] if one is not None else []
        return nodes

    def _plain(self, node: onnx.NodeProto) -> None:
        """Notes a node without weights between DequantizeLinear and QuantizeLinear."""
        count = 2 if node.op_type == "Add" else 1
        sources = [self._source(name) for name in node.input[:count]]
        out = self._target(node.output[0])
        ends = [(s[1], s[2]) for s in sources if s is not None and s[0] is None]
        if out is None or len(ends) < count:
            return
        ends.append((np.atleast_1d(out.scale), np.atleast_1d(out.zero)))
        if any(scale.size != 1 for scale, _ in ends):
            return
        scales = tuple(float(scale[0]) for scale, _ in ends)
        zeros = tuple(self._zero(zero) for _, zero in ends)
        is_unsigned = ends[0][1].dtype == np.uint8
        self.plain.append(PlainNode(PLAIN[node.op_type], scales, zeros, True, is_unsigned))

    def _source(self, name: str) -> tuple[np.ndarray | None, np.ndarray, np.ndarray] | None:
        """The values (None: an activation), scales and zero points that DequantizeLinear reads."""
        node = self.made.get(name)
        while node is not None and node.op_type in CUTTING:
            node = self.made.get(node.input[0])
        if node is None or node.op_type != "DequantizeLinear":
            return None
        scale = self.constants.get(node.input[1])
        zero = self.constants.get(node.input[2]) if len(node.input) > 2 else np.zeros((), np.uint8)
        if scale is None or zero is None:
            return None
        return self.constants.get(node.input[0]), np.atleast_1d(scale), np.atleast_1d(zero)

    def _target(self, name: str) -> QuantizedEnd | None:
        """The QuantizeLinear behind a value, past nodes that only cut it and one Add."""
        addend, low, high = "", None, None
        for _ in range(MOST_BETWEEN):
            users = self.users.get(name, [])
            if len(users) != 1:
                return None
            (user,) = users
            ends = [self.constants.get(one) for one in user.input[1:]]
            if user.op_type == "QuantizeLinear":
                zero = ends[1] if len(ends) > 1 else np.zeros((), np.uint8)
                if ends[0] is None or zero is None:
                    return None
                return QuantizedEnd(ends[0], np.asarray(zero), addend, low, high)
            if user.op_type == "Add" and not addend:
                addend = next((one for one in user.input if one != name), "")
            elif user.op_type not in CUTTING:
                return None
            if user.op_type == "Relu":
                low = 0.0
            elif user.op_type == "Clip":
                low, high = (None if end is None else float(end) for end in (*ends, None, None)[:2])
            name = user.output[0]
        return None

    def _dequantized(self, node: onnx.NodeProto) -> WeightNode | None:
        into, weight = self._source(node.input[0]), self._source(node.input[1])
        out = self._target(node.output[0])
        if into is None or weight is None or out is None or weight[0] is None:
            return None
        name = node.input[2] if len(node.input) > 2 else out.addend
        bias = self._source(name)
        raw = bias[0] if bias is not None else self.constants.get(name)
        if bias is None and raw is not None:
            raw = np.rint(raw / (into[1].astype(np.float64) * weight[1]))
        return self._node(node, (weight[0], weight[1], weight[2]), raw, into[1:], out)

    def _operator(self, node: onnx.NodeProto) -> WeightNode | None:
        names = list(node.input)
        is_gemm = node.op_type == "QGemm"
        values = [self.constants.get(name) for name in names]
        into = values[1], values[2]
        weight = values[3], values[4], values[5]
        bias = values[6] if is_gemm else values[8] if len(values) > 8 else None
        out = values[7:9] if is_gemm else values[6:8]
        if any(one is None for one in (*into, *weight, *out)):
            return None
        return self._node(node, weight, bias, into, QuantizedEnd(out[0], out[1]))  # type: ignore[arg-type]

    def _node(
        self,
        node: onnx.NodeProto,
        weight: tuple[np.ndarray, np.ndarray, np.ndarray],
        bias: np.ndarray | None,
        into: tuple[np.ndarray, ...],
        out: QuantizedEnd,
    ) -> WeightNode | None:
        values, scale, zero = (np.asarray(one) for one in weight)
        attributes = {one.name: onnx.helper.get_attribute_value(one) for one in node.attribute}
        shape = values.shape
        values, zero = values.astype(np.int64), zero.astype(np.int64)
        window, kind = (1, 1), "dense"
        if "Conv" in node.op_type:
            if len(shape) == 3:
                values = values[:, :, None]
            values = values - zero.reshape(-1, 1, 1, 1)
            window = values.shape[2:]
            kind = (
                "depthwise" if attributes.get("group", 1) > 1 and values.shape[1] == 1 else "conv"
            )
            values = values.transpose(0, 2, 3, 1)
        else:
            if len(shape) != 2:
                return None
            if not attributes.get("transB", 0):
                values = values.T
            values = values - zero.reshape(-1, 1)
        count = len(values)
        scales = np.float32(into[0].ravel()[0]) * scale.ravel().astype(np.float32)
        scales = scales / np.float32(np.ravel(out.scale)[0])
        return WeightNode(
            name=node.name or node.output[0],
            kind=kind,
            weights=values.reshape(count, -1),
            bias=np.zeros(count, np.int64)
            if bias is None
            else np.broadcast_to(bias.astype(np.int64).ravel(), count),
            scales=np.broadcast_to(scales, count),
            window=(int(window[0]), int(window[1])),
            zeros=(self._zero(into[1]), self._zero(out.zero)),
            is_float=True,
            bounds=as_bytes(out.low, out.high, float(np.ravel(out.scale)[0]), self._zero(out.zero)),
        )

    def _zero(self, zero: np.ndarray) -> int:
        shift = 128 if zero.dtype == np.uint8 else 0
        return int(zero.ravel()[0]) - shift
