# SPDX-License-Identifier: Apache-2.0
"""The constants of an .onnx file, read with the package of its format alone."""

from __future__ import annotations

import math
from collections import defaultdict
from collections.abc import Iterator
from dataclasses import replace

import numpy as np
import onnx
from onnx import numpy_helper

from .nodes import POINT, UNBOUNDED, Axes, Bounds, FileNode, FileTensor

# Between DequantizeLinear and QuantizeLinear: the kind, and inputs that are tensors.
KINDS = {
    "Add": ("sum", 2),
    "Softmax": ("softmax", 1),
    **dict.fromkeys(("AveragePool", "GlobalAveragePool", "ReduceMean"), ("mean", 1)),
    **dict.fromkeys(("Conv", "Gemm", "MatMul"), ("", 2)),
}
# Inputs of operators with weights: of the output's scale, and of the bias.
OPERATORS = {"QLinearConv": (6, 8), "QLinearMatMul": (6, 9), "QGemm": (7, 6)}
# Nodes that change no byte of what they get, or only cut it.
CUTTING = ("Relu", "Clip", "Identity", "Reshape", "Flatten", "Squeeze", "Unsqueeze", "Transpose")
MOST_BETWEEN = 8
# Inputs and output, None for what is no quantised tensor; the bias; bounds of the output.
Parts = tuple[list[FileTensor | None], np.ndarray | None, Bounds]


class OnnxFile:
    """Convolutions and matrix products between DequantizeLinear and QuantizeLinear nodes, those of
    the operators QLinearConv, QLinearMatMul and QGemm, and nodes without weights."""

    def __init__(self, graph: onnx.GraphProto):
        self.nodes = graph.node
        self.constants = {one.name: numpy_helper.to_array(one) for one in graph.initializer}
        self.makers = {name: node for node in graph.node for name in node.output}
        self.users: dict[str, list[onnx.NodeProto]] = defaultdict(list)
        for node in graph.node:
            if node.op_type == "Constant" and node.attribute[0].name == "value":
                self.constants[node.output[0]] = numpy_helper.to_array(node.attribute[0].t)
            for name in node.input:
                self.users[name].append(node)

    def _tensor(self, names: list[str]) -> FileTensor | None:
        """Returns a tensor of these inputs: values, scale and zero point."""
        values, scale, zero = (self.constants.get(name) for name in (*names, "")[:3])
        if len(names) < 3:
            zero = np.zeros((), np.uint8 if values is None else values.dtype)
        if scale is None or zero is None:
            return None
        return FileTensor.of(values, scale.astype(np.float32), zero, zero.dtype == np.uint8)

    def _source(self, name: str) -> FileTensor | None:
        """Returns the tensor that DequantizeLinear reads."""
        node = self.makers.get(name)
        while node is not None and node.op_type in CUTTING:
            node = self.makers.get(node.input[0])
        is_found = node is not None and node.op_type == "DequantizeLinear"
        return self._tensor([*node.input]) if node is not None and is_found else None

    def _target(self, name: str) -> tuple[FileTensor | None, str, Bounds]:
        """Returns the tensor of the QuantizeLinear behind a value, past nodes that only cut it and
        one Add; the Add's addend, and real bounds."""
        addend, bounds = "", UNBOUNDED
        for _ in range(MOST_BETWEEN):
            if len(self.users[name]) != 1:
                break
            (user,) = self.users[name]
            if user.op_type == "QuantizeLinear":
                return self._tensor(["", *user.input[1:]]), addend, bounds
            if user.op_type == "Add" and not addend:
                addend = next((one for one in user.input if one != name), "")
            elif user.op_type not in CUTTING:
                break
            if user.op_type == "Relu":
                bounds = (0.0, math.inf)
            elif user.op_type == "Clip":
                ends = (self.constants.get(one) for one in (*user.input[1:], "", "")[:2])
                pairs = zip(ends, UNBOUNDED, strict=True)
                low, high = (none if end is None else float(end) for end, none in pairs)
                bounds = low, high
            name = user.output[0]
        return None, "", UNBOUNDED

    def _operator(self, node: onnx.NodeProto) -> Parts:
        """Returns the tensors of one of OPERATORS, the bias and bounds."""
        names, (at, of_bias) = [*node.input], OPERATORS[node.op_type]
        ends = [self._tensor(some) for some in (names[:3], names[3:6], ["", *names[at : at + 2]])]
        bias = self.constants.get(names[of_bias]) if len(names) > of_bias else None
        return ends, bias, UNBOUNDED

    def _dequantized(self, node: onnx.NodeProto) -> Parts:
        """Returns the tensors around a node, the bias of one with weights, and bounds."""
        ends = [self._source(name) for name in node.input[: KINDS[node.op_type][1]]]
        out, addend, bounds = self._target(node.output[0])
        name = (*node.input, addend, addend)[2]
        quantised, bias = self._source(name), self.constants.get(name)
        if quantised is not None:
            bias = quantised.values
        elif bias is not None and ends[0] is not None and ends[1] is not None:
            bias = np.rint(bias / (ends[0].scale.astype(np.float64) * ends[1].scale))
        return [*ends, out], bias, bounds

    def read(self, node: onnx.NodeProto) -> Iterator[FileNode]:
        """Yields a node if its operator is known and its tensors are quantised."""
        is_operator = node.op_type in OPERATORS
        if not is_operator and node.op_type not in KINDS:
            return
        found, bias, bounds = (self._operator if is_operator else self._dequantized)(node)
        ends, kind = [end for end in found if end is not None], KINDS.get(node.op_type, ("", 2))[0]
        if len(ends) < len(found):
            return
        if not kind and ends[1].values is not None:
            kind, axes, values = _form(node, ends[1].values)
            plain = FileNode.of(kind, node.name or node.output[0], ends[::2], axes)
            yield plain.with_weights(replace(ends[1], values=values), bias, bounds)
        elif kind and all(end.values is None and len(end.scale) == 1 for end in ends):
            yield FileNode.of(kind, node.name, ends)


def _form(node: onnx.NodeProto, values: np.ndarray) -> tuple[str, Axes, np.ndarray]:
    """Returns the kind and the window of a layer, and its weights (channels, ...)."""
    given = {one.name: onnx.helper.get_attribute_value(one) for one in node.attribute}
    if "Conv" not in node.op_type:
        return "dense", POINT, values if given.get("transB", 0) else values.T
    values = values[:, :, None] if values.ndim == 3 else values
    steps = [[1, 1, *given.get(name, ())][-2:] for name in ("strides", "dilations")]
    pads = given.get("pads", ())
    pads = [0, 0, *pads[: len(pads) // 2]][-2:]
    axes = tuple(zip(values.shape[2:], *steps, pads, strict=True))
    is_depthwise = given.get("group", 1) > 1 and values.shape[1] == 1
    return "depthwise" if is_depthwise else "conv", axes, values.transpose(0, 2, 3, 1)


def nodes(data: bytes) -> Iterator[FileNode]:
    """Yields the nodes of a file."""
    file = OnnxFile(onnx.load_model_from_string(data).graph)
    for node in file.nodes:
        yield from file.read(node)
