# SPDX-License-Identifier: Apache-2.0
"""Tensors that share one scale: those of all steps of a recurrent layer, and both ends of a
state with the tensors concatenated with it."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import numpy as np
import onnx

from ..passes.state.connect import PAST_WORDS, PRESENT_WORDS, state_key
from .preparation import Ranges

# Operators whose result has the scale of their first input.
_MOVES = {"Reshape", "Transpose", "Squeeze", "Unsqueeze", "Flatten", "Slice", "Identity", "Expand"}
Override = dict[str, list[dict[str, np.ndarray]]]


def shared(
    model: onnx.ModelProto, alike: Sequence[Sequence[str]], ranges: Ranges
) -> dict[str, tuple[float, float]]:
    """Returns the range of each tensor of a group: that of all of them. Groups with a tensor in
    common are one; names that the model does not have are passed over."""
    graph = model.graph
    known = {name for node in graph.node for name in node.output}
    known.update(value.name for value in graph.input)
    groups = _merged([[name for name in group if name in known] for group in alike])
    if not groups:
        return {}
    measured = ranges(model, [name for group in groups for name in group])
    limits: dict[str, tuple[float, float]] = {}
    for group in groups:
        lows, highs = zip(*(measured[name] for name in group), strict=True)
        limits |= dict.fromkeys(group, (min(lows), max(highs)))
    return limits


def overrides_of(ranges: Mapping[str, tuple[float, float]]) -> Override:
    """Returns ranges as onnxruntime's quantiser reads them."""
    return {
        name: [{"rmin": np.array(low, np.float32), "rmax": np.array(high, np.float32)}]
        for name, (low, high) in ranges.items()
    }


def of_states(model: onnx.ModelProto) -> list[list[str]]:
    """Lists for each pair of an input and an output whose names say that they are a state before
    and after a call both, and the tensors concatenated with it."""
    graph = onnx.shape_inference.infer_shapes(model).graph
    ins, outs = (
        {value.name: state_key(value.name, words) for value in values}
        for values, words in ((graph.input, PAST_WORDS), (graph.output, PRESENT_WORDS))
    )
    shapes = {v.name: _shape(v) for v in (*graph.input, *graph.output)}
    groups = []
    for ahead, what in ins.items():
        mine = [name for name, other in outs.items() if other == what != ()]
        if len(mine) == 1 and list(ins.values()).count(what) == 1:
            (behind,) = mine
            if shapes[ahead] == shapes[behind]:
                groups.append(_group(graph, ahead, behind))
    return groups


def _shape(value: onnx.ValueInfoProto) -> tuple[int, ...]:
    kind = value.type.tensor_type
    return (kind.elem_type, *(d.dim_value for d in kind.shape.dim))


def _group(graph: onnx.GraphProto, ahead: str, behind: str) -> list[str]:
    makers = {name: node for node in graph.node for name in node.output}

    def sources(name: str) -> list[str]:
        """A tensor, and those that it is moved from."""
        names = [name]
        while name in makers and makers[name].op_type in _MOVES:
            name = makers[name].input[0]
            names.append(name)
        return names

    members = {ahead: None}
    for node in graph.node:
        if node.op_type in _MOVES and node.input[0] in members:
            members[node.output[0]] = None
        elif node.op_type == "Concat" and not members.keys().isdisjoint(node.input):
            parts = (name for one in node.input for name in sources(one))
            members |= dict.fromkeys([*parts, node.output[0]])
    members |= dict.fromkeys(sources(behind))
    constants = {one.name for one in graph.initializer}
    return [name for name in members if name not in constants]


def _merged(groups: Sequence[Sequence[str]]) -> list[list[str]]:
    merged: list[list[str]] = []
    for group in groups:
        mine, others = list(dict.fromkeys(group)), []
        for other in merged:
            if set(other).isdisjoint(mine):
                others.append(other)
            else:
                mine = list(dict.fromkeys([*other, *mine]))
        merged = [*others, mine]
    return [group for group in merged if len(group) > 1]
