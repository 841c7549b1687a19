# SPDX-License-Identifier: Apache-2.0
"""Quantises the operators that onnxruntime's quantiser leaves in float: those that only move
values or choose among them, where nothing in front of them was quantised, with the model's
inputs and outputs at their ends."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Mapping

import numpy as np
import onnx
from onnx import NodeProto, TensorProto, helper

from ..frontends.onnx.deferred import COMMUTES
from ..frontends.onnx.node_writer import NodeWriter, sort_nodes
from ..runtimes import required

# Through these the importer finds the scale that comes behind them. Values between elements may
# have a narrower range than these, which would be cut off first.
_WAITS = {*COMMUTES, "Identity", "Dropout"} - {"Resize"}
Measure = Callable[[list[str]], Mapping[str, tuple[float, float]]]


def quantise_leftovers(model: onnx.ModelProto, measure: Measure) -> None:
    """Puts a QuantizeLinear and a DequantizeLinear, of uint8, behind each float tensor whose scale
    would not be known otherwise. measure(names) tells the least and the greatest value of each
    tensor over the calibration set."""
    leftovers = _leftovers(model)
    if not leftovers:
        return
    ranges = measure(leftovers)
    for name in leftovers:
        _quantise(model.graph, name, *ranges[name])
    sort_nodes(model.graph)


def _leftovers(model: onnx.ModelProto) -> list[str]:
    """Float tensors that a node reads, or the model gives, before they are quantised."""
    graph = onnx.shape_inference.infer_shapes(model).graph
    values = [*graph.input, *graph.value_info, *graph.output]
    constants = {tensor.name for tensor in graph.initializer}
    floats = {v.name for v in values if v.type.tensor_type.elem_type == TensorProto.FLOAT}
    floats -= constants
    for node in graph.node:
        if node.op_type in ("DequantizeLinear", "Constant"):
            floats.difference_update(node.output)
    inputs = [value.name for value in graph.input]
    ends = {value.name for value in graph.output}
    readers_of: defaultdict[str, list[NodeProto]] = defaultdict(list)
    for node in graph.node:
        for name in dict.fromkeys(node.input):
            readers_of[name].append(node)
    waiting: set[str] = set()
    for name in [*(n for node in reversed(graph.node) for n in reversed(node.output)), *inputs]:
        readers = readers_of[name]
        kinds = [node.op_type == "QuantizeLinear" for node in readers]
        through = all(
            node.op_type in _WAITS and waiting.issuperset(node.output) for node in readers
        )
        # An input has one scale, which has to be that of all its readers.
        if name not in ends and (all(kinds) or (through and len(readers) == 1)):
            waiting.add(name)
    made = [n for node in graph.node for n in node.output]
    read = readers_of.keys() | ends
    return [n for n in [*inputs, *made] if n in floats & read and n not in waiting]


def _quantise(graph: onnx.GraphProto, name: str, low: float, high: float) -> None:
    readers = [node for node in graph.node if name in node.input]
    known = next((node for node in readers if node.op_type == "QuantizeLinear"), None)
    source = name
    maker = next((node for node in graph.node if name in node.output), None)
    if any(value.name == name for value in graph.output):
        if maker is None:
            return
        # The name is the result's, as onnxruntime's quantiser leaves it.
        source, result = f"{name}_QuantizeLinear_Input", name
        maker.output[list(maker.output).index(name)] = source
    else:
        result = f"{name}_DequantizeLinear_Output"
    if known is not None:
        stated = list(known.input[1:])
        known.input[0] = source
    else:
        stated = _stated(graph, name, low, high)
    inner = f"{result}/uint8"
    for node in readers:
        if node.op_type != "QuantizeLinear":
            node.input[:] = [result if i == name else i for i in node.input]
    quantised = helper.make_node("QuantizeLinear", [source, *stated], [inner], inner)
    real = helper.make_node("DequantizeLinear", [inner, *stated], [result], f"{result}/real")
    graph.node.extend([quantised, real])


def _stated(graph: onnx.GraphProto, name: str, low: float, high: float) -> list[str]:
    """Scale and zero point that onnxruntime's quantiser gives to this range: tensors of one range
    have one scale."""
    module = "onnxruntime.quantization.quant_utils"
    quantiser = required(module, "onnxruntime", "quantise float .onnx models", "quantize")
    ends = (np.array(end, np.float32) for end in (low, high))
    zero, scale = quantiser.compute_scale_zp(*ends, *np.array([0, 255], np.uint8))
    constants = NodeWriter(graph, name)
    return [constants.constant("scale", scale), constants.constant("zero", zero)]
