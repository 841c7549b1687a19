# SPDX-License-Identifier: Apache-2.0
"""The weights, biases and scales of a model file, read with the packages of its format alone."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import ClassVar

import numpy as np
import onnx
import tflite
from onnx import numpy_helper

from .elf import ImageError

# Nodes that change no byte of what they get, or only cut it.
CUTTING = ("Relu", "Clip", "Identity", "Reshape", "Flatten", "Squeeze", "Unsqueeze", "Transpose")


@dataclass(frozen=True)
class WeightNode:
    """A layer with weights in the file.

    weights: int64 (channels, taps), taps by row, column and input channel of the window; bias:
    int64 (channels,), in units of input scale times weight scale, without the input's zero point.
    scales: factors of sums, by channel: float64, or float32 of .onnx. window:
    rows and columns. zeros: of input and output, as int8; None where the file leaves it open.
    """

    name: str
    kind: str
    weights: np.ndarray
    bias: np.ndarray
    scales: np.ndarray
    window: tuple[int, int]
    zeros: tuple[int | None, int | None]
    is_float: bool


def read(path: Path) -> list[WeightNode]:
    """Returns the nodes with weights in the order of the file.

    Raises ImageError if the file is neither .tflite nor .onnx, or damaged.
    """
    try:
        data = path.read_bytes()
        if data[4:8] == b"TFL3":
            return _Tflite(data).nodes()
        model = onnx.load_model_from_string(data)
        return _Onnx(model).nodes()
    except ImageError:
        raise
    except Exception as error:  # Readers of damaged files raise whatever they like.
        raise ImageError(
            f"'{path}' cannot be read: {error}", "pass the .tflite or .onnx"
        ) from error


def _names(enum: type) -> dict[int, str]:
    return {value: name for name, value in vars(enum).items() if isinstance(value, int)}


class _Tflite:
    """Convolutions and fully connected layers of all subgraphs."""

    DTYPES: ClassVar = {"INT8": "i1", "UINT8": "u1", "INT32": "<i4", "INT16": "<i2", "INT64": "<i8"}

    def __init__(self, data: bytes):
        self.model = tflite.Model.GetRootAs(data)
        self.operators = _names(tflite.BuiltinOperator)
        self.types = _names(tflite.TensorType)

    def nodes(self) -> list[WeightNode]:
        nodes = []
        for index in range(self.model.SubgraphsLength()):
            graph = self.model.Subgraphs(index)
            for number in range(graph.OperatorsLength()):
                one = graph.Operators(number)
                code = self.model.OperatorCodes(one.OpcodeIndex())
                name = self.operators.get(max(code.BuiltinCode(), code.DeprecatedBuiltinCode()), "")
                if name in ("CONV_2D", "DEPTHWISE_CONV_2D", "FULLY_CONNECTED"):
                    node = self._node(graph, one, name)
                    nodes += [node] if node is not None else []
        return nodes

    def _constant(self, tensor: tflite.Tensor) -> np.ndarray | None:
        data = self.model.Buffers(tensor.Buffer()).DataAsNumpy()
        if isinstance(data, int) or not len(data):
            return None
        shape = [tensor.Shape(i) for i in range(tensor.ShapeLength())]
        kind = self.types[tensor.Type()]
        if kind == "INT4":
            low = (data.astype(np.int8) << 4) >> 4
            whole = np.stack([low, data.astype(np.int8) >> 4], axis=1).ravel()
            return whole[: int(np.prod(shape))].astype(np.int64).reshape(shape)
        values = np.frombuffer(data.tobytes(), self.DTYPES[kind]).astype(np.int64)
        return values.reshape(shape)

    def _scales(self, tensor: tflite.Tensor) -> tuple[np.ndarray, np.ndarray]:
        quantization = tensor.Quantization()
        scales = np.atleast_1d(quantization.ScaleAsNumpy()).astype(np.float64)
        zeros = np.atleast_1d(quantization.ZeroPointAsNumpy()).astype(np.int64)
        return scales, zeros

    def _node(self, graph: tflite.SubGraph, one: tflite.Operator, name: str) -> WeightNode | None:
        tensors = [
            graph.Tensors(one.Inputs(i)) for i in range(one.InputsLength()) if one.Inputs(i) >= 0
        ]
        out = graph.Tensors(one.Outputs(0))
        weights = self._constant(tensors[1])
        if weights is None or self.types[tensors[0].Type()] not in ("INT8", "UINT8"):
            return None
        bias = self._constant(tensors[2]) if len(tensors) > 2 else None
        shift = 128 if self.types[tensors[0].Type()] == "UINT8" else 0
        factors, zeros = self._scales(tensors[1])
        if self.types[tensors[1].Type()] == "UINT8":
            weights, zeros = weights - 128, zeros - 128
        window = (1, 1)
        if name == "DEPTHWISE_CONV_2D":
            window = weights.shape[1:3]
            weights = weights.reshape(-1, weights.shape[3]).T
        elif name == "CONV_2D":
            window = weights.shape[1:3]
        weights = weights.reshape(len(weights), -1) - (zeros[0] if len(zeros) else 0)
        into, of_input = self._scales(tensors[0])
        scale, of_output = self._scales(out)
        count = len(weights)
        return WeightNode(
            name=(out.Name() or b"").decode("utf-8", "replace"),
            kind="depthwise"
            if name.startswith("DEPTH")
            else "dense"
            if window == (1, 1)
            else "conv",
            weights=weights,
            bias=np.zeros(count, np.int64) if bias is None else bias.ravel(),
            scales=np.broadcast_to(into[0] * factors / scale[0], count),
            window=(int(window[0]), int(window[1])),
            zeros=(int(of_input[0]) - shift, int(of_output[0]) - shift),
            is_float=False,
        )


class _Onnx:
    """Convolutions and matrix products between DequantizeLinear and QuantizeLinear nodes, and those
    of the operators QLinearConv, QLinearMatMul and QGemm."""

    def __init__(self, model: onnx.ModelProto):
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
            if node.op_type in ("Conv", "Gemm", "MatMul"):
                one = self._dequantized(node)
            elif node.op_type in ("QLinearConv", "QLinearMatMul", "QGemm"):
                one = self._operator(node)
            nodes += [one] if one is not None else []
        return nodes

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

    def _target(self, name: str) -> tuple[np.ndarray, np.ndarray, str] | None:
        """Scale and zero point of the QuantizeLinear behind a value, past what only cuts it, and
        the Add in between."""
        between = ""
        for _ in range(8):
            users = self.users.get(name, [])
            if len(users) != 1:
                return None
            if users[0].op_type == "QuantizeLinear":
                zero = self.constants.get(users[0].input[2]) if len(users[0].input) > 2 else None
                scale = self.constants.get(users[0].input[1])
                if scale is None:
                    return None
                return scale, np.zeros((), np.uint8) if zero is None else zero, between
            if users[0].op_type == "Add" and not between:
                between = next((one for one in users[0].input if one != name), "")
            elif users[0].op_type not in CUTTING:
                return None
            name = users[0].output[0]
        return None

    def _dequantized(self, node: onnx.NodeProto) -> WeightNode | None:
        into, weight = self._source(node.input[0]), self._source(node.input[1])
        out = self._target(node.output[0])
        if into is None or weight is None or out is None or weight[0] is None:
            return None
        name = node.input[2] if len(node.input) > 2 else out[2]
        bias = self._source(name)
        raw = bias[0] if bias is not None else self.constants.get(name)
        if bias is None and raw is not None:
            raw = np.rint(raw / (into[1].astype(np.float64) * weight[1]))
        return self._node(node, (weight[0], weight[1], weight[2]), raw, into[1:], out[:2])

    def _operator(self, node: onnx.NodeProto) -> WeightNode | None:
        names = list(node.input)
        is_gemm = node.op_type == "QGemm"
        values = [self.constants.get(name) for name in names]
        into = values[1], values[2]
        weight = values[3], values[4], values[5]
        bias = values[6] if is_gemm else values[8] if len(values) > 8 else None
        out = (values[7], values[8]) if is_gemm else (values[6], values[7])
        if any(one is None for one in (*into, *weight, *out)):
            return None
        return self._node(node, weight, bias, into, out)  # type: ignore[arg-type]

    def _node(
        self,
        node: onnx.NodeProto,
        weight: tuple[np.ndarray, np.ndarray, np.ndarray],
        bias: np.ndarray | None,
        into: tuple[np.ndarray, ...],
        out: tuple[np.ndarray, ...],
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
        scales = scales / np.float32(np.asarray(out[0]).ravel()[0])
        return WeightNode(
            name=node.name or node.output[0],
            kind=kind,
            weights=values.reshape(count, -1),
            bias=np.zeros(count, np.int64)
            if bias is None
            else np.broadcast_to(bias.astype(np.int64).ravel(), count),
            scales=np.broadcast_to(scales, count),
            window=(int(window[0]), int(window[1])),
            zeros=(self._zero(into[1]), self._zero(out[1])),
            is_float=True,
        )

    def _zero(self, zero: np.ndarray) -> int:
        shift = 128 if zero.dtype == np.uint8 else 0
        return int(zero.ravel()[0]) - shift
