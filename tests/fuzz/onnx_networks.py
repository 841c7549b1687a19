# SPDX-License-Identifier: Apache-2.0
"""Random networks as .onnx files, QuantizeLinear and DequantizeLinear around every layer."""

from __future__ import annotations

import numpy as np
from builders.onnx_models import OnnxModel
from drawing import FileNetwork, Shape, Taps, Value
from onnx import TensorProto

# Functions and how much larger their outputs are than their inputs, at most about.
FUNCTIONS = {
    **{"Relu": 0.6, "LeakyRelu": 1.0, "HardSwish": 1.0, "Neg": 1.0, "Abs": 0.8},
    **{"Sigmoid": None, "Tanh": None},
}
BOUNDED = {"Sigmoid": 1 / 255, "Tanh": 1 / 127}


class OnnxNetwork(FileNetwork):
    def __init__(self, rng: np.random.Generator, layers: int):
        dtype = (np.int8, np.uint8)[int(rng.integers(2))]
        self.m = OnnxModel(int(rng.integers(1 << 30)), dtype, opset=14)
        self.given: dict[str, Shape] = {}
        super().__init__(rng, layers)

    def value(self, y: str, shape: Shape, scale: float, zero: int | None = None) -> Value:
        """A node's result, quantised."""
        return Value(self.m.qdq(y, self.m.stated(scale, zero)), shape, scale)

    def input(self, shape: Shape) -> Value:
        name = f"x{len(self.given)}"
        self.given[name] = shape
        return self.value(name, shape, float(self.rng.uniform(0.01, 0.2)))

    def out_size(self, taps: Taps, shape: Shape) -> tuple[int, int]:
        size = []
        for n, k, s, d, pad in zip(
            shape[:2], taps.kernel, taps.stride, taps.dilation, taps.pad, strict=True
        ):
            size.append((n + sum(pad) - (k - 1) * d - 1) // s + 1)
        return size[0], size[1]

    @staticmethod
    def window(taps: Taps) -> dict[str, list[int]]:
        pads = [*(before for before, _ in taps.pad), *(after for _, after in taps.pad)]
        return {"kernel_shape": list(taps.kernel), "strides": list(taps.stride), "pads": pads}

    def weighted(self, x: Value, count: int, groups: int, taps: Taps) -> Value:
        shape = (count, x.shape[2] // groups, *taps.kernel)
        axis = 0 if self.coin() else None
        bias = ("int32", "float", "none")[self.pick(0, 1, 2)]
        names, scale = self.m.weights(shape, axis, x.scale, int(np.prod(shape[1:])), bias)
        more = {"group": groups, "dilations": list(taps.dilation), **self.window(taps)}
        y = self.activated(self.m.node("Conv", [x.name, *names], **more))
        return self.value(y, (*self.out_size(taps, x.shape), count), scale)

    def activated(self, y: str) -> str:
        kind = self.pick(0, 0, 1, 2)
        if kind == 1:
            return self.m.node("Relu", [y])
        if kind == 2:
            return self.m.node("Clip", [y, *(self.m.constant(np.float32(v)) for v in (0, 6))])
        return y

    def conv(self, x: Value, count: int, taps: Taps) -> Value:
        return self.weighted(x, count, 1, taps)

    def conv_depthwise(self, x: Value, multiplier: int, taps: Taps) -> Value:
        return self.weighted(x, x.shape[2] * multiplier, x.shape[2], taps)

    def pool(self, x: Value, taps: Taps, largest: bool) -> Value:
        shape = (*self.out_size(taps, x.shape), x.shape[2])
        if largest:
            y = self.m.node("MaxPool", [x.name], **self.window(taps))
            return self.value(y, shape, x.scale * float(self.rng.uniform(0.7, 1.3)))
        counted = int(self.coin())
        y = self.m.node("AveragePool", [x.name], count_include_pad=counted, **self.window(taps))
        return self.value(y, shape, x.scale * float(self.rng.uniform(0.5, 1.1)))

    def add(self, x: Value, y: Value) -> Value:
        op = ("Add", "Add", "Sub", "Mul")[self.pick(0, 1, 2, 3)]
        scale = x.scale * y.scale * 100 if op == "Mul" else x.scale + y.scale
        made = self.m.node(op, [x.name, y.name])
        return self.value(self.activated(made) if op == "Add" else made, x.shape, scale)

    def concat(self, parts: list[Value], axis: int) -> Value:
        shape = list(parts[0].shape)
        shape[axis] = sum(part.shape[axis] for part in parts)
        y = self.m.node("Concat", [part.name for part in parts], axis=(2, 3, 1)[axis])
        scale = max(part.scale for part in parts)
        return self.value(y, (shape[0], shape[1], shape[2]), scale)

    def pad(self, x: Value, amounts: list[tuple[int, int]]) -> Value:
        rows, columns, channels = amounts
        ordered = [(0, 0), channels, rows, columns]
        table = np.array([[a for a, _ in ordered], [b for _, b in ordered]], np.int64).ravel()
        y = self.m.node("Pad", [x.name, self.m.constant(table)])
        high, wide, deep = (n + sum(a) for n, a in zip(x.shape, amounts, strict=True))
        return self.value(y, (high, wide, deep), x.scale)

    def function(self, x: Value) -> Value:
        name = list(FUNCTIONS)[int(self.rng.integers(len(FUNCTIONS)))]
        scale = BOUNDED.get(name) or x.scale * (FUNCTIONS[name] or 1.0)
        return self.value(self.m.node(name, [x.name]), x.shape, scale)

    def mean(self, x: Value) -> Value:
        scale = x.scale * float(self.rng.uniform(0.3, 1.1))
        return self.value(self.m.node("GlobalAveragePool", [x.name]), (1, 1, x.shape[2]), scale)

    def classifier(self, x: Value) -> Value:
        # ONNX Runtime's integer Softmax of a single class overflows to 0.
        depth, count = int(np.prod(x.shape)), self.pick(2, 4, 10)
        flat = self.m.node("Flatten", [x.name])
        names, scale = self.m.weights((count, depth), None, x.scale, depth)
        y = self.value(self.m.node("Gemm", [flat, *names], transB=1), (1, 1, count), scale)
        return self.value(self.m.node("Softmax", [y.name], axis=1), (1, 1, count), 1 / 255)

    def read(self) -> set[str | int]:
        return {name for node in self.m.nodes for name in node.input}

    def serialized(self, outputs: list[Value]) -> bytes:
        kind = TensorProto.FLOAT
        given = {name: (kind, (1, shape[2], *shape[:2])) for name, shape in self.given.items()}
        # A value is listed once: the format knows outputs by their names.
        return self.m.proto(given, {str(v.name): (kind, None) for v in outputs}).SerializeToString()
