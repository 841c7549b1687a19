# SPDX-License-Identifier: Apache-2.0
"""The constants of a .tflite file, read with the package of its format alone."""

from __future__ import annotations

from typing import ClassVar

import numpy as np
import tflite

from .nodes import PlainNode, WeightNode, as_bytes

CUTTING = {"RELU", "RELU6", "RELU_N1_TO_1", "RELU_0_TO_1", "MAXIMUM", "MINIMUM"}
PLAIN = {"ADD": "sum", "AVERAGE_POOL_2D": "mean", "MEAN": "mean", "SOFTMAX": "softmax"}


def _names(enum: type) -> dict[int, str]:
    return {value: name for name, value in vars(enum).items() if isinstance(value, int)}


class TfliteFile:
    """Convolutions and fully connected layers of all subgraphs."""

    DTYPES: ClassVar = {"INT8": "i1", "UINT8": "u1", "INT32": "<i4", "INT16": "<i2", "INT64": "<i8"}

    def __init__(self, data: bytes):
        self.plain: list[PlainNode] = []
        self.model = tflite.Model.GetRootAs(data)
        self.operators = _names(tflite.BuiltinOperator)
        self.types = _names(tflite.TensorType)
        codes = (self.model.OperatorCodes(i) for i in range(self.model.OperatorCodesLength()))
        used = {self.operators.get(max(c.BuiltinCode(), c.DeprecatedBuiltinCode())) for c in codes}
        self.cuts = bool(used & CUTTING)

    def nodes(self) -> list[WeightNode]:
        nodes = []
        for index in range(self.model.SubgraphsLength()):
            graph = self.model.Subgraphs(index)
            for number in range(graph.OperatorsLength()):
                one = graph.Operators(number)
                code = self.model.OperatorCodes(one.OpcodeIndex())
                name = self.operators.get(max(code.BuiltinCode(), code.DeprecatedBuiltinCode()), "")
                if name in PLAIN:
                    self._plain(graph, one, name)
                elif name in ("CONV_2D", "DEPTHWISE_CONV_2D", "FULLY_CONNECTED"):
                    node = self._node(graph, one, name)
                    nodes += [node] if node is not None else []
        return nodes

    def _bounds(
        self, one: tflite.Operator, name: str, scale: float, zero: int
    ) -> tuple[int, int] | None:
        """The bounds of the fused activation."""
        options = {
            "CONV_2D": tflite.Conv2DOptions,
            "DEPTHWISE_CONV_2D": tflite.DepthwiseConv2DOptions,
            "FULLY_CONNECTED": tflite.FullyConnectedOptions,
        }[name]()
        if one.BuiltinOptions() is not None:
            options.Init(one.BuiltinOptions().Bytes, one.BuiltinOptions().Pos)
        kind = _names(tflite.ActivationFunctionType)[options.FusedActivationFunction()]
        if kind == "NONE" and self.cuts:
            return None
        low, high = {"NONE": (None, None), "RELU": (0, None), "RELU6": (0, 6)}.get(kind, (-1, 1))
        return as_bytes(low, high, scale, zero)

    def _plain(self, graph: tflite.SubGraph, one: tflite.Operator, name: str) -> None:
        """Notes a node without weights if its tensors are int8 or uint8."""
        numbers = [*(one.Inputs(i) for i in range(one.InputsLength())), one.Outputs(0)]
        tensors = [graph.Tensors(number) for number in numbers]
        if name == "MEAN":
            del tensors[1]
        kinds = {self.types[tensor.Type()] for tensor in tensors}
        pairs = [self._scales(tensor) for tensor in tensors]
        if len(kinds) > 1 or not kinds <= {"INT8", "UINT8"} or not all(len(s) for s, _ in pairs):
            return
        scales, is_unsigned = [float(s[0]) for s, _ in pairs], "UINT8" in kinds
        if name == "SOFTMAX":
            options = tflite.SoftmaxOptions()
            options.Init(one.BuiltinOptions().Bytes, one.BuiltinOptions().Pos)
            scales[0] *= options.Beta()
        zeros = tuple(int(z[0]) - 128 * is_unsigned for _, z in pairs)
        kind = PLAIN[name]
        self.plain.append(PlainNode(kind, tuple(scales), zeros, False, is_unsigned))

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
            bounds=self._bounds(one, name, scale[0], int(of_output[0]) - shift),
        )
