# SPDX-License-Identifier: Apache-2.0
"""The order of access: what the planner is told, what the program does and what C does are one."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
from drawn import layer_and_data, some
from hypothesis import given
from hypothesis import strategies as st
from pool_log import (
    describe,
    enumerate_relation,
    interpret,
    log_c,
    relation_of,
    timeline,
    timeline_of_c,
    touched_by,
)
from random_graphs import LAYERS, disjoint, random_inputs, random_layers
from vmcu_tools.graph import Op
from vmcu_tools.ops import LAYER_OF, NEVER, ProgramLayer, bind


def op_of(kind: str) -> type[Op]:
    (node,) = random_layers(kind, 1, seed=0).nodes
    return type(node.op)


# The kinds whose kernels are programs; the others are written in C by hand.
PROGRAMS = [kind for kind in LAYERS if issubclass(LAYER_OF[op_of(kind)], ProgramLayer)]


def test_every_program_is_drawn() -> None:
    ops = {op for op, layer in LAYER_OF.items() if issubclass(layer, ProgramLayer)}
    assert {op_of(kind) for kind in PROGRAMS} == ops


@pytest.mark.parametrize("kind", PROGRAMS)
@some()
@given(data=st.data())
def test_relation_is_what_the_program_does(kind: str, data: st.DataObject) -> None:
    layer, inputs = layer_and_data(kind, data)
    assert isinstance(layer, ProgramLayer)
    found = enumerate_relation(relation_of(layer)).table()
    np.testing.assert_array_equal(found, touched_by(interpret(layer, inputs)).table())


@pytest.mark.parametrize("kind", PROGRAMS)
@some()
@given(data=st.data())
def test_ticks_are_what_the_program_does(kind: str, data: st.DataObject) -> None:
    layer, inputs = layer_and_data(kind, data)
    assert isinstance(layer, ProgramLayer)
    last_reads = [np.full(tensor.bytes, NEVER) for tensor in layer.ins]
    writes, tick = np.full(layer.out.bytes, NEVER), 0
    for kind, tensor, where in interpret(layer, inputs).log:
        if kind == "r":
            view = layer.binding.view(layer.ins[tensor])
            last_reads[tensor][np.ravel_multi_index(tuple(where), view)] = tick
            continue
        at = np.ravel_multi_index(tuple(where), layer.out.shape)
        assert (writes[at] == NEVER).all(), "a byte is written twice"
        writes[at] = tick
        tick += 1
    assert layer.ticks_per_row * layer.height == tick
    np.testing.assert_array_equal(layer.writes().ravel(), writes)
    for index, expected in enumerate(last_reads):
        np.testing.assert_array_equal(layer.last_reads(index).ravel(), expected)


@pytest.mark.parametrize("descending", [False, True])
@pytest.mark.parametrize("kind", LAYERS)
def test_c_keeps_to_the_order(kind: str, descending: bool) -> None:
    """Every byte of the pool that C loads or stores, against the relation and the planner."""
    graph = random_layers(kind, 24, seed=6)
    if descending and not bind(graph, graph.nodes[0]).can_descend:
        pytest.skip("works from the first row to the last only")
    plan, sample = disjoint(graph), random_inputs(graph, 6)
    stages = tuple((replace(step, descending=descending),) for step in plan.steps)
    plan = replace(plan, stages=stages)
    log = log_c(plan, sample)
    for node in graph.nodes:
        layer = bind(graph, node, descending)
        times = timeline_of_c(plan, layer, log)
        assert len(times.writes) == layer.out.bytes
        if isinstance(layer, ProgramLayer):
            expected = timeline(layer, enumerate_relation(relation_of(layer)))
            what = describe(layer)
            if layer.symbol.startswith("vmcu_dense") and layer.scratch_bytes:
                # It copies what it is going to read, each byte once for all channels.
                made, may = (set(map(tuple, each.reads)) for each in (times, expected))
                assert made <= may, f"reads of {what}"
                assert {at[1:] for at in made} == {at[1:] for at in may}
            else:
                np.testing.assert_array_equal(times.reads, expected.reads, f"reads of {what}")
            np.testing.assert_array_equal(times.writes, expected.writes, f"writes of {what}")
