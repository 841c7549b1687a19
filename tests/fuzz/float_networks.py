# SPDX-License-Identifier: Apache-2.0
"""Random float .onnx networks: any operator on any tensor, also those that no int8 form is known
of, with constants as operands, several outputs, several inputs and layers that share weights."""

from __future__ import annotations

import math

import numpy as np
import onnx
from onnx import TensorProto, helper, numpy_helper

Shape = tuple[int, ...]
_MOST = 4096
# Drawn from, more often if listed twice.
_UNARY: tuple[str, ...] = ("Abs", "Acos", "Asin", "Asinh", "Atan", "Ceil", "Celu", "Cos", "Cosh")
_UNARY += ("Elu", "Erf", "Exp", "Floor", "Gelu", "HardSigmoid", "HardSwish", "LeakyRelu", "Log")
_UNARY += ("Mish", "Neg", "Reciprocal", "Relu", "Round", "Selu", "Shrink", "Sigmoid", "Sign", "Sin")
_UNARY += ("Sinh", "Softplus", "Softsign", "Sqrt", "Tan", "Tanh", "ThresholdedRelu", "Identity")
_SINCE = {"Gelu": 20, "Mish": 18, "HardSwish": 14}
_BINARY = ("Add", "Add", "Sub", "Mul", "Mul", "Div", "Min", "Max", "Pow", "PRelu", "Mod")
_COMPARE = ("Greater", "GreaterOrEqual", "Less", "LessOrEqual", "Equal")
_REDUCE: tuple[str, ...] = ("ReduceMean", "ReduceMean", "ReduceSum", "ReduceMax", "ReduceMin")
_REDUCE += ("ReduceL1", "ReduceL2", "ReduceProd", "ReduceLogSum", "ReduceLogSumExp")
_REDUCE += ("ReduceSumSquare",)
_UNUSUAL: tuple[str, ...] = ("LRN", "CumSum", "Einsum", "LSTM", "GRU", "RNN", "TopK", "Trilu")
_UNUSUAL += ("Sum", "Mean", "MeanVarianceNormalization", "SVMClassifier", "Hardmax", "Det", "IsNaN")
_UNUSUAL += ("Dropout",)


class FloatNetwork:
    """The same seed draws the same network, of up to `layers` layers."""

    def __init__(self, seed: int, layers: int = 8):
        self.rng = np.random.default_rng(seed)
        self.opset = self.pick(13, 17, 18, 20)
        self.nodes: list[onnx.NodeProto] = []
        self.constants: dict[str, np.ndarray] = {}
        self.shapes: dict[str, Shape] = {}
        self.weights: dict[Shape, list[str]] = {}
        self.inputs = [self._input() for _ in range(self.pick(1, 1, 1, 2))]
        drawn = (self._unary, self._unary, self._binary, self._binary, self._layer, self._layer)
        drawn += (self._layer, self._dense, self._dense, self._move, self._move, self._reduce)
        drawn += (self._norm, self._joined, self._product, self._compared, self._clip)
        for _ in range(int(self.rng.integers(1, layers + 1))):
            draw = self._unusual if self.rng.random() < 0.02 else drawn[self.index(len(drawn))]
            draw()

    def pick(self, *values):
        return values[self.index(len(values))]

    def index(self, count: int) -> int:
        return int(self.rng.integers(count))

    def any(self) -> str:
        """A value, rather a late one."""
        names = list(self.shapes)
        return names[-1 - min(self.index(len(names)), self.index(len(names)))]

    def _input(self) -> str:
        side = self.pick(4, 5, 8)
        shapes = (1, self.pick(1, 3, 4), side, side), (1, self.pick(2, 4), 12), (1, self.pick(4, 9))
        name = f"x{len(self.shapes)}"
        self.shapes[name] = self.pick(*shapes, (1, 5, 8))
        return name

    def constant(self, array) -> str:
        name = f"k{len(self.constants)}"
        self.constants[name] = np.asarray(array)
        return name

    def real(self, *shape: int) -> str:
        return self.constant(self.rng.normal(size=shape).astype(np.float32))

    def ints(self, *values: int) -> str:
        return self.constant(np.array(values, np.int64))

    def node(self, op: str, inputs, outputs: int = 1, **attributes) -> list[str]:
        """Adds a node if onnx knows the shapes of its results, and they are small."""
        number = len(self.nodes)
        names = [f"{op}_{number}_{i}" for i in range(outputs)]
        node = helper.make_node(op, list(inputs), names, f"n{number}", **attributes)
        shapes = self._inferred(node)
        if shapes is None:
            return []
        self.nodes.append(node)
        self.shapes |= dict(zip(names, shapes, strict=True))
        return names

    def _inferred(self, node: onnx.NodeProto) -> list[Shape] | None:
        given = [
            helper.make_tensor_value_info(name, TensorProto.FLOAT, self.shapes[name])
            for name in dict.fromkeys(node.input)
            if name in self.shapes
        ]
        model = self._model([node], given, [onnx.ValueInfoProto(name=n) for n in node.output])
        try:
            found = onnx.shape_inference.infer_shapes(model, strict_mode=True, data_prop=True)
        except onnx.shape_inference.InferenceError:
            return None
        shapes = []
        for value in found.graph.output:
            kind = value.type.tensor_type
            shape = tuple(d.dim_value for d in kind.shape.dim)
            if not kind.HasField("shape") or not 0 < math.prod(shape) <= _MOST:
                return None
            shapes.append(shape if kind.elem_type == TensorProto.FLOAT else ())
        return shapes

    def _model(self, nodes, inputs, outputs) -> onnx.ModelProto:
        used = {name for node in nodes for name in node.input}
        arrays = [
            numpy_helper.from_array(a, name) for name, a in self.constants.items() if name in used
        ]
        graph = helper.make_graph(nodes, "network", inputs, outputs, arrays)
        opsets = [helper.make_opsetid("", self.opset), helper.make_opsetid("ai.onnx.ml", 3)]
        return helper.make_model(graph, opset_imports=opsets, ir_version=9)

    def model(self) -> onnx.ModelProto:
        """With every float value that nothing reads as an output, and some more."""
        read = {name for node in self.nodes for name in node.input}
        made = [name for node in self.nodes for name in node.output]
        ends = [name for name in made if name not in read or self.rng.random() < 0.05]
        given = [
            helper.make_tensor_value_info(name, TensorProto.FLOAT, self.shapes[name])
            for name in self.inputs
            if name in read
        ]
        outputs = [onnx.ValueInfoProto(name=name) for name in ends]
        return onnx.shape_inference.infer_shapes(self._model(self.nodes, given, outputs))

    def samples(self, count: int = 4) -> list[dict[str, np.ndarray]]:
        return [
            {
                name: self.rng.normal(size=self.shapes[name]).astype(np.float32)
                for name in self.inputs
            }
            for _ in range(count)
        ]

    def of_rank(self, *ranks: int) -> str:
        names = [name for name, shape in self.shapes.items() if len(shape) in ranks]
        return names[-1 - min(self.index(len(names)), self.index(len(names)))] if names else ""

    def _unary(self) -> None:
        op = _UNARY[self.index(len(_UNARY))]
        if op in ("Gelu", "Mish", "HardSwish") and self.opset < {"HardSwish": 14, "Mish": 18}.get(
            op, 20
        ):
            op = "Relu"
        self.node(op, [self.any()])

    def _clip(self) -> None:
        low = self.pick(-1.0, 0.0, -0.33)
        bounds = [self.constant(np.float32(v)) for v in (low, low + self.pick(0.5, 1.7, 6.0))]
        self.node("Clip", [self.any(), *bounds])

    def _binary(self) -> None:
        op, x = _BINARY[self.index(len(_BINARY))], self.any()
        shape = self.shapes[x]
        channels = (1, shape[1], *[1] * (len(shape) - 2)) if len(shape) > 1 else shape
        same = [name for name, other in self.shapes.items() if other == shape]
        constants = ((), shape[-1:], shape, channels, (1, *shape), (*shape[:-1], 1))
        kind = self.index(3)
        if kind == 0 or op == "PRelu":
            other = self.real(*self.pick(*constants))
        elif kind == 1:
            other = same[self.index(len(same))]
        else:
            other = self.any()
        self.node(
            op,
            [x, other] if self.index(3) or op == "PRelu" else [other, x],
            **({"fmod": 1} if op == "Mod" else {}),
        )

    def _compared(self) -> None:
        x = self.any()
        y = self.node(_COMPARE[self.index(len(_COMPARE))], [x, self.constant(np.float32(0.2))])
        if y and self.index(2):
            self.node("Where", [*y, x, self.constant(np.float32(-0.5))])
        elif y:
            self.node("Cast", y, to=TensorProto.FLOAT)
        self.shapes = {name: shape for name, shape in self.shapes.items() if name not in y}

    def _layer(self) -> None:
        x = self.of_rank(3, 4)
        if not x:
            return
        shape = self.shapes[x]
        axes = len(shape) - 2
        kernel = [self.pick(1, 2, 3) for _ in range(axes)]
        strides, pads = [self.pick(1, 1, 2)] * axes, [self.pick(0, 1)] * 2 * axes
        kind = self.index(7)
        window = {"kernel_shape": kernel, "strides": strides, "pads": pads}
        if kind < 3:
            groups = self.pick(1, 1, shape[1])
            count = groups * self.pick(1, 2, 4)
            found = (count, shape[1] // groups, *kernel)
            weights = self.weights.setdefault(found, [self.real(*found), self.real(count)])
            more = {"dilations": [self.pick(1, 1, 2)] * axes, "group": groups}
            self.node("Conv", [x, *weights[: self.pick(1, 2, 2)]], **window, **more)
        elif kind == 3:
            self.node("ConvTranspose", [x, self.real(shape[1], self.pick(1, 3), *kernel)], **window)
        elif kind == 4:
            self.node("MaxPool", [x], **window)
        elif kind == 5:
            self.node("AveragePool", [x], **window, count_include_pad=self.index(2))
        else:
            self.node(self.pick("GlobalAveragePool", "GlobalMaxPool"), [x])

    def _dense(self) -> None:
        x = self.any()
        shape = self.shapes[x]
        if not shape:
            return
        count = self.pick(1, 3, 6)
        if len(shape) == 2 and self.index(2):
            given = [x, self.real(count, shape[1]), self.real(*self.pick((count,), (1, count), ()))]
            factors = {"alpha": self.pick(1.0, 1.0, 0.5), "beta": self.pick(1.0, 1.0, 2.0)}
            self.node("Gemm", given, transB=1, **factors)
            return
        y = self.node("MatMul", [x, self.real(shape[-1], count)])
        if y and self.index(2):
            self.node("Add", [*y, self.real(count)])

    def _product(self) -> None:
        x, y = self.any(), self.any()
        self.node("MatMul", [x, y])

    def _norm(self) -> None:
        x = self.any()
        shape = self.shapes[x]
        if not shape:
            return
        axis, kind = self.index(len(shape)), self.index(5)
        if kind == 0 and self.opset >= 17:
            self.node("LayerNormalization", [x, self.real(shape[-1]), self.real(shape[-1])])
        elif kind == 1:
            self.node("LpNormalization", [x], axis=axis, p=self.pick(2, 2, 2, 1))
        elif kind == 2 and len(shape) > 2:
            channels = [self.real(shape[1]) for _ in range(2)]
            self.node("InstanceNormalization", [x, *channels])
        elif kind == 3 and len(shape) > 1:
            parts = [self.real(shape[1]) for _ in range(3)]
            spread = self.constant(self.rng.uniform(0.5, 2, shape[1]).astype(np.float32))
            self.node("BatchNormalization", [x, *parts, spread])
        else:
            self.node(self.pick("Softmax", "Softmax", "LogSoftmax"), [x], axis=axis)

    def _reduce(self) -> None:
        x, op = self.any(), _REDUCE[self.index(len(_REDUCE))]
        rank = len(self.shapes[x])
        if not rank:
            return
        axes = sorted({self.index(rank) for _ in range(self.pick(1, 1, 2))})
        keep = self.index(2)
        if self.opset >= 18 or op == "ReduceSum":
            self.node(op, [x, self.ints(*axes)], keepdims=keep)
        else:
            self.node(op, [x], axes=axes, keepdims=keep)

    def _joined(self) -> None:
        x = self.any()
        shape = self.shapes[x]
        if not shape:
            return
        axis = self.index(len(shape))
        fits = [
            name
            for name, other in self.shapes.items()
            if len(other) == len(shape)
            and all(a == b for i, (a, b) in enumerate(zip(shape, other, strict=True)) if i != axis)
        ]
        parts = [fits[self.index(len(fits))] for _ in range(self.pick(1, 2))]
        if self.index(3) == 0:
            parts.append(self.real(*(1 if i == axis else d for i, d in enumerate(shape))))
        parts.insert(self.index(len(parts) + 1), x)
        self.node("Concat", parts, axis=axis)

    def _move(self) -> None:
        x = self.any()
        shape = self.shapes[x]
        rank = len(shape)
        if not rank:
            return
        axis, kind = self.index(rank), self.index(10)
        size = shape[axis]
        if kind == 0:
            self.node("Transpose", [x], perm=[int(i) for i in self.rng.permutation(rank)])
        elif kind == 1:
            self.node("Reshape", [x, self.ints(1, -1)])
        elif kind == 2:
            self.node("Slice", [x, self.ints(0), self.ints(max(size // 2, 1)), self.ints(axis)])
        elif kind == 3 and size > 1:
            first = self.index(size - 1) + 1
            self.node("Split", [x, self.ints(first, size - first)], 2, axis=axis)
        elif kind == 4:
            self.node("Gather", [x, self.constant(np.int64(self.index(size)))], axis=axis)
        elif kind == 5:
            self.node("Unsqueeze", [x, self.ints(axis)])
        elif kind == 6:
            self.node("Tile", [x, self.ints(*(2 if i == axis else 1 for i in range(rank)))])
        elif kind == 7:
            pads = [self.pick(0, 0, 1) if i % rank else 0 for i in range(2 * rank)]
            self.node("Pad", [x, self.ints(*pads)], mode=self.pick("constant", "edge"))
        elif kind == 8 and rank == 4:
            factors = self.constant(np.array([1, 1, 2, 2], np.float32))
            self.node("Resize", [x, "", factors], mode=self.pick("nearest", "linear"))
        else:
            self.node("Flatten", [x], axis=self.index(rank + 1))

    def _unusual(self) -> None:
        op, x = _UNUSUAL[self.index(len(_UNUSUAL))], self.any()
        shape = self.shapes[x]
        if op in ("LSTM", "GRU", "RNN") and len(shape) == 3:
            gates = {"LSTM": 4, "GRU": 3, "RNN": 1}[op] * 2
            given = [x, self.real(1, gates, shape[2]), self.real(1, gates, 2)]
            self.node(op, given, hidden_size=2)
        elif op == "Einsum":
            self.node(op, [x, x], equation="...,...->...")
        elif op == "CumSum":
            self.node(op, [x, self.constant(np.int64(0))])
        elif op == "TopK":
            self.node(op, [x, self.ints(1)], 2)
        elif op in ("Sum", "Mean"):
            self.node(op, [x, self.any(), x])
        elif op == "SVMClassifier":
            self.node(op, [x], 2, domain="ai.onnx.ml")
        elif op == "LRN":
            self.node(op, [x], size=3)
        else:
            self.node(op, [x])
