# SPDX-License-Identifier: Apache-2.0
"""The rewrites of a float .onnx model so that little is lost in int8, before and after
onnxruntime quantises it."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Mapping

import numpy as np
import onnx
from onnx import NodeProto, helper, numpy_helper

from ..frontends.onnx.attributes import attributes_of
from ..frontends.onnx.logic import FUNCTIONS
from ..frontends.onnx.node_writer import NodeWriter, float_tensor, replace_nodes
from ..frontends.onnx.patterns import fuse_normalisations
from .einsum import stack_product

# LayerNormalization came with 17; scales per channel need 13.
OPSET = 17
# From here down a number is no value but "never": an element that softmax leaves out. A computed
# mask is recognised by a larger one, since a scaled score may also be a product of -100.
_NEVER, _COMPUTED_NEVER = -1e2, -1e3
# exp of it is below half a step of a softmax's result.
_MARGIN = 8.0
# The terms of sums, and the function of the sum.
_NORMS = {"ReduceL1": ("Abs", ""), "ReduceL2": ("Mul", "Sqrt"), "ReduceSumSquare": ("Mul", "")}
_NORMS |= {"ReduceLogSumExp": ("Exp", "Log")}
_MASKED = ("Add", "Where")
# Layers whose third input is a bias.
WITH_BIAS = ("Conv", "ConvTranspose", "Gemm")
_MOVES = ("Reshape", "Transpose", "Squeeze", "Unsqueeze", "Flatten", "Expand", "Identity")
_HAND_ON = (*_MOVES, "Add", "Concat", "Gather", "Min", "Slice")
# onnx does not infer the type of their outputs, nor of anything behind them.
_UNTYPED = ("MatMulNBits",)
Ranges = Callable[[onnx.ModelProto, list[str]], Mapping[str, tuple[float, float]]]


def upgraded(model: onnx.ModelProto, opset: int = OPSET) -> onnx.ModelProto:
    """The model at that opset or above, if onnx knows how to convert it."""
    versions = [o.version for o in model.opset_import if o.domain in ("", "ai.onnx")]
    if not versions or max(versions) >= opset:
        return model
    try:
        return onnx.version_converter.convert_version(model, opset)
    except Exception:  # onnx's converter has no exception of its own
        return model


def prepare(model: onnx.ModelProto, ranges: Ranges) -> None:
    """Rewrites a float model whose constants are folded. ranges(model, names) tells the least and
    the greatest value of each float tensor over the calibration set."""
    for node in model.graph.node:
        if node.op_type in _UNTYPED:
            float_tensor(model.graph, node.output[0])
    fuse_normalisations(model.graph)
    _split(model.graph)
    _own_biases(model.graph)
    _limit_masks(model, ranges)


def _own_biases(graph: onnx.GraphProto) -> None:
    """Copies biases that several nodes read: onnxruntime makes them int32 only where no other
    operator reads them, and merges equal constants itself."""
    uses = Counter(_names(graph.node))
    constants = {tensor.name: tensor for tensor in graph.initializer}
    for node in graph.node:
        layer = node.op_type in WITH_BIAS and len(node.input) > 2
        if layer and node.input[2] in constants and uses[node.input[2]] > 1:
            array = numpy_helper.to_array(constants[node.input[2]])
            node.input[2] = NodeWriter(graph, node.output[0]).constant("own_bias", array)


def _split(graph: onnx.GraphProto) -> None:
    """Takes apart operators that do not exist in int8: sums and means of several tensors, norms,
    quotients of two tensors, and a Gemm whose third operand is an activation, or whose weights
    have a scale for each block. onnxruntime has merged a MatMul and an Add into that. It can
    then only compute it in float, and has no scale for the bias."""
    for node in graph.node:
        if node.op_type == "Gemm":
            _fold_factors(node, graph)
    constants = {tensor.name for tensor in graph.initializer}
    blocked = {node.output[0] for node in graph.node if attributes_of(node).get("block_size")}
    numbers = {t.name for t in graph.initializer if int(np.prod(t.dims, dtype=np.int64)) == 1}
    nodes: list[NodeProto] = []
    for node in graph.node:
        if node.op_type == "Gemm" and len(node.input) > 2:
            whole = node.input[2] in ("", *constants) and node.input[1] not in blocked
            nodes += [node] if whole else _split_gemm(node)
        elif node.op_type in ("Sum", "Mean", "Min", "Max"):
            nodes += _split_chain(node, graph)
        elif node.op_type == "LayerNormalization":
            nodes += _flattened(node, graph)
        elif node.op_type == "MatMul":
            nodes += stack_product(graph, node) or [node]
        elif node.op_type in _NORMS:
            nodes += _split_norm(node, graph)
        elif node.op_type == "Div" and not numbers.intersection(node.input):
            nodes += _split_quotient(node, graph)
        else:
            nodes.append(node)
    replace_nodes(graph, nodes)


def _fold_factors(node: NodeProto, graph: onnx.GraphProto) -> None:
    """Multiplies alpha and beta into constants, and gives each column a bias of its own:
    onnxruntime quantises no bias of another shape."""
    given = attributes_of(node)
    constants = {t.name: numpy_helper.to_array(t) for t in graph.initializer}
    weights = constants.get(node.input[1])
    if weights is None or weights.ndim != 2:
        return
    folded = {1: weights * np.float32(given.get("alpha", 1.0))}
    bias = constants.get(node.input[2]) if len(node.input) > 2 else None
    if bias is not None and bias.size == (bias.shape[-1] if bias.ndim else 1):
        count = weights.shape[0 if given.get("transB") else 1]
        folded[2] = np.broadcast_to(bias.ravel() * np.float32(given.get("beta", 1.0)), count)
    for place, array in folded.items():
        before = constants[node.input[place]]
        if before.shape == array.shape and np.array_equal(before, array):
            continue
        name, array = "weights" if place == 1 else "bias", np.array(array, before.dtype)
        node.input[place] = NodeWriter(graph, node.output[0]).constant(name, array)
    factors = {"alpha"} | ({"beta"} if 2 in folded or len(node.input) < 3 else set())
    kept = [a for a in node.attribute if a.name not in factors]
    del node.attribute[:]
    node.attribute.extend(kept)


def _split_gemm(node: NodeProto) -> list[NodeProto]:
    result = node.output[0]
    total = helper.make_node("Add", [f"{result}/product", node.input[2]], [result], f"{result}/sum")
    node.output[0] = f"{result}/product"
    del node.input[2]
    return [node, total]


def _split_chain(node: NodeProto, graph: onnx.GraphProto) -> list[NodeProto]:
    op = "Add" if node.op_type in ("Sum", "Mean") else node.op_type
    name, count = node.output[0], len(node.input)
    if count == 2 and op == node.op_type:
        return [node]
    steps, value = NodeWriter(graph, name), node.input[0]
    for other in node.input[1:]:
        value = steps.add(op, [value, other])
    if node.op_type == "Mean":
        steps.add("Mul", [value, steps.constant("share", np.float32(1 / count))], name)
    elif steps.nodes:
        steps.nodes[-1].output[0] = name
    else:
        steps.add("Identity", [value], name)
    return steps.nodes


def _flattened(node: NodeProto, graph: onnx.GraphProto) -> list[NodeProto]:
    """A normalisation of several axes as one of a single axis: onnxruntime quantises factors of one
    dimension only."""
    factors = [t for t in graph.initializer if t.name in node.input[1:] and len(t.dims) > 1]
    known = {v.name: v.type.tensor_type.shape.dim for v in (*graph.value_info, *graph.output)}
    sizes = [d.dim_value for d in known.get(node.output[0], ())]
    if len(factors) != len(node.input) - 1 or min(sizes, default=0) < 1:
        return [node]
    steps = NodeWriter(graph, node.output[0])
    inputs = [steps.add("Reshape", [node.input[0], steps.ints(-1, int(np.prod(factors[0].dims)))])]
    for part, tensor in zip(("gain", "offset"), factors, strict=False):
        inputs.append(steps.constant(part, numpy_helper.to_array(tensor).reshape(-1)))
    normalised = steps.add(node.op_type, inputs, **attributes_of(node) | {"axis": -1})
    steps.add("Reshape", [normalised, steps.ints(*sizes)], node.output[0])
    return steps.nodes


def _split_norm(node: NodeProto, graph: onnx.GraphProto) -> list[NodeProto]:
    name, (inner, outer) = node.output[0], _NORMS[node.op_type]
    steps, given = NodeWriter(graph, name), attributes_of(node)
    inputs = [steps.add(inner, [node.input[0]] * (2 if inner == "Mul" else 1)), *node.input[1:]]
    if "axes" in given:
        # ReduceSum has had its axes as an input five opsets longer than norms.
        inputs.append(steps.constant("axes", np.array(given.pop("axes"))))
    total = steps.add("ReduceSum", inputs, "" if outer else name, **given)
    if outer:
        steps.add(outer, [total], name)
    return steps.nodes


def _split_quotient(node: NodeProto, graph: onnx.GraphProto) -> list[NodeProto]:
    steps = NodeWriter(graph, node.output[0])
    divisor = next((t for t in graph.initializer if t.name == node.input[1]), None)
    if divisor is None:
        inverse = steps.add("Reciprocal", node.input[1:])
    else:
        with np.errstate(divide="ignore"):
            inverse = steps.constant("inverse", np.float32(1) / numpy_helper.to_array(divisor))
    steps.add("Mul", [node.input[0], inverse], node.output[0])
    return steps.nodes


def _limit_masks(model: onnx.ModelProto, ranges: Ranges) -> None:
    """A mask, added or chosen before a softmax, becomes a number just below all other values: int8
    has room for either the mask or the values. Computed masks are clipped to that."""
    graph = model.graph
    masks = _Masks(graph)
    # A mask that is made of two constants is limited where it meets the values.
    masked = [
        (node, gain, place, node.input[other])
        for node in graph.node
        if node.op_type in _MASKED
        for place, other in ((-2, -1), (-1, -2))
        if node.input[place] in masks.names and node.input[other] not in masks.constants
        if (gain := masks.gain(node.output[0]))
    ]
    given = {name for node, *_ in masked for name in node.input[-2:]} - masks.constants.keys()
    known = dict(ranges(model, sorted(given))) if given else {}
    known |= {n: (float(a.min(initial=0)), 0.0) for n, a in masks.constants.items()}
    tables: dict[str, float] = {}
    for node, gain, place, other in masked:
        name = node.input[place]
        (lowest, highest), (low, high) = known[name], known[other]
        is_sum = node.op_type == "Add"
        least = low - high * is_sum - _MARGIN / min(gain, 1.0)
        computed = name not in masks.constants
        if lowest >= least or (computed and (lowest > _COMPUTED_NEVER or highest > 0)):
            continue
        steps, limit = NodeWriter(graph, node.output[0]), np.float32(least)
        if table := masks.table_of(name):
            tables[table] = min(least, tables.get(table, 0.0))
        elif computed:
            result = float_tensor(graph, f"{steps.name}/limited")
            node.input[place] = steps.add("Clip", [name, steps.constant("mask", limit)], result)
            graph.node.insert(list(graph.node).index(node), steps.nodes[0])
        else:
            limited = np.maximum(masks.constants[name], limit)
            node.input[place] = steps.constant("mask", limited)
        # A second mask is limited by the values without the first one's numbers.
        known[node.output[0]] = (low + least, high) if is_sum else (least, high)
    for picks in [n for n in graph.node if n.op_type == "Gather" and n.input[0] in tables]:
        limited = np.maximum(masks.constants[picks.input[0]], np.float32(tables[picks.input[0]]))
        picks.input[0] = NodeWriter(graph, picks.output[0]).constant("mask", limited)


class _Masks:
    """The tensors of a graph that may be masks, and the sums that a softmax reads. names:
    constants with "never", tensors computed from such, and inputs of the model."""

    def __init__(self, graph: onnx.GraphProto):
        self.graph = graph
        floats = (t for t in graph.initializer if t.data_type == onnx.TensorProto.FLOAT)
        self.constants = {t.name: numpy_helper.to_array(t) for t in floats}
        self.names = {value.name for value in graph.input} - self.constants.keys()
        self.names |= {n for n, a in self.constants.items() if a.min(initial=0) <= _NEVER}
        for node in graph.node:
            made = node.op_type in ("Mul", "Div", "Where")
            made = made and self._largest(node) >= -_COMPUTED_NEVER
            if made or (node.op_type in _HAND_ON and not self.names.isdisjoint(node.input)):
                self.names.update(node.output)

    def table_of(self, name: str) -> str:
        """The constant from which a mask is picked; "" if it is computed."""
        made = {out: node for node in self.graph.node for out in node.output}
        while (node := made.get(name)) is not None and node.op_type in _MOVES:
            name = node.input[0]
        picked = node is not None and node.op_type == "Gather" and node.input[0] in self.constants
        return node.input[0] if node is not None and picked else ""

    def _largest(self, node: NodeProto) -> float:
        """The largest absolute value of a node's constants; 0 without any."""
        sizes = (abs(self.constants[i]).max(initial=0) for i in node.input if i in self.constants)
        return float(max(sizes, default=0))

    def gain(self, name: str) -> float:
        """The factor between a value and the softmax that it reaches through nothing but functions
        and moves; 0 if it reaches none."""
        gains, through = {name: 1.0}, FUNCTIONS.union(_MOVES)
        for node in self.graph.node:
            source = next((gains[name] for name in node.input if name in gains), None)
            if source is not None and node.op_type == "Softmax":
                return source
            if source is not None and node.op_type in through:
                scale = self._largest(node) or 1.0
                scales = {"Mul": scale, "Div": 1 / scale}
                gains[node.output[0]] = source * scales.get(node.op_type, 1.0)
        return 0.0


def join_functions(graph: onnx.GraphProto) -> None:
    """Takes Q and DQ away between operators that together compute a function of one tensor: the
    importer makes one table of them, with one rounding instead of one each."""
    _Functions(graph).join()


class _Functions:
    def __init__(self, graph: onnx.GraphProto):
        self.graph = graph
        self.made = {name: node for node in graph.node for name in node.output}
        self.sizes = {t.name: int(np.prod(t.dims, dtype=np.int64)) for t in graph.initializer}
        self._roots: dict[str, str | None] = {}

    def join(self) -> None:
        for node in self.graph.node:
            root = self._function_of(node.output[0]) if node.output else None
            if root is None:
                continue
            for place, name in enumerate(node.input):
                inner = self._quantised(name)
                if inner is not None and self._function_of(inner) == root:
                    node.input[place] = inner
        self._drop()

    def _quantised(self, name: str) -> str | None:
        """Finds the tensor that is quantised and dequantised to become this value."""
        node = self.made.get(name)
        if node is None or node.op_type != "DequantizeLinear":
            return None
        before = self.made.get(node.input[0])
        return before.input[0] if before is not None else None

    def _function_of(self, name: str) -> str | None:
        """The one dequantised tensor that a value is computed from element by element."""
        if name not in self._roots:
            node = self.made.get(name)
            roots: set[str | None] = set()
            if node is not None and node.op_type in FUNCTIONS and not node.domain:
                roots = {self._root(i) for i in node.input if i and not self._is_number(i)}
            self._roots[name] = roots.pop() if len(roots) == 1 else None
        return self._roots[name]

    def _root(self, name: str) -> str | None:
        inner = self._quantised(name)
        if inner is None:
            return self._function_of(name)
        return self._function_of(inner) or name

    def _is_number(self, name: str) -> bool:
        """Whether a value is a scalar constant, quantised or not."""
        node = self.made.get(name)
        if node is not None and node.op_type == "DequantizeLinear":
            name = node.input[0]
        return self.sizes.get(name) == 1

    def _drop(self) -> None:
        """Removes quantisations that nobody reads any more."""
        outputs = {value.name for value in self.graph.output}
        for op in ("DequantizeLinear", "QuantizeLinear"):
            uses = Counter(_names(self.graph.node))
            kept = [
                n
                for n in self.graph.node
                if n.op_type != op or uses[n.output[0]] or n.output[0] in outputs
            ]
            replace_nodes(self.graph, kept)


def _names(nodes: Iterable[NodeProto]) -> Iterable[str]:
    return (name for node in nodes for name in node.input)
