# SPDX-License-Identifier: Apache-2.0
"""The constants of a .tflite file, read with the package of its format alone."""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import replace
from typing import Any

import numpy as np
import tflite
from tflite import ActivationFunctionType, TensorType

from .nodes import POINT, UNBOUNDED, Axes, Bounds, FileNode, FileTensor

CUTTING = {"RELU", "RELU6", "RELU_N1_TO_1", "RELU_0_TO_1", "MAXIMUM", "MINIMUM"}
PLAIN = {"ADD": "sum", "AVERAGE_POOL_2D": "mean", "MEAN": "mean", "SOFTMAX": "softmax"}
BOUNDS: dict[int, Bounds] = {
    ActivationFunctionType.NONE: UNBOUNDED,
    ActivationFunctionType.RELU: (0.0, math.inf),
    ActivationFunctionType.RELU6: (0.0, 6.0),
}
WEIGHTED = {
    "CONV_2D": tflite.Conv2DOptions,
    "DEPTHWISE_CONV_2D": tflite.DepthwiseConv2DOptions,
    "FULLY_CONNECTED": tflite.FullyConnectedOptions,
}
BYTES = TensorType.INT8, TensorType.UINT8
DTYPES = dict(zip(BYTES, ("i1", "u1"), strict=True)) | {
    TensorType.INT16: "<i2",
    TensorType.INT32: "<i4",
    TensorType.INT64: "<i8",
}


class TfliteFile:
    """Convolutions and fully connected layers of all subgraphs, and nodes without weights."""

    def __init__(self, data: bytes):
        self.model = tflite.Model.GetRootAs(data)
        codes = (self.model.OperatorCodes(i) for i in range(self.model.OperatorCodesLength()))
        numbers = (max(code.BuiltinCode(), code.DeprecatedBuiltinCode()) for code in codes)
        self.codes = [tflite.BUILTIN_OPCODE2NAME.get(number) for number in numbers]
        self.cuts = bool({*self.codes} & CUTTING)

    def read(self, graph: tflite.SubGraph) -> Iterator[FileNode]:
        """Yields the nodes of a subgraph."""
        # Of a Pad in front: bytes by axis.
        padded: dict[int, np.ndarray] = {}
        for number in range(graph.OperatorsLength()):
            one = graph.Operators(number)
            name = self.codes[one.OpcodeIndex()]
            numbers = [int(i) for i in one.InputsAsNumpy() if i >= 0]
            tensors = [graph.Tensors(number) for number in (*numbers, one.Outputs(0))]
            if name in PLAIN:
                yield from self._plain(one, name, tensors)
            elif name in WEIGHTED:
                yield from self._weighted(one, name, tensors, padded.get(numbers[0]))
            elif name in ("PAD", "PADV2"):
                before = self._tensor(tensors[1]).values
                if before is not None and before.shape == (4, 2):
                    padded[one.Outputs(0)] = before[1:3, 0]

    def _plain(self, one: tflite.Operator, name: str, tensors: list[Any]) -> Iterator[FileNode]:
        """Yields a node without weights if its tensors are int8 or uint8."""
        del tensors[1 : 2 if name == "MEAN" else 1]
        ends = [self._tensor(tensor) for tensor in tensors]
        if name == "SOFTMAX":
            beta = _options(one, tflite.SoftmaxOptions).Beta()
            ends[0] = replace(ends[0], scale=ends[0].scale * beta)
        types = {tensor.Type() for tensor in tensors}
        if len(types) == 1 and types <= {*BYTES} and all(len(end.scale) for end in ends):
            yield FileNode.of(PLAIN[name], name, ends)

    def _tensor(self, tensor: tflite.Tensor) -> FileTensor:
        data, kind = self.model.Buffers(tensor.Buffer()).DataAsNumpy(), tensor.Type()
        shape = [tensor.Shape(i) for i in range(tensor.ShapeLength())]
        values = None
        if kind == TensorType.INT4 and not isinstance(data, int):
            halves = np.stack([data.astype(np.int8) << 4, data.astype(np.int8)], axis=1) >> 4
            values = halves.ravel()[: int(np.prod(shape))].reshape(shape)
        elif kind in DTYPES and not isinstance(data, int) and len(data):
            values = np.frombuffer(data.tobytes(), DTYPES[kind]).reshape(shape)
        of = tensor.Quantization()
        scale = np.zeros(0) if of is None else np.asarray(of.ScaleAsNumpy(), np.float64)
        zero = np.zeros(1) if of is None else of.ZeroPointAsNumpy()
        return FileTensor.of(values, scale, zero, kind == TensorType.UINT8)

    def _weighted(
        self, one: tflite.Operator, name: str, tensors: list[Any], pads: np.ndarray | None
    ) -> Iterator[FileNode]:
        into, weights, *biases, out = (self._tensor(tensor) for tensor in tensors)
        if weights.values is None or tensors[0].Type() not in BYTES:
            return
        values, axes, kind = weights.values, POINT, "dense"
        options = _options(one, WEIGHTED[name])
        if name != "FULLY_CONNECTED":
            axes = _axes(options, tensors, (0, 0) if pads is None else pads)
            kind = "conv" if axes != POINT else "dense"
        if name == "DEPTHWISE_CONV_2D":
            values, kind = values.reshape(-1, values.shape[3]).T, "depthwise"
        weights = replace(weights, values=values, zero=weights.zero[:1])
        activation = options.FusedActivationFunction()
        bounds = BOUNDS.get(activation, (-1.0, 1.0))
        text = (tensors[-1].Name() or b"").decode("utf-8", "replace")
        yield FileNode.of(kind, text, [into, out], axes).with_weights(
            weights,
            biases[0].values if biases else None,
            None if self.cuts and bounds == UNBOUNDED else bounds,
        )


def _options(one: tflite.Operator, kind: type) -> Any:
    options, table = kind(), one.BuiltinOptions()
    options.Init(table.Bytes, table.Pos)
    return options


def _axes(options: Any, tensors: list[Any], pads: Any) -> Axes:
    """The axes of a window of tensors: input, weights, output. pads: of a node in front."""
    steps = (
        (options.StrideH(), options.DilationHFactor()),
        (options.StrideW(), options.DilationWFactor()),
    )
    axes = []
    for axis, (stride, dilation), pad in zip((1, 2), steps, pads, strict=True):
        before, taps, *_, behind = (tensor.Shape(axis) for tensor in tensors)
        over = (behind - 1) * stride + (taps - 1) * dilation + 1 - before
        is_same = options.Padding() == tflite.Padding.SAME
        axes.append((taps, stride, dilation, int(pad) + is_same * (max(over, 0) // 2)))
    return tuple(axes)


def nodes(data: bytes) -> Iterator[FileNode]:
    """Yields the nodes of a file."""
    file = TfliteFile(data)
    for index in range(file.model.SubgraphsLength()):
        yield from file.read(file.model.Subgraphs(index))
