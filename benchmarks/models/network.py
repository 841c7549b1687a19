# SPDX-License-Identifier: Apache-2.0
"""Float ONNX networks with seeded weights, layer by layer."""

from __future__ import annotations

import math
from collections.abc import Sequence

import numpy as np
import onnx
from onnx import TensorProto, helper, numpy_helper

OPSET = 17
IR_VERSION = 8


class Network:
    """A graph under construction; values are referred to by name, shapes are (1, C, ...).

    Weights are drawn so that every layer's output has about unit variance.
    """

    def __init__(self, name: str, shape: Sequence[int], seed: int = 0):
        self.name = name
        self.rng = np.random.default_rng(seed)
        self.shapes: dict[str, tuple[int, ...]] = {"input": tuple(shape)}
        self.nodes: list[onnx.NodeProto] = []
        self.constants: list[onnx.TensorProto] = []

    def constant(self, array: np.ndarray) -> str:
        name = f"constant_{len(self.constants)}"
        self.constants.append(numpy_helper.from_array(array, name))
        return name

    def random(self, *shape: int, deviation: float) -> str:
        return self.constant((self.rng.normal(size=shape) * deviation).astype(np.float32))

    def node(
        self, op: str, inputs: Sequence[str], shape: Sequence[int], **attributes: object
    ) -> str:
        name = f"{op.lower()}_{len(self.nodes)}"
        self.nodes.append(helper.make_node(op, list(inputs), [name], name=name, **attributes))
        self.shapes[name] = tuple(int(d) for d in shape)
        return name

    def channels(self, x: str) -> int:
        return self.shapes[x][1]

    def conv(
        self,
        x: str,
        count: int,
        kernel: int | Sequence[int],
        stride: int | Sequence[int] = 1,
        groups: int = 1,
        activation: str = "",
    ) -> str:
        """A convolution over all spatial axes, padded by half a kernel on each side."""
        spatial = self.shapes[x][2:]
        kernels = [kernel] * len(spatial) if isinstance(kernel, int) else list(kernel)
        strides = [stride] * len(spatial) if isinstance(stride, int) else list(stride)
        depth = self.channels(x) // groups
        fan_in = depth * math.prod(kernels)
        gain = math.sqrt((2.0 if activation else 1.0) / fan_in)
        weights = self.random(count, depth, *kernels, deviation=gain)
        bias = self.random(count, deviation=0.1)
        pads = [k // 2 for k in kernels]
        axes = zip(spatial, kernels, strides, pads, strict=True)
        out = [(size + 2 * pad - k) // s + 1 for size, k, s, pad in axes]
        y = self.node(
            "Conv",
            [x, weights, bias],
            (1, count, *out),
            kernel_shape=kernels,
            strides=strides,
            pads=pads * 2,
            group=groups,
        )
        return self.activate(y, activation)

    def depthwise(
        self, x: str, kernel: int | Sequence[int], stride: int = 1, activation: str = ""
    ) -> str:
        channels = self.channels(x)
        return self.conv(x, channels, kernel, stride, channels, activation)

    def activate(self, x: str, activation: str) -> str:
        """activation: "", "relu" or "relu6"."""
        if activation == "relu6":
            limits = [self.constant(np.float32(bound)) for bound in (0, 6)]
            return self.node("Clip", [x, *limits], self.shapes[x])
        return self.node("Relu", [x], self.shapes[x]) if activation else x

    def add(self, a: str, b: str) -> str:
        return self.node("Add", [a, b], self.shapes[a])

    def concat(self, parts: Sequence[str]) -> str:
        channels = sum(self.channels(part) for part in parts)
        shape = (1, channels, *self.shapes[parts[0]][2:])
        return self.node("Concat", parts, shape, axis=1)

    def max_pool(self, x: str, kernel: int) -> str:
        shape = [*self.shapes[x][:2], *(size // kernel for size in self.shapes[x][2:])]
        window = [kernel] * (len(shape) - 2)
        return self.node("MaxPool", [x], shape, kernel_shape=window, strides=window)

    def mean(self, x: str) -> str:
        """Global average pooling and flattening to (1, C)."""
        channels = self.channels(x)
        ones = [1] * (len(self.shapes[x]) - 2)
        y = self.node("GlobalAveragePool", [x], (1, channels, *ones))
        return self.node("Flatten", [y], (1, channels), axis=1)

    def upsample(self, x: str, channels: int) -> str:
        """Twice the size by a transposed convolution of 2 x 2."""
        depth = self.channels(x)
        weights = self.random(depth, channels, 2, 2, deviation=math.sqrt(1 / depth))
        sizes = [2 * size for size in self.shapes[x][2:]]
        inputs = [x, weights, self.random(channels, deviation=0.1)]
        return self.node("ConvTranspose", inputs, (1, channels, *sizes), strides=[2, 2])

    def sigmoid(self, x: str) -> str:
        return self.node("Sigmoid", [x], self.shapes[x])

    def gelu(self, x: str) -> str:
        """By the error function, in the five operators that PyTorch exports."""
        shape = self.shapes[x]
        inner = self.node("Erf", [self.node("Div", [x, self.scalar(2**0.5)], shape)], shape)
        inner = self.node("Add", [inner, self.scalar(1.0)], shape)
        product = self.node("Mul", [x, inner], shape)
        return self.node("Mul", [product, self.scalar(0.5)], shape)

    def scalar(self, value: float) -> str:
        return self.constant(np.float32(value))

    def add_constant(self, x: str, shape: Sequence[int]) -> str:
        """Plus constants, such as an encoding of positions."""
        return self.node("Add", [x, self.random(*shape, deviation=0.3)], self.shapes[x])

    def layer_norm(self, x: str) -> str:
        width = self.shapes[x][-1]
        gain = self.constant(self.rng.uniform(0.5, 1.5, width).astype(np.float32))
        inputs = [x, gain, self.random(width, deviation=0.1)]
        return self.node("LayerNormalization", inputs, self.shapes[x], axis=-1)

    def rows(self, x: str, count: int) -> str:
        """A dense layer on the last axis, with a bias."""
        depth = self.shapes[x][-1]
        weights = self.random(depth, count, deviation=math.sqrt(1 / depth))
        shape = (*self.shapes[x][:-1], count)
        y = self.node("MatMul", [x, weights], shape)
        return self.node("Add", [y, self.random(count, deviation=0.1)], shape)

    def reshape(self, x: str, shape: Sequence[int]) -> str:
        return self.node("Reshape", [x, self.constant(np.array(shape, np.int64))], shape)

    def flatten(self, x: str) -> str:
        return self.node("Flatten", [x], (1, math.prod(self.shapes[x])), axis=1)

    def dense(self, x: str, count: int, activation: str = "") -> str:
        depth = self.channels(x)
        gain = math.sqrt((2.0 if activation else 1.0) / depth)
        weights = self.random(count, depth, deviation=gain)
        inputs = [x, weights, self.random(count, deviation=0.1)]
        return self.activate(self.node("Gemm", inputs, (1, count), transB=1), activation)

    def finish(self, x: str) -> onnx.ModelProto:
        """The model, its input called "input" and its output "output"."""
        self.nodes.append(helper.make_node("Identity", [x], ["output"], name="output"))
        ends = [
            helper.make_tensor_value_info(name, TensorProto.FLOAT, shape)
            for name, shape in (("input", self.shapes["input"]), ("output", self.shapes[x]))
        ]
        graph = helper.make_graph(self.nodes, self.name, ends[:1], ends[1:], self.constants)
        opset = [helper.make_opsetid("", OPSET)]
        model = helper.make_model(graph, opset_imports=opset, ir_version=IR_VERSION)
        onnx.checker.check_model(model)
        return model
