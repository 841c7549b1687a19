# SPDX-License-Identifier: Apache-2.0
"""The constants of a .tflite file, read with the package of its format alone."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import replace
from typing import Any, ClassVar

import numpy as np
import tflite

from .nodes import POINT, Axes, Bounds, FileNodes, FileTensor, PlainNode, WeightNode

CUTTING = {"RELU", "RELU6", "RELU_N1_TO_1", "RELU_0_TO_1", "MAXIMUM", "MINIMUM"}
PLAIN = {"ADD": "sum", "AVERAGE_POOL_2D": "mean", "MEAN": "mean", "SOFTMAX": "softmax"}
# Of a node in front: bytes before and behind, by axis.
NO_PADS = np.zeros((4, 2), np.int64)
BOUNDS = {"RELU": (0, None), "RELU6": (0, 6), "RELU_N1_TO_1": (-1, 1), "NONE": (None, None)}
WEIGHTED = {
    "CONV_2D": tflite.Conv2DOptions,
    "DEPTHWISE_CONV_2D": tflite.DepthwiseConv2DOptions,
    "FULLY_CONNECTED": tflite.FullyConnectedOptions,
}


def _names(enum: type) -> dict[int, str]:
    return {value: name for name, value in vars(enum).items() if isinstance(value, int)}


class TfliteFile:
    """Convolutions and fully connected layers of all subgraphs, and nodes without weights."""

    DTYPES: ClassVar = {"INT8": "i1", "UINT8": "u1", "INT32": "<i4", "INT16": "<i2", "INT64": "<i8"}

    def __init__(self, data: bytes):
        self.model = tflite.Model.GetRootAs(data)
        operators, self.types = _names(tflite.BuiltinOperator), _names(tflite.TensorType)
        codes = (self.model.OperatorCodes(i) for i in range(self.model.OperatorCodesLength()))
        self.codes = [operators.get(max(c.BuiltinCode(), c.DeprecatedBuiltinCode())) for c in codes]
        self.cuts = bool({*self.codes} & CUTTING)

    def nodes(self) -> FileNodes:
        nodes = FileNodes()
        for index in range(self.model.SubgraphsLength()):
            graph = self.model.Subgraphs(index)
            padded: dict[int, np.ndarray] = {}
            for number in range(graph.OperatorsLength()):
                one = graph.Operators(number)
                name = self.codes[one.OpcodeIndex()]
                numbers = [one.Inputs(i) for i in range(one.InputsLength()) if one.Inputs(i) >= 0]
                tensors = [graph.Tensors(number) for number in (*numbers, one.Outputs(0))]
                if name in PLAIN:
                    del tensors[1 : 2 if name == "MEAN" else 1]
                    nodes.plain.extend(self._plain(one, name, tensors))
                elif name in WEIGHTED:
                    pads = padded.get(numbers[0], NO_PADS)[1:3, 0]
                    nodes.weighted.extend(self._weighted(one, name, tensors, pads))
                elif name in ("PAD", "PADV2"):
                    before = self._tensor(tensors[1]).values
                    if before is not None and before.shape == NO_PADS.shape:
                        padded[one.Outputs(0)] = before
        return nodes

    def _is_bytes(self, tensor: tflite.Tensor) -> bool:
        return self.types[tensor.Type()] in ("INT8", "UINT8")

    def _plain(
        self, one: tflite.Operator, name: str, tensors: list[tflite.Tensor]
    ) -> list[PlainNode]:
        """Returns a node without weights if its tensors are int8 or uint8."""
        if len({tensor.Type() for tensor in tensors}) > 1 or not self._is_bytes(tensors[0]):
            return []
        ends = [self._tensor(tensor) for tensor in tensors]
        if name == "SOFTMAX":
            beta = _options(one, tflite.SoftmaxOptions).Beta()
            ends[0] = replace(ends[0], scale=ends[0].scale * beta)
        return (
            [PlainNode.of(PLAIN[name], ends, is_float=False)]
            if all(len(e.scale) for e in ends)
            else []
        )

    def _bounds(self, one: tflite.Operator, name: str) -> Bounds | None:
        """The bounds of the fused activation."""
        activation = _options(one, WEIGHTED[name]).FusedActivationFunction()
        kind = _names(tflite.ActivationFunctionType)[activation]
        return None if kind == "NONE" and self.cuts else BOUNDS.get(kind, (-1, 1))

    def _tensor(self, tensor: tflite.Tensor) -> FileTensor:
        data, kind = self.model.Buffers(tensor.Buffer()).DataAsNumpy(), self.types[tensor.Type()]
        shape = [tensor.Shape(i) for i in range(tensor.ShapeLength())]
        values = None
        if kind == "INT4" and not isinstance(data, int):
            halves = np.stack([(data.astype(np.int8) << 4) >> 4, data.astype(np.int8) >> 4], axis=1)
            values = halves.ravel()[: int(np.prod(shape))].reshape(shape)
        elif kind in self.DTYPES and not isinstance(data, int) and len(data):
            values = np.frombuffer(data.tobytes(), self.DTYPES[kind]).reshape(shape)
        of = tensor.Quantization()
        scale, zero = (
            (np.zeros(0), np.zeros(1)) if of is None else (of.ScaleAsNumpy(), of.ZeroPointAsNumpy())
        )
        return FileTensor.of(values, np.asarray(scale, np.float64), zero, kind == "UINT8")

    def _weighted(
        self, one: tflite.Operator, name: str, tensors: list[tflite.Tensor], pads: np.ndarray
    ) -> list[WeightNode]:
        into, weights, *biases, out = (self._tensor(tensor) for tensor in tensors)
        if weights.values is None or not self._is_bytes(tensors[0]):
            return []
        values, axes, kind = weights.values, POINT, "dense"
        if name != "FULLY_CONNECTED":
            sides = zip(values.shape[1:3], *map(_sides, (tensors[0], tensors[-1])), strict=True)
            axes = _axes(_options(one, WEIGHTED[name]), sides, pads)
            kind = "conv" if axes != POINT else "dense"
        if name == "DEPTHWISE_CONV_2D":
            values, kind = values.reshape(-1, values.shape[3]).T, "depthwise"
        text = (tensors[-1].Name() or b"").decode("utf-8", "replace")
        bias = biases[0].values if biases else None
        weights = replace(weights, values=values, zero=weights.zero[:1])
        bounds = self._bounds(one, name)
        return [WeightNode.of((text, kind, axes), weights, bias, (into, out), bounds)]


def _options(one: tflite.Operator, kind: type) -> Any:
    options = kind()
    if one.BuiltinOptions() is not None:
        options.Init(one.BuiltinOptions().Bytes, one.BuiltinOptions().Pos)
    return options


def _sides(tensor: tflite.Tensor) -> tuple[int, int]:
    return tensor.Shape(1), tensor.Shape(2)


def _axes(options: Any, sides: Iterable[Sequence[int]], pads: np.ndarray) -> Axes:
    """The axes of a window. sides: of the window, the input and the output, by axis;
    pads: of a node in front."""
    steps = (
        (options.StrideH(), options.DilationHFactor()),
        (options.StrideW(), options.DilationWFactor()),
    )
    axes = []
    for (taps, before, behind), (stride, dilation), pad in zip(sides, steps, pads, strict=True):
        over = (behind - 1) * stride + (taps - 1) * dilation + 1 - before
        is_same = options.Padding() == tflite.Padding.SAME
        axes.append((int(taps), stride, dilation, int(pad) + (max(over, 0) // 2 if is_same else 0)))
    return tuple(axes)
