# SPDX-License-Identifier: Apache-2.0
"""Takes a quantised ONNX model back to float32: weights become scale * (q - zero point), and
operators on integers those on the float values that the integers stand for."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Sequence

import numpy as np
import onnx
from onnx import NodeProto, TensorProto, helper, numpy_helper

from ..frontends.common import UnsupportedError, naming, parsing
from ..frontends.onnx.attributes import attributes_of
from ..frontends.onnx.evaluation import evaluate
from ..frontends.onnx.in_float import is_quantised
from ..frontends.onnx.node_writer import replace_nodes
from .qoperators import spell_qoperators

_BYTES = (np.int8, np.uint8)
_PRODUCTS = {"MatMulInteger": "MatMul", "ConvInteger": "Conv"}
_STEPS, _REAL = "/steps", "/real"
# Operators whose results are never negative; if all operands are none; if the first one is none.
_POSITIVE = {"Relu", "Sigmoid", "HardSigmoid", "Softmax", "Abs", "Sqrt", "Exp", "Softplus"}
_POSITIVE |= {"ReduceL1", "ReduceL2", "ReduceSumSquare"}
_SUMS = {"Add", "Mul", "Div", "Max", "Min", "Reciprocal", "Sum", "Mean", "Concat", "Where"}
_MOVES = {"Reshape", "Transpose", "Flatten", "Squeeze", "Unsqueeze", "Identity"}
_PARTS = {"Slice", "Split", "Gather", "Expand", "Resize", "ReduceMean", "ReduceSum", "ReduceMax"}
_PARTS |= {"MaxPool", "AveragePool", "GlobalAveragePool", "GlobalMaxPool", "Pow", "Clip", *_MOVES}
_NO_FLOAT = "vmcu cannot take this operator back to float"
_AGAIN = "start from the float model, or quantise it with QuantFormat.QDQ"


def dequantise(model: onnx.ModelProto, file: str) -> dict[str, float]:
    """Rewrites a model in place; weights of 4 bits and in blocks stay. Returns by name
    the scales of weights that were int8 around zero with one scale.

    Raises UserError, of the file `file`, for an operator without a float form."""
    with parsing(file):
        spell_qoperators(model.graph)
        undo = _Undo(model)
        rules: dict[str, Callable[[NodeProto], None]] = {
            "DynamicQuantizeLinear": undo.dynamic,
            "QuantizeLinear": undo.quantize,
            "DequantizeLinear": undo.dequantize,
            **dict.fromkeys(_PRODUCTS, undo.product),
            "MatMulIntegerToFloat": undo.fused,
            "DynamicQuantizeMatMul": undo.fused,
            "DynamicQuantizeLSTM": undo.lstm,
        }
        if rules.keys().isdisjoint(node.op_type for node in model.graph.node):
            return {}
        rules |= {"Mul": undo.scaled, "Cast": undo.cast, "Constant": undo.stated}
        for node in model.graph.node:
            with naming(node.name or node.output[0], node.op_type):
                rules.get(node.op_type, undo.other)(node)
        undo.finish()
    return undo.scales


class _Undo:
    """constants: values by name; alias: names of float values by those of integers that stand for
    them; made: written nodes by name of their results; products: those whose weights are integers
    so far; tables: nodes that pick integers of a constant, by name of their results; uses: how many
    nodes read a name; _steps: scale and zero point by name of quantised values."""

    def __init__(self, model: onnx.ModelProto):
        self.graph = model.graph
        self.opset = max((o.version for o in model.opset_import if not o.domain), default=1)
        self.constants = {t.name: numpy_helper.to_array(t) for t in self.graph.initializer}
        self.alias: dict[str, str] = {}
        self.made: dict[str, NodeProto] = {}
        self.tables: dict[str, NodeProto] = {}
        self.nodes: list[NodeProto] = []
        self.products: dict[str, NodeProto] = {}
        self.scales: dict[str, float] = {}
        names = [name for node in self.graph.node for name in node.input]
        self.uses = Counter([*names, *(value.name for value in self.graph.output)])
        self._steps: dict[str, Sequence[str]] = {}
        self._positive: set[str] = set()

    def keep(self, node: NodeProto) -> None:
        """Writes a node, whose operands become float values."""
        node.input[:] = [self.alias.get(name, name) for name in node.input]
        self.nodes.append(node)
        self.made.update(dict.fromkeys(node.output, node))
        self._learn_sign(node)

    def add(self, op: str, inputs: Sequence[str], output: str, node: NodeProto) -> NodeProto:
        """Writes an operator in place of `node`, with its attributes."""
        self.keep(helper.make_node(op, inputs, [output], node.name or output))
        self.nodes[-1].attribute.extend(node.attribute)
        return self.nodes[-1]

    def constant(self, name: str, array: np.ndarray) -> str:
        """A constant of that name, or of a longer one if there is another of it."""
        while name in self.constants and not np.array_equal(self.constants[name], array):
            name += "/again"
        self.constants[name] = array
        return name

    def given(self, node: NodeProto, place: int) -> np.ndarray | None:
        """A constant operand, if there is one."""
        name = node.input[place] if 0 <= place < len(node.input) else ""
        return self.constants.get(self.alias.get(name, name))

    def weights(self, node: NodeProto, places: tuple[int, int, int], axis: int) -> np.ndarray:
        """The values of constant integers. places: of those, of scale and zero point; without a
        place the scale is one. axis: of scales and zero points of channels."""
        ints = self.given(node, places[0])
        scale, zero = (self.given(node, place) for place in places[1:])
        if ints is None or ints.dtype.kind not in "iu":
            raise UnsupportedError(_NO_FLOAT, _AGAIN)
        zero = np.zeros(1, np.int32) if zero is None else zero.astype(np.int32)
        scale = np.ones(1, np.float32) if scale is None else scale.astype(np.float32)
        centred = ints.astype(np.int32) - _along(zero, ints.shape, axis)
        return np.asarray(centred * _along(scale, ints.shape, axis), np.float32)

    def real(self, node: NodeProto, places: tuple[int, int, int], axis: int, name: str) -> str:
        """The name of weights() as a constant, whose scale it records if there is one."""
        values = self.weights(node, places, axis)
        name = self.constant(name, values)
        scale = self.given(node, places[1])
        scale = np.ones(1, np.float32) if scale is None else scale
        if scale.size == 1 and abs(values).max(initial=0) < 127.5 * scale.ravel()[0]:
            self.scales[name] = float(scale.ravel()[0])
        return name

    def dynamic(self, node: NodeProto) -> None:
        """Values that are quantised at run time stay as they are: their scale is one here."""
        self.alias[node.output[0]] = self.alias.get(node.input[0], node.input[0])
        arrays = np.ones((), np.float32), np.zeros((), np.uint8)
        self.constants.update(zip(node.output[1:], arrays, strict=False))

    def quantize(self, node: NodeProto) -> None:
        """Where the integers begin at zero, they cut off negative values, as a Relu or Clip does
        that quantisers leave out therefore."""
        name = self.alias.get(node.input[0], node.input[0])
        scale, zero = self.given(node, 1), self.given(node, 2)
        zero = np.zeros(1, np.uint8) if zero is None else zero
        self.alias[node.output[0]] = name
        self._steps[node.output[0]] = node.input[1:3]
        if scale is None or zero.dtype.kind not in "iu" or name not in self.made:
            return
        lowest, highest = np.iinfo(zero.dtype).min, np.iinfo(zero.dtype).max
        if zero.size != 1 or zero.ravel()[0] != lowest or name in self._positive:
            return
        most = np.float32(scale.ravel()[0]) * np.float32(int(highest) - int(lowest))
        limits = {"least": np.zeros((), np.float32), "most": np.array(most, np.float32)}
        bounds = [self.constant(f"{name}/{what}", array) for what, array in limits.items()]
        clip = helper.make_node("Clip", [name, *bounds], [f"{name}/cut"])
        self.keep(clip)
        self.alias[node.output[0]] = clip.output[0]

    def dequantize(self, node: NodeProto) -> None:
        ints, given = self.given(node, 0), attributes_of(node)
        if ints is not None and ints.dtype.kind != "f":
            if ints.dtype.kind not in "iu" or given.get("block_size"):
                self.keep(node)
            else:
                self.real(node, (0, 1, 2), given.get("axis", 1), node.output[0])
        elif node.input[0] in self.tables:
            self.alias[node.output[0]] = self.picked(node, (0, 1, 2))
        else:
            self.alias[node.output[0]] = self.alias.get(node.input[0], node.input[0])

    def picked(self, node: NodeProto, places: tuple[int, int, int]) -> str:
        """The float form of a node that picks integers of a constant, which `node` reads."""
        table = self.tables[node.input[places[0]]]
        reads = onnx.NodeProto(input=node.input)
        reads.input[places[0]] = table.input[0]
        kind = _REAL if places[1] >= 0 else _STEPS
        name = self.constant(f"{table.input[0]}{kind}", self.weights(reads, places, 0))
        output = f"{table.output[0]}{kind}"
        if output not in self.made:
            self.add(table.op_type, [name, *table.input[1:]], output, table)
        return output

    def product(self, node: NodeProto) -> None:
        """A product of integers. Its weights are integers until their scale is known."""
        axis = 0 if node.op_type == "ConvInteger" else -1
        inputs = list(node.input[:2])
        for place, name in enumerate(inputs):
            places = place, -1, place + 2
            if name in self._steps:
                raise UnsupportedError(_NO_FLOAT, _AGAIN)
            if name in self.tables:
                inputs[place] = self.picked(node, places)
            elif name not in self.alias:
                inputs[place] = self.real(node, places, axis, f"{name}{_STEPS}")
        result = node.output[0]
        self.products[result] = self.add(_PRODUCTS[node.op_type], inputs, result, node)

    def cast(self, node: NodeProto) -> None:
        """Integers that stand for float values need no conversion."""
        name, result = node.input[0], node.output[0]
        if name in self.products:
            self.uses[name] += self.uses[result] - 1
            self.alias[result] = name
        else:
            self.other(node)

    def scaled(self, node: NodeProto) -> None:
        """A product times the scale of its weights becomes a product with weights of that scale."""
        first, second = (self.given(node, place) for place in range(2))
        if first is not None and second is not None and min(first.size, second.size) == 1:
            self.constants[node.output[0]] = np.multiply(first, second)
            return
        name, scale = (node.input[0], second) if first is None else (node.input[1], first)
        product = self.products.get(self.alias.get(name, name))
        if product is None or scale is None or self.uses[product.output[0]] != 1:
            self.other(node)
            return
        steps = product.input[1]
        ints, axis = self.constants[steps], 0 if product.op_type == "Conv" else -1
        array = (ints * _along(scale, ints.shape, axis)).astype(np.float32)
        product.input[1] = self.constant(steps.removesuffix(_STEPS) + _REAL, array)
        if steps in self.scales and scale.size == 1:
            self.scales[product.input[1]] = float(scale.ravel()[0])
        product.output[0] = node.output[0]
        self.made[node.output[0]] = product

    def fused(self, node: NodeProto) -> None:
        """A product of ONNX Runtime's, with the scale and the bias in it."""
        places = (1, 3, 5) if node.op_type == "MatMulIntegerToFloat" else (1, 2, 3)
        result, bias = node.output[0], node.input[places[2] + 1 :]
        weights = self.real(node, places, -1, f"{node.input[1]}{_REAL}")
        product = f"{result}/product" if any(bias) else result
        self.add("MatMul", [node.input[0], weights], product, node)
        if any(bias):
            self.keep(helper.make_node("Add", [product, *bias], [result], f"{result}/sum"))

    def lstm(self, node: NodeProto) -> None:
        """ONNX Runtime's LSTM, whose weights are transposed."""
        inputs = list(node.input[:8])
        for place, scale in ((1, 8), (2, 10)):
            ints = self.constants[node.input[place]]
            # Scales are one for each direction, or for each of its columns.
            columns = NodeProto(input=[node.input[place], *node.input[scale : scale + 2]])
            for one in (1, 2):
                array = self.given(columns, one)
                if array is not None:
                    wide = np.broadcast_to(array.reshape(len(ints), 1, -1), ints.shape)
                    columns.input[one] = self.constant(f"{columns.input[one]}/wide", wide)
            values = self.weights(columns, (0, 1, 2), 0).transpose(0, 2, 1)
            inputs[place] = self.constant(f"{node.input[place]}{_REAL}", values)
        while not inputs[-1]:
            inputs.pop()
        made = self.add("LSTM", inputs, node.output[0], node)
        made.output.extend(node.output[1:])

    def stated(self, node: NodeProto) -> None:
        given = attributes_of(node)
        if "value" in given:
            self.constants[node.output[0]] = numpy_helper.to_array(given["value"])
        else:
            self.keep(node)

    def other(self, node: NodeProto) -> None:
        """An operator on values, or on constant integers or on integers that stand for values."""
        if is_quantised(node.op_type):
            raise UnsupportedError(_NO_FLOAT, _AGAIN)
        first = self.given(node, 0)
        if first is not None and first.dtype in _BYTES:
            arrays = {n: self.constants[n] for n in node.input if n in self.constants}
            if node.op_type in _MOVES and len(arrays) == len(node.input):
                self.constants[node.output[0]] = evaluate(node, arrays, self.opset)[0]
                return
            if node.op_type == "Gather":
                self.tables[node.output[0]] = node
                return
        limits = [self.given(node, place) for place in (1, 2)]
        if node.op_type == "Clip" and any(a is not None and a.dtype in _BYTES for a in limits):
            # It narrows the integers between Q and DQ.
            self.alias[node.output[0]] = self.alias.get(node.input[0], node.input[0])
            return
        steps = self._steps.get(node.input[0]) if node.input else None
        if steps is not None:
            # The integers move, and a Pad adds others of the same scale.
            self._steps.update(dict.fromkeys(node.output, steps))
            if node.op_type == "Pad" and limits[1] is not None:
                added = NodeProto(input=[node.input[2], *steps])
                values = self.weights(added, (0, 1, 2), 0)
                node.input[2] = self.constant(f"{node.output[0]}/value", values)
        self.keep(node)

    def _learn_sign(self, node: NodeProto) -> None:
        """Adds the results of a node that are never negative."""

        def positive(place: int) -> bool:
            array = self.given(node, place)
            name = node.input[place]
            return name in self._positive if array is None else bool(array.min(initial=0) >= 0)

        def limited() -> bool:
            return node.op_type == "Clip" and self.given(node, 1) is not None and positive(1)

        square = node.op_type == "Mul" and node.input[0] == node.input[1]
        power = self.given(node, 1) if node.op_type == "Pow" else None
        square |= power is not None and bool((power % 2 == 0).all())
        always = node.op_type in _POSITIVE or square or limited()
        places = range(len(node.input)) if node.op_type in _SUMS else range(1)
        if always or (node.op_type in _SUMS | _PARTS and all(positive(p) for p in places)):
            self._positive.update(node.output)

    def finish(self) -> None:
        """Writes the nodes, and of the constants those that are read."""
        for value in self.graph.output:
            source = self.alias.get(value.name, value.name)
            if source != value.name or value.name not in self.made:
                self.keep(helper.make_node("Identity", [source], [value.name], value.name))
                value.type.tensor_type.elem_type = TensorProto.FLOAT
        replace_nodes(self.graph, self.nodes)
        read = {name for node in self.nodes for name in node.input}
        old = {t.name: t for t in self.graph.initializer if t.name in read}
        made = [
            old[name] if name in old else numpy_helper.from_array(np.asarray(array), name)
            for name, array in self.constants.items()
            if name in read
        ]
        del self.graph.initializer[:]
        self.graph.initializer.extend(made)


def _along(values: np.ndarray, shape: tuple[int, ...], axis: int) -> np.ndarray:
    """One number, or one for each channel, as an array of that shape, which it may have already.
    Raises ValueError for another number of them."""
    sizes = [1] * len(shape)
    if values.size > 1:
        sizes[axis] = -1
    return np.broadcast_to(values if values.ndim == len(shape) else values.reshape(sizes), shape)
