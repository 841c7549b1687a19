# SPDX-License-Identifier: Apache-2.0
"""Root mean squares whose sums float32 holds, so that every runtime computes the same bytes."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
import onnx
from onnx import NodeProto, helper, numpy_helper

from ..frontends.onnx.quantize import SCALE_FREE
from ..ops.rms_norm import MOST_CHANNELS


def spell_norms(model: onnx.ModelProto) -> None:
    """Writes each norm of an int8 tensor with one scale as Mul, ReduceMean, Add, Sqrt, Div, Mul.

    The integers are read with scale 1, which the division cancels out, and the epsilon is in their
    units. So each sum is an integer below 2^24, whatever order a runtime adds in."""
    graph = model.graph
    made = {name: node for node in graph.node for name in node.output}
    arrays = {tensor.name: numpy_helper.to_array(tensor) for tensor in graph.initializer}
    nodes: list[NodeProto] = []
    spelled = []
    # From opset 18 on the axes of a mean are an input.
    later = max(o.version for o in model.opset_import if o.domain in ("", "ai.onnx")) >= 18
    for node in graph.node:
        given, gain = (_dequantised(made, arrays, node, place) for place in (0, 1))
        last = next((a.i for a in node.attribute if a.name == "axis"), -1) == -1
        factors = None if gain is None else gain.array
        if node.op_type not in SCALE_FREE or not last or given is None or factors is None:
            nodes.append(node)
        elif factors.ndim == 1 and factors.size <= MOST_CHANNELS:
            nodes.extend(_spelled(graph, node, given, factors, later))
            spelled.append(f"{node.output[0]}/integers")
        else:
            nodes.append(node)
    del graph.node[:]
    graph.node.extend(nodes)
    # By its shape the importer knows which axis is the last.
    inferred = onnx.shape_inference.infer_shapes(model).graph.value_info
    graph.value_info.extend(value for value in inferred if value.name in spelled)


@dataclass(frozen=True)
class _Dequantised:
    """A quantised tensor that is read as float, with one scale; array: its values if constant."""

    source: str
    zero_point: str
    scale: float
    array: np.ndarray | None


def _dequantised(
    made: dict[str, NodeProto], arrays: dict[str, np.ndarray], node: NodeProto, place: int
) -> _Dequantised | None:
    """What makes an input, None if it is not of this kind."""
    name = node.input[place] if len(node.input) > place else ""
    maker = made.get(name)
    if maker is None or maker.op_type != "DequantizeLinear" or len(maker.input) < 3:
        return None
    scale, zero = (arrays.get(name, np.zeros(0, np.float32)) for name in maker.input[1:3])
    if scale.size != 1 or zero.size != 1:
        return None
    array = arrays.get(maker.input[0])
    if array is not None:
        array = (array.astype(np.float32) - zero.astype(np.float32)) * scale
    return _Dequantised(maker.input[0], maker.input[2], float(scale.ravel()[0]), array)


def _spelled(
    graph: onnx.GraphProto, node: NodeProto, given: _Dequantised, gain: np.ndarray, later: bool
) -> list[NodeProto]:
    """The norm's single operators."""
    title = node.output[0]

    def constant(what: str, value: np.ndarray | float, kind: type = np.float32) -> str:
        array: np.ndarray = np.array(value, kind)
        graph.initializer.append(numpy_helper.from_array(array, f"{title}/{what}"))
        return f"{title}/{what}"

    epsilon = next((a.f for a in node.attribute if a.name == "epsilon"), 1e-5)
    addend = constant("addend", epsilon / given.scale**2)
    whole = f"{title}/integers"
    axes = [constant("axes", np.array([-1]), np.int64)] if later else []
    attributes: dict[str, Any] = {} if later else {"ReduceMean": {"axes": [-1]}}
    steps = (
        ("DequantizeLinear", [given.source, constant("one", 1), given.zero_point], whole),
        ("Mul", [whole, whole], f"{title}/squares"),
        ("ReduceMean", [f"{title}/squares", *axes], f"{title}/mean"),
        ("Add", [f"{title}/mean", addend], f"{title}/sum"),
        ("Sqrt", [f"{title}/sum"], f"{title}/root"),
        ("Div", [whole, f"{title}/root"], f"{title}/normal"),
        ("Mul", [f"{title}/normal", constant("gain", gain)], title),
    )
    return [
        helper.make_node(op, inputs, [name], name, **attributes.get(op, {}))
        for op, inputs, name in steps
    ]
