# SPDX-License-Identifier: Apache-2.0
""".tflite files that keep the latest rows of tensors in variables, as exporters of streaming models
write them."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from tflite_micro.tensorflow.lite.micro.python import schema_py_generated as schema

from builders.tflite_models import TfliteModel

# Of STRIDED_SLICE: all of each axis but the second from the start, and to the end.
ALL_BUT_ROWS, TO_THE_END = 0b1101, 0b1111


class StatefulModel(TfliteModel):
    """A second subgraph gives variables their first values. begin: those, the zero point where it
    is None; kept: rows that are written to a variable are taken from so many before the end, those
    that it has where it is None."""

    begin: int | None = None
    kept: int | None = None

    def __init__(self, seed: int = 0):
        super().__init__(seed)
        self.once = schema.SubGraphT()
        self.once.tensors, self.once.operators = [], []
        self.once.inputs, self.once.outputs = [], []
        self.model.subgraphs.append(self.once)
        options = schema.CallOnceOptionsT()
        options.initSubgraphIndex = 1
        self._put(self.graph, "CALL_ONCE", [], [], options, "CallOnceOptions")

    def latest(self, x: int, rows: int) -> int:
        """So many rows of earlier calls and the new ones behind them."""
        name = f"variable{len(self.once.operators)}".encode()
        tensor = self.graph.tensors[x]
        _, height, width, channels = tensor.shape
        handle = self._handle(self.graph, name)
        before = self.like(x, (1, rows, width, channels))
        self._put(self.graph, "READ_VARIABLE", [handle], [before], schema.ReadVariableOptionsT())
        joined = self.like(x, (1, rows + height, width, channels))
        self.op("CONCATENATION", [before, x], joined, "Concatenation", axis=1)
        last = self.tail(joined, rows if self.kept is None else self.kept, rows)
        options = schema.AssignVariableOptionsT()
        self._put(self.graph, "ASSIGN_VARIABLE", [handle, last], [], options)
        zero = int(tensor.quantization.zeroPoint[0]) if self.begin is None else self.begin
        self._beginning(name, before, np.full((1, rows, width, channels), zero, np.int8))
        return joined

    def remembered(self, x: int, name: str, shape: Sequence[int], begin: int | None = None) -> int:
        """What was assigned to a variable, with the quantisation of `x`: all bytes are `begin`, the
        zero point where it is None, in the first call."""
        out = self.like(x, shape)
        handle = self._handle(self.graph, name.encode())
        self._put(self.graph, "READ_VARIABLE", [handle], [out], schema.ReadVariableOptionsT())
        zero = int(self.graph.tensors[x].quantization.zeroPoint[0]) if begin is None else begin
        self._beginning(name.encode(), out, np.full(shape, zero, np.int8))
        return out

    def assigned(self, name: str, value: int) -> None:
        """ASSIGN_VARIABLE by a handle of its own."""
        handle = self._handle(self.graph, name.encode())
        options = schema.AssignVariableOptionsT()
        self._put(self.graph, "ASSIGN_VARIABLE", [handle, value], [], options)

    def again(self, name: str, like: int) -> int:
        """READ_VARIABLE once more, by another handle."""
        handle = self._handle(self.graph, name.encode())
        out = self.like(like, self.graph.tensors[like].shape)
        self._put(self.graph, "READ_VARIABLE", [handle], [out], schema.ReadVariableOptionsT())
        return out

    def tail(self, x: int, back: int, rows: int) -> int:
        """`rows` rows from so many before the end on."""
        _, _, width, channels = self.graph.tensors[x].shape
        begin, end = [0, -back, 0, 0], [0, rows - back, 0, 0]
        constants = [self.constant(np.array(v, np.int32)) for v in (begin, end, [1] * 4)]
        out = self.like(x, (1, rows, width, channels))
        mask = TO_THE_END if back == rows else ALL_BUT_ROWS
        options = {"beginMask": ALL_BUT_ROWS, "endMask": mask}
        return self.op("STRIDED_SLICE", [x, *constants], out, "StridedSlice", **options)

    def _beginning(self, name: bytes, like: int, values: np.ndarray) -> None:
        handle = self._handle(self.once, name)
        index = self.constant(values, [float(self.scale(like)[0])])
        tensor = self.graph.tensors.pop(index)
        tensor.quantization = self.graph.tensors[like].quantization
        self.once.tensors.append(tensor)
        ends = [handle, len(self.once.tensors) - 1]
        self._put(self.once, "ASSIGN_VARIABLE", ends, [], schema.AssignVariableOptionsT())

    def _handle(self, graph: schema.SubGraphT, name: bytes) -> int:
        tensor = schema.TensorT()
        tensor.name, tensor.shape, tensor.type = b"handle " + name, [], schema.TensorType.RESOURCE
        tensor.buffer = 0
        graph.tensors.append(tensor)
        options = schema.VarHandleOptionsT()
        options.sharedName, options.container = name, b""
        self._put(graph, "VAR_HANDLE", [], [len(graph.tensors) - 1], options)
        return len(graph.tensors) - 1

    def _put(self, graph, name: str, inputs, outputs, options, kind: str = "") -> None:
        kind = kind or type(options).__name__.removesuffix("T")
        self.put(graph, name, inputs, outputs, options, kind)

    def convolved(
        self, x: int, count: int, kernel: int, stride: int = 1, across: bool = False
    ) -> int:
        """CONV_2D over rows alone, or, `across`, over columns alone, "valid"."""
        _, height, width, channels = self.graph.tensors[x].shape
        taps = (1, kernel) if across else (kernel, 1)
        weights = self._weights((count, *taps, channels), count, 0, x)
        size = (height, width - kernel + 1) if across else ((height - kernel) // stride + 1, width)
        out = self._answer((1, *size, count), kernel * channels)
        options = {"padding": 1, "strideH": stride, "strideW": 1}
        return self.op("CONV_2D", [x, *weights], out, "Conv2D", **options)

    def reshaped(self, x: int, shape) -> int:
        """RESHAPE."""
        out, to = self.like(x, shape), self.constant(np.array(shape, np.int32))
        return self.op("RESHAPE", [x, to], out, "Reshape", newShape=list(shape))

    def each(self, x: int, kernel: int, like: int | None = None) -> int:
        """DEPTHWISE_CONV_2D over rows alone, "valid"; with the quantisation of `like`."""
        _, height, width, channels = self.graph.tensors[x].shape
        weights = self._weights((1, kernel, 1, channels), channels, 3, x)
        shape = (1, height - kernel + 1, width, channels)
        out = self._answer(shape, kernel) if like is None else self.like(like, shape)
        options = {"padding": 1, "strideH": 1, "strideW": 1, "depthMultiplier": 1}
        return self.op("DEPTHWISE_CONV_2D", [x, *weights], out, "DepthwiseConv2D", **options)

    def halves(self, x: int) -> tuple[int, int]:
        """SPLIT of the channels."""
        _, height, width, channels = self.graph.tensors[x].shape
        ends = [self.like(x, (1, height, width, channels // 2)) for _ in range(2)]
        axis = self.constant(np.array(3, np.int32))
        self.op("SPLIT", [axis, x], ends[0], "Split", numSplits=2)
        self.graph.operators[-1].outputs = ends
        return ends[0], ends[1]

    def dense(self, x: int, count: int) -> int:
        """RESHAPE to a vector, and FULLY_CONNECTED."""
        size = int(np.prod(self.graph.tensors[x].shape))
        flat = self.reshaped(x, (1, size))
        weights = self._weights((count, size), 1, 0, flat, count)
        out = self._answer((1, count), size)
        return self.op("FULLY_CONNECTED", [flat, *weights], out, "FullyConnected")

    def _weights(self, shape, scales: int, axis: int, x: int, biases: int = 0) -> list[int]:
        values = self.rng.integers(-127, 128, shape).astype(np.int8)
        factors = self.rng.uniform(0.005, 0.01, scales).astype(np.float32)
        bias = self.rng.integers(-3000, 3000, biases or scales).astype(np.int32)
        product = self.scale(x)[0] * factors
        return [self.constant(values, factors, axis), self.constant(bias, product, 0)]

    def _answer(self, shape, depth: int) -> int:
        return self.activation(shape, 0.05 * 0.0075 * 70 * np.sqrt(depth) * 1.2)
