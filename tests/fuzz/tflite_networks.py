# SPDX-License-Identifier: Apache-2.0
"""Random networks as .tflite files."""

from __future__ import annotations

import numpy as np
from builders import tflite_models
from builders.tflite_models import TfliteModel
from drawing import FileNetwork, Shape, Taps, Value

ACTIVATIONS = (0, 0, tflite_models.RELU, tflite_models.RELU_N1_TO_1, tflite_models.RELU6)
SUMS = ("ADD", "ADD", "SUB", "MUL")
FUNCTIONS = ("RELU", "RELU6", "LOGISTIC", "TANH", "QUANTIZE")
# What TensorFlow Lite wants of their outputs: scale, zero point.
BOUNDED = {"LOGISTIC": (1 / 256, -128), "TANH": (1 / 128, 0)}


class TfliteNetwork(FileNetwork):
    def __init__(self, rng: np.random.Generator, layers: int):
        self.m = TfliteModel(int(rng.integers(1 << 30)))
        super().__init__(rng, layers)

    def value(self, index: int, shape: Shape) -> Value:
        return Value(index, shape, float(self.m.scale(index)[0]))

    def made(self, shape: Shape, scale: float | None = None, zero: int | None = None) -> Value:
        return self.value(self.m.activation((1, *shape), scale, zero), shape)

    def alike(self, x: Value, shape: Shape) -> Value:
        return self.value(self.m.like(int(x.name), (1, *shape)), shape)

    def input(self, shape: Shape) -> Value:
        return self.made(shape)

    def activation(self) -> int:
        return self.pick(*ACTIVATIONS)

    def out_size(self, taps: Taps, shape: Shape) -> tuple[int, int]:
        extents = ((k - 1) * d + 1 for k, d in zip(taps.kernel, taps.dilation, strict=True))
        sizes = zip(shape, taps.stride, extents, strict=False)
        high, wide = (-(-n // s) if taps.same else (n - e) // s + 1 for n, s, e in sizes)
        return high, wide

    def window(self, taps: Taps) -> dict[str, int]:
        return {
            "padding": 0 if taps.same else 1,
            "strideH": taps.stride[0],
            "strideW": taps.stride[1],
            "fusedActivationFunction": self.activation(),
        }

    def weighted(self, op: str, kind: str, x: Value, taps: Taps, shape, axis: int, **more) -> Value:
        """A convolution; shape: of its weights, whose dimension `axis` is the output's channels."""
        count = shape[axis]
        per_channel = self.rng.random() < 0.8
        # TensorFlow Lite Micro crashes on a depthwise convolution without biases.
        bias = self.rng.random() < 0.8 or axis == 3
        tensors, scale = tflite_models.weights(
            self.m, int(x.name), shape, count, axis, per_channel, bias
        )
        y = self.made((*self.out_size(taps, x.shape), count), scale)
        options = {"dilationHFactor": taps.dilation[0], "dilationWFactor": taps.dilation[1]}
        options |= self.window(taps) | more
        self.m.op(op, [x.name, *tensors], int(y.name), kind, **options)
        return y

    def conv(self, x: Value, count: int, taps: Taps) -> Value:
        return self.weighted("CONV_2D", "Conv2D", x, taps, (count, *taps.kernel, x.shape[2]), 0)

    def conv_depthwise(self, x: Value, multiplier: int, taps: Taps) -> Value:
        shape, name = (1, *taps.kernel, x.shape[2] * multiplier), "DepthwiseConv2D"
        more = {"depthMultiplier": multiplier}
        return self.weighted("DEPTHWISE_CONV_2D", name, x, taps, shape, 3, **more)

    def pool(self, x: Value, taps: Taps, largest: bool) -> Value:
        y = self.alike(x, (*self.out_size(taps, x.shape), x.shape[2]))
        options = {"filterHeight": taps.kernel[0], "filterWidth": taps.kernel[1]}
        name = "MAX_POOL_2D" if largest else "AVERAGE_POOL_2D"
        self.m.op(name, [x.name], int(y.name), "Pool2D", **options, **self.window(taps))
        return y

    def add(self, x: Value, y: Value) -> Value:
        op = SUMS[self.pick(0, 1, 2, 3)]
        scale = x.scale * y.scale * 100 if op == "MUL" else x.scale + y.scale
        out = self.made(x.shape, scale)
        options = {"fusedActivationFunction": self.activation()}
        self.m.op(op, [x.name, y.name], int(out.name), op.capitalize(), **options)
        return out

    def concat(self, parts: list[Value], axis: int) -> Value:
        """In one quantisation, as the format demands: the others are brought to it."""
        first, same = parts[0], [parts[0]]
        for part in parts[1:]:
            if part.name != first.name:
                brought = self.alike(first, part.shape)
                self.m.op("QUANTIZE", [part.name], int(brought.name))
                part = brought
            same.append(part)
        shape = list(first.shape)
        shape[axis] = sum(part.shape[axis] for part in same)
        out = self.alike(first, (shape[0], shape[1], shape[2]))
        names = [part.name for part in same]
        self.m.op("CONCATENATION", names, int(out.name), "Concatenation", axis=axis + 1)
        return out

    def pad(self, x: Value, amounts: list[tuple[int, int]]) -> Value:
        high, wide, deep = (n + sum(a) for n, a in zip(x.shape, amounts, strict=True))
        y = self.alike(x, (high, wide, deep))
        table = self.m.constant(np.array([(0, 0), *amounts], np.int32))
        self.m.op("PAD", [x.name, table], int(y.name), "Pad")
        return y

    def function(self, x: Value) -> Value:
        name = FUNCTIONS[int(self.rng.integers(len(FUNCTIONS)))]
        scale, zero = BOUNDED.get(name, (x.scale * self.rng.uniform(0.5, 1.5), None))
        y = self.alike(x, x.shape) if name == "RELU6" else self.made(x.shape, scale, zero)
        self.m.op(name, [x.name], int(y.name))
        return y

    def mean(self, x: Value) -> Value:
        y = self.made((1, 1, x.shape[2]), x.scale * self.rng.uniform(0.3, 1.1))
        axes = self.m.constant(np.array([1, 2], np.int32))
        self.m.op("MEAN", [x.name, axes], int(y.name), "Reducer", keepDims=True)
        return y

    def classifier(self, x: Value) -> Value:
        depth, count = int(np.prod(x.shape)), self.pick(1, 4, 10)
        tensors, scale = tflite_models.weights(
            self.m, int(x.name), (count, depth), count, 0, False, True
        )
        y = self.value(self.m.activation((1, count), scale), (1, 1, count))
        self.m.op("FULLY_CONNECTED", [x.name, *tensors], int(y.name), "FullyConnected")
        out = self.value(self.m.activation((1, count), 1 / 256, -128), (1, 1, count))
        self.m.op("SOFTMAX", [y.name], int(out.name), "Softmax", beta=1.0)
        return out

    def read(self) -> set[str | int]:
        return {int(i) for op in self.m.graph.operators for i in op.inputs}

    def serialized(self, outputs: list[Value]) -> bytes:
        return self.m.to_bytes([int(v.name) for v in self.inputs], [int(v.name) for v in outputs])
