# SPDX-License-Identifier: Apache-2.0
"""Root mean squares whose sums float32 holds, so that every runtime computes the same bytes."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
import onnx
from onnx import NodeProto, numpy_helper

from ..frontends.onnx.attributes import attributes_of
from ..frontends.onnx.node_writer import NodeWriter, replace_nodes
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
        norm = _norm(made, arrays, node) if node.op_type in SCALE_FREE else None
        if norm is None:
            nodes.append(node)
        else:
            nodes.extend(_spelled(NodeWriter(graph, node.output[0]), norm, later))
            spelled.append(f"{node.output[0]}/integers")
    replace_nodes(graph, nodes)
    # By its shape the importer knows which axis is the last.
    inferred = onnx.shape_inference.infer_shapes(model).graph.value_info
    graph.value_info.extend(value for value in inferred if value.name in spelled)


@dataclass(frozen=True)
class _Norm:
    """Over the last axis, of integers `source` with a zero point, read with `scale`; gain: float32
    (C,)."""

    source: str
    zero_point: str
    scale: float
    gain: np.ndarray
    epsilon: float


def _norm(
    made: dict[str, NodeProto], arrays: dict[str, np.ndarray], node: NodeProto
) -> _Norm | None:
    """Reads the input of a norm; None if its sum is not of few integers with one scale."""
    given = attributes_of(node)
    names = [*node.input, ""][:2]
    x, gain = (_quantised(arrays, made.get(name)) for name in names)
    if given.get("axis", -1) != -1 or x is None or gain is None or gain.source not in arrays:
        return None
    integers = arrays[gain.source].astype(np.float32) - arrays[gain.zero_point].astype(np.float32)
    if integers.ndim != 1 or integers.size > MOST_CHANNELS:
        return None
    factors = integers * np.float32(gain.scale)
    return _Norm(x.source, x.zero_point, x.scale, factors, given.get("epsilon", 1e-5))


@dataclass(frozen=True)
class _Quantised:
    """The input of a DequantizeLinear, with one scale and a constant zero point."""

    source: str
    zero_point: str
    scale: float


def _quantised(arrays: dict[str, np.ndarray], maker: NodeProto | None) -> _Quantised | None:
    if maker is None or maker.op_type != "DequantizeLinear" or len(maker.input) < 3:
        return None
    source, scale, zero = maker.input
    if any(name not in arrays or arrays[name].size != 1 for name in (scale, zero)):
        return None
    return _Quantised(source, zero, float(arrays[scale].ravel()[0]))


def _spelled(steps: NodeWriter, norm: _Norm, later: bool) -> list[NodeProto]:
    """The norm's single operators."""
    title = steps.name
    addend = steps.constant("addend", np.float32(norm.epsilon / norm.scale**2))
    axes = [steps.constant("axes", np.array([-1], np.int64))] if later else []
    one = steps.constant("one", np.float32(1))
    attributes: dict[str, Any] = {} if later else {"axes": [-1]}
    x = steps.add("DequantizeLinear", [norm.source, one, norm.zero_point], f"{title}/integers")
    squares = steps.add("Mul", [x, x], f"{title}/squares")
    mean = steps.add("ReduceMean", [squares, *axes], f"{title}/mean", **attributes)
    total = steps.add("Add", [mean, addend], f"{title}/sum")
    normal = steps.add("Div", [x, steps.add("Sqrt", [total], f"{title}/root")], f"{title}/normal")
    steps.add("Mul", [normal, steps.constant("gain", norm.gain)], title)
    return steps.nodes
