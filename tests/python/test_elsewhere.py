# SPDX-License-Identifier: Apache-2.0
"""Inputs that are read where they lie: not in the pool, not written, nothing beside them read."""

from __future__ import annotations

import re
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
from builders.fused_networks import Network, bottleneck, expect_every_tensor
from random_builder import Builder
from random_graphs import convolution, random_inputs
from vmcu_bench.runners import get
from vmcu_tools.cli import main
from vmcu_tools.emit import emit
from vmcu_tools.errors import PlanError, UserError
from vmcu_tools.graph import Graph, Window
from vmcu_tools.machine import reference
from vmcu_tools.machine.mcu import VirtualMcu
from vmcu_tools.ops.concat import Concat
from vmcu_tools.ops.fetch import Fetch
from vmcu_tools.plan.plan import Plan, Step
from vmcu_tools.planner.options import CompileOptions
from vmcu_tools.planner.registry import make_plan
from vmcu_tools.planner.rotate import rotate as rotated

ELSEWHERE = CompileOptions(external_input=True)
DIGITS = Path(__file__).resolve().parents[2] / "samples" / "digits" / "digits.onnx"


def expect_in_c(plan: Plan, graph: Graph, target: str) -> None:
    """Two inferences in one process, each on its own input, as the graph before means them."""
    samples = [random_inputs(graph, seed) for seed in (1, 2)]
    for sample, outputs in zip(samples, get(target).run(plan, samples), strict=True):
        meaning = reference.run(graph, sample)
        for port, values in zip(graph.outputs, outputs, strict=True):
            np.testing.assert_array_equal(values, meaning[port.tensor])


@pytest.mark.parametrize("rotate", [False, True])
@pytest.mark.parametrize("seed", range(8))
def test_networks(seed: int, rotate: bool) -> None:
    graph = Network(900 + seed).made
    plan = make_plan(graph, ELSEWHERE)
    (port,) = plan.graph.inputs
    assert port.tensor not in plan.placements and plan.model is graph
    expect_every_tensor(plan)
    expect_in_c(rotated(plan) if rotate else plan, graph, "host:sanitize")


def test_on_a_board() -> None:
    graph = bottleneck()
    plan = make_plan(graph, ELSEWHERE)
    expect_in_c(plan, graph, "qemu:m4")


def test_it_takes_no_bytes() -> None:
    builder = Builder(np.random.default_rng(5))
    window = Window((3, 3), (2, 2), pad=(0, 0, 1, 1))
    x = builder.input((24, 24, 8))
    graph = builder.graph([convolution(builder, x, window, 12, 12, 4).name])
    size = graph.tensors[x.name].bytes
    held, elsewhere = (make_plan(graph, one).pool_bytes for one in (CompileOptions(), ELSEWHERE))
    assert elsewhere < held - size // 2


@pytest.mark.slow
def test_bands_fetch_their_own_columns() -> None:
    graph = bottleneck()
    usual = make_plan(graph, ELSEWHERE)
    plan = make_plan(graph, replace(ELSEWHERE, ram=4600))
    assert plan.pool_bytes <= 4600 < usual.pool_bytes and plan.macs_extra > 0
    assert plan.model is graph
    expect_every_tensor(plan)
    for target in ("host:sanitize", "qemu:m4"):
        expect_in_c(plan, graph, target)


def test_the_header_says_how_many_bytes() -> None:
    graph = bottleneck()
    size = graph.tensors[graph.inputs[0].tensor].bytes
    for options, bytes_ in ((ELSEWHERE, size), (CompileOptions(), 0)):
        emitted = emit(make_plan(graph, options), "one").files
        assert f"#define vmcu_elsewhere_bytes_of_one {bytes_}\n" in emitted["one.h"]
        assert bool(re.search(r"\.elsewhere = true", emitted["one.c"])) == (bytes_ > 0)


def with_fetch(plan: Plan, op: Fetch) -> Plan:
    """The plan with another fetch, whatever it does."""
    old = next(node for node in plan.graph.nodes if node.op.fetches)
    new = replace(old, op=op)

    def changed(step: Step) -> Step:
        return replace(step, node=new) if step.node is old else step

    stages = tuple(tuple(changed(step) for step in steps) for steps in plan.stages)
    nodes = tuple(new if node is old else node for node in plan.graph.nodes)
    return replace(plan, stages=stages, graph=replace(plan.graph, nodes=nodes))


def test_nothing_beside_it_is_read() -> None:
    plan = make_plan(bottleneck(), ELSEWHERE)
    source = plan.graph.inputs[0].tensor
    VirtualMcu(with_fetch(plan, Fetch(source, 0))).prove()
    with pytest.raises(PlanError, match="does not have"):
        VirtualMcu(with_fetch(plan, Fetch(source, 1)))
    within = next(iter(plan.placements))
    with pytest.raises(PlanError, match="is in the pool"):
        VirtualMcu(with_fetch(plan, Fetch(within, 0)))


@pytest.mark.parametrize("channels, height", [(0, 1), (1, 0)])
def test_a_fetch_is_as_high_and_deep_as_its_input(channels: int, height: int) -> None:
    plan = make_plan(bottleneck(), ELSEWHERE)
    name = plan.graph.inputs[0].tensor
    tensor = plan.graph.tensors[name]
    h, w, c = tensor.shape
    other = replace(tensor, shape=(h - height, w, c - channels))
    smaller = replace(plan.graph, tensors={**plan.graph.tensors, name: other})
    with pytest.raises(PlanError, match="does not have"):
        VirtualMcu(replace(plan, graph=smaller))


def test_nobody_reads_or_writes_it_as_if_it_were_in_the_pool() -> None:
    plan = make_plan(bottleneck())
    for name in (plan.graph.inputs[0].tensor, plan.graph.outputs[0].tensor):
        outside = replace(plan.graph, elsewhere=frozenset((name,)))
        with pytest.raises(PlanError, match="outside of the pool for one inside"):
            VirtualMcu(replace(plan, graph=outside))


def test_what_cannot_be_elsewhere() -> None:
    builder = Builder(np.random.default_rng(0))
    x, y = builder.input((4, 4, 2)), builder.input((4, 4, 2))
    both = builder.node(Concat(2, (None, None)), [x, y], (4, 4, 4))
    with pytest.raises(UserError, match="2 inputs"):
        make_plan(builder.graph([both.name]), ELSEWHERE)
    builder = Builder(np.random.default_rng(0))
    x = builder.input((4, 4, 2))
    twice = builder.node(Concat(2, (None, None)), [x, x], (4, 4, 4))
    with pytest.raises(UserError, match="is also an output"):
        make_plan(builder.graph([twice.name, x.name]), ELSEWHERE)


def test_an_input_with_two_readers_is_fetched_for_each() -> None:
    builder = Builder(np.random.default_rng(3))
    x = builder.input((5, 4, 3))
    twice = builder.node(Concat(2, (None, None)), [x, x], (5, 4, 6))
    once = builder.node(Concat(2, (None, None)), [twice, x], (5, 4, 9))
    graph = builder.graph([once.name])
    plan = make_plan(graph, ELSEWHERE)
    assert sum(bool(node.op.fetches) for node in plan.graph.nodes) == 2
    expect_in_c(plan, graph, "host:sanitize")


def test_readers_of_one_name_have_fetches_of_their_own() -> None:
    """As the parts of a Split have, which are nodes of one name."""
    builder = Builder(np.random.default_rng(4))
    x = builder.input((5, 4, 3))
    twice = builder.node(Concat(2, (None, None)), [x, x], (5, 4, 6))
    once = builder.node(Concat(2, (None, None)), [twice, x], (5, 4, 9))
    builder.nodes = [replace(node, name="split") for node in builder.nodes]
    graph = builder.graph([once.name])
    expect_in_c(make_plan(graph, ELSEWHERE), graph, "host:sanitize")


def test_commands(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    model, out = str(DIGITS), tmp_path / "report.json"
    assert main(["build", model, "--external-input", "--json", str(out)]) == 0
    assert "vmcu_set_input" in capsys.readouterr().out
    assert '"input_elsewhere": true' in out.read_text()
    assert main(["build", model, "--external-input", "--stream-input"]) == 1
    assert "cannot be combined with --stream-input" in capsys.readouterr().err
    x = tmp_path / "x.npy"
    np.save(x, np.random.default_rng(0).uniform(0, 1, (1, 1, 8, 8)).astype(np.float32))
    printed = []
    for words in ([], ["--external-input"]):
        assert main(["run", model, "--on", "host", "--input", str(x), *words]) == 0
        printed.append(capsys.readouterr().out)
    assert printed[0] == printed[1]
    assert main(["run", model, "--input", "elsewhere"]) == 1
    assert "elsewhere: no such file" in capsys.readouterr().err
    assert main(["verify", model, "--on", "host", "--external-input", "-n", "1"]) == 0
