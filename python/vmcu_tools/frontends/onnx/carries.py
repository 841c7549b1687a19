# SPDX-License-Identifier: Apache-2.0
"""The states of loops, from step to step: the rows behind each step, one step further down, are
those before it."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

import numpy as np

from ...graph import Node, Op, Port, Tensor
from ...ops.concat import Concat
from ...ops.pad import Pad
from ...quant import INT8_MAX, INT8_MIN
from .. import constant_outputs
from ..common import GraphBuilder, require
from .file import Carry

_SCALES = "quantise both ends of the state alike"


def connect_loops(builder: GraphBuilder, carries: Sequence[Carry]) -> None:
    """Connects the states of loops, which are inputs and outputs of the graph until then."""
    ends = {name for carry in carries for name in (carry.before, *carry.outputs)}
    ports = {port.name: port for port in (*builder.inputs, *builder.outputs)}
    for side in (builder.inputs, builder.outputs):
        side[:] = [port for port in side if port.name not in ends]
    ahead = set().union(*(_connect(builder, carry, ports) for carry in carries))
    if carries:
        builder.nodes[:] = _in_order(builder.nodes, ahead)


def _connect(builder: GraphBuilder, carry: Carry, ports: dict[str, Port]) -> set[str]:
    """Connects a state. Returns its tensor before a step, if that comes ahead of the one behind
    it."""
    before, after = (builder.tensors[ports[name].tensor] for name in (carry.before, carry.after))
    _check_alike(carry, before, after)
    inputs = [after.name]
    op: Op = Pad(((carry.batch, -carry.batch), (0, 0), (0, 0)), before.zero_point)
    if isinstance(carry.initial, str) or carry.initial.any():
        op = Concat(0, (None, None))
        inputs.insert(0, _first(builder, carry, before, ports))
    makers = _makers(builder, [after.name])
    readers = [node for node in builder.nodes if before.name in node.inputs]
    node = Node(before.name, op, tuple(inputs), (before.name,))
    place = builder.nodes.index(readers[0]) if readers else 0
    builder.nodes.insert(place, node)
    outside = [one for one in readers if one not in makers]
    if not outside or len(outside) == len(readers):
        return {before.name} if readers and not outside else set()
    # Other readers are no part of the loop.
    copy = replace(before, name=f"{before.name}/rows")
    builder.tensors[copy.name] = copy
    builder.nodes.append(replace(node, outputs=(copy.name,)))
    for one in outside:
        names = tuple(copy.name if name == before.name else name for name in one.inputs)
        builder.nodes[builder.nodes.index(one)] = replace(one, inputs=names)
    return {before.name}


def _makers(builder: GraphBuilder, names: list[str]) -> set[Node]:
    """The nodes that tensors are made by, from the graph's inputs on."""
    makers: set[Node] = set()
    while names:
        maker = builder.producers.get(names.pop())
        if maker is not None and maker not in makers:
            makers.add(maker)
            names += maker.inputs
    return makers


def _in_order(nodes: Sequence[Node], ahead: set[str]) -> list[Node]:
    """The nodes in an order of execution, as they are where that is one. ahead: tensors that a loop
    has from the step before."""
    missing = {name for node in nodes for name in node.outputs}
    waiting, order = list(nodes), list[Node]()
    while waiting:
        node = next(
            one
            for one in waiting
            if missing.isdisjoint(one.inputs[:-1] if one.outputs[0] in ahead else one.inputs)
        )
        waiting.remove(node)
        missing.difference_update(node.outputs)
        order.append(node)
    return order


def _first(builder: GraphBuilder, carry: Carry, before: Tensor, ports: dict[str, Port]) -> str:
    """The tensor with the rows before the first step."""
    if isinstance(carry.initial, str):
        first = builder.tensors[ports[carry.initial].tensor]
        _check_alike(carry, before, first)
        return first.name
    real = carry.initial / np.float32(before.scale)
    values = np.clip(np.rint(real) + before.zero_point, INT8_MIN, INT8_MAX).astype(np.int8)
    shape = (carry.batch, 1, carry.size)
    first = replace(before, name=f"{before.name}/first", shape=shape)
    constant_outputs.write(builder, first, values.reshape(shape))
    return first.name


def _check_alike(carry: Carry, before: Tensor, other: Tensor) -> None:
    alike = (before.scale, before.zero_point) == (other.scale, other.zero_point)
    what = f"the state '{carry.before}' has another scale than '{other.name}'"
    require(alike, what, _SCALES)
