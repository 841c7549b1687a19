# SPDX-License-Identifier: Apache-2.0
"""Column bands: their arithmetic, and the RAM that they save."""

from __future__ import annotations

import itertools

import numpy as np
import pytest
from builders.fused_networks import Network, bottleneck, expect_every_tensor
from builders.networks import network_file
from drawn import seeds
from random_graphs import random_inputs
from vmcu_bench.runners import get
from vmcu_tools.compiler import compile_model
from vmcu_tools.errors import UserError
from vmcu_tools.machine import reference
from vmcu_tools.ops import bind
from vmcu_tools.planner.options import CompileOptions
from vmcu_tools.planner.params import SearchParams
from vmcu_tools.planner.registry import make_plan
from vmcu_tools.planner.stages import bands, fusion


@pytest.mark.parametrize("seed", seeds(40, 20))
def test_bands_mean_the_same(seed: int) -> None:
    """Any run of layers, in bands that end anywhere."""
    graph = Network(800 + seed).made
    sample, rng = random_inputs(graph, seed), np.random.default_rng(seed)
    wanted = reference.run(graph, sample)
    tried = 0
    for first, stop in itertools.combinations(range(len(graph.nodes) + 1), 2):
        stretch = bands.stretch_of(graph, first, stop)
        if stretch is None:
            continue
        width = stretch.out.shape[1]
        ends = sorted(rng.choice(np.arange(1, width), rng.integers(1, 3), replace=False).tolist())
        split = bands.banded(stretch, ends)
        usual = [bind(graph, node).macs for node in stretch.nodes]
        twice = bands.macs(split) - bands.macs(graph)
        assert stretch.macs(usual, ends) - sum(usual) == twice
        lasts = [split.nodes[first + span.stop - 1] for span in bands.spans(stretch, ends)]
        (join,) = [node for node in split.nodes if node.name.endswith(" bands")]
        assert tuple(node.outputs[0] for node in lasts) == join.inputs
        got = reference.run(split, sample)
        for name in wanted.keys() & got.keys():
            np.testing.assert_array_equal(got[name], wanted[name])
        tried += 1
    assert tried or seed, "the first network has such layers"


@pytest.mark.slow
def test_bands_spare_ram_for_work_done_twice() -> None:
    graph = bottleneck()
    usual = make_plan(graph)
    plan = make_plan(graph, CompileOptions(extra_macs=50))
    assert usual.macs_extra == 0 and usual.original is None
    assert plan.pool_bytes < usual.pool_bytes and plan.model is plan.original
    assert 0 < plan.macs_extra == bands.macs(plan.graph) - bands.macs(graph)
    assert plan.macs_extra <= 0.5 * bands.macs(graph)
    expect_every_tensor(plan)
    sample = random_inputs(graph, 0)
    for name in ("host:sanitize", "qemu:m4"):
        (outputs,) = get(name).run(plan, [sample])
        meaning = reference.run(graph, sample)[graph.outputs[0].tensor]
        np.testing.assert_array_equal(outputs[0].reshape(meaning.shape), meaning)


@pytest.mark.slow
def test_ram_takes_bands_where_nothing_else_fits() -> None:
    graph = bottleneck()
    usual = make_plan(graph, CompileOptions(params=SearchParams(trade_off=False)))
    assert make_plan(graph, CompileOptions(ram=usual.pool_bytes)).macs_extra == 0
    tight = make_plan(graph, CompileOptions(ram=usual.pool_bytes - 200))
    assert tight.macs_extra > 0 and tight.pool_bytes <= usual.pool_bytes - 200
    assert any(choice.extra_macs for choice in fusion.front(graph, CompileOptions()))
    with pytest.raises(UserError, match=r"found is \d+ bytes, with [1-9]\d* extra MACs"):
        make_plan(graph, CompileOptions(ram=1000))


@pytest.mark.slow
def test_a_large_network_in_47_000_bytes() -> None:
    """With at most one percent of its multiply-accumulates done twice. Its bands have places, but
    sequential placement does not find them, but ejection search does."""
    plan = compile_model(
        network_file("mcunet-imagenet-320kb"), CompileOptions(stream_input=True, ram=47000)
    )
    assert plan.pool_bytes <= 47_000
    assert 0 < plan.macs_extra <= bands.macs(plan.model) // 100
    inputs = random_inputs(plan.graph, 0)
    (outputs,) = get("qemu:m4").run(plan, [inputs])
    name = plan.graph.outputs[0].tensor
    np.testing.assert_array_equal(outputs[0], reference.run(plan.model, inputs)[name])
