# SPDX-License-Identifier: Apache-2.0
"""The states of loops, from step to step: the rows behind each step, one step further down, are
those before it."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
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
    loops = []
    for name in dict.fromkeys(carry.loop for carry in carries):
        own = [carry for carry in carries if carry.loop == name]
        links = {ports[carry.before].tensor: ports[carry.after].tensor for carry in own}
        makers = _makers(builder, links)
        pads = [_connect(builder, carry, ports, makers) for carry in own]
        loops.append(_members(builder.nodes, links, makers.union(pads)))
    if loops:
        builder.nodes[:] = _in_order(builder.nodes, loops)


def _connect(
    builder: GraphBuilder, carry: Carry, ports: dict[str, Port], makers: set[Node]
) -> Node:
    """Returns the node that makes a state before a step of that behind the step before. makers: of
    the loop's states."""
    before, after = (builder.tensors[ports[name].tensor] for name in (carry.before, carry.after))
    _check_alike(carry, before, after)
    inputs = [after.name]
    op: Op = Pad(((carry.batch, -carry.batch), (0, 0), (0, 0)), before.zero_point)
    if isinstance(carry.initial, str) or carry.initial.any():
        op = Concat(0, (None, None))
        inputs.insert(0, _first(builder, carry, before, ports))
    node = Node(before.name, op, tuple(inputs), (before.name,))
    readers = [one for one in builder.nodes if before.name in one.inputs]
    builder.nodes.insert(builder.nodes.index(readers[0]) if readers else 0, node)
    outside = [one for one in readers if one not in makers]
    if outside:
        # Other readers are no part of the loop.
        copy = replace(before, name=f"{before.name}/rows")
        builder.tensors[copy.name] = copy
        builder.nodes.append(replace(node, outputs=(copy.name,)))
        for one in outside:
            names = tuple(copy.name if name == before.name else name for name in one.inputs)
            builder.nodes[builder.nodes.index(one)] = replace(one, inputs=names)
    return node


def _makers(builder: GraphBuilder, links: Mapping[str, str]) -> set[Node]:
    """The nodes that the states of a loop are made by, from the graph's inputs on. links: the
    tensor behind a step by that before it."""
    makers: set[Node] = set()
    names = [*links.values()]
    while names:
        maker = builder.producers.get(names.pop())
        if maker is not None and maker not in makers:
            makers.add(maker)
            names += maker.inputs
    return makers


def _members(nodes: Sequence[Node], before: Collection[str], makers: set[Node]) -> list[Node]:
    """The nodes between the states before and behind a step, and those that make the former."""
    behind, members = set(before), []
    for node in nodes:
        if node in makers and not behind.isdisjoint((*node.inputs, *node.outputs)):
            behind.update(node.outputs)
            members.append(node)
    return members


def _in_order(nodes: Sequence[Node], loops: Sequence[Sequence[Node]]) -> list[Node]:
    """The nodes in an order of execution, as they are where that is one, those of a loop behind
    each other."""
    loop_of = {node: loop for loop in loops for node in loop}
    missing = {name for node in nodes for name in node.outputs}
    waiting, order = list(nodes), list[Node]()
    while waiting:
        runs = (loop_of.get(node, [node]) for node in waiting)
        run = next(run for run in runs if missing.isdisjoint(_read(run)))
        missing.difference_update(name for one in run for name in one.outputs)
        order += run
        waiting = [one for one in waiting if one not in run]
    return order


def _read(nodes: Sequence[Node]) -> set[str]:
    """The tensors that nodes read and do not make."""
    return {name for node in nodes for name in node.inputs} - {
        name for node in nodes for name in node.outputs
    }


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
