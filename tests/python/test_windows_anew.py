# SPDX-License-Identifier: Apache-2.0
"""Layers that cannot go on from hop to hop see their windows anew, behind those that do."""

from __future__ import annotations

import functools
import json
from dataclasses import replace
from pathlib import Path

import numpy as np
import onnx
import pytest
import random_streams
from builders.onnx_models import OnnxModel, conv, requantised
from drawn import seeds
from hypothesis import Phase, example, given, settings
from hypothesis import strategies as st
from onnx import TensorProto
from random_builder import Builder
from random_graphs import convolution, depthwise_of
from random_streams import Mixed
from test_streams import SANITIZED, answers, check_hops, check_states, vmcu
from vmcu_bench import oracle, runners
from vmcu_bench.cycles.stream import bench
from vmcu_bench.runners.stream import streamed
from vmcu_bench.verify.stream import stream_of, verify
from vmcu_tools.compiler import compile_model
from vmcu_tools.emit import emit
from vmcu_tools.errors import PlanError
from vmcu_tools.graph import Graph, Window
from vmcu_tools.machine import hops
from vmcu_tools.machine.mcu import VirtualMcu
from vmcu_tools.machine.times import Times
from vmcu_tools.ops.concat import Concat
from vmcu_tools.ops.layer_norm import LayerNorm
from vmcu_tools.ops.move import Move
from vmcu_tools.ops.pad import Pad
from vmcu_tools.passes.state.streaming import expand_steps
from vmcu_tools.passes.state.transpose import transpose_rows
from vmcu_tools.plan.turns import macs_of_hop
from vmcu_tools.planner.options import CompileOptions
from vmcu_tools.planner.registry import make_plan

NETWORKS = 16


drawn = functools.partial(random_streams.drawn, Mixed)
plan_of = functools.partial(random_streams.plan_of, Mixed)


@pytest.mark.parametrize("seed", seeds(NETWORKS, 6))
def test_hops_are_those_of_whole_windows(seed: int) -> None:
    check_hops(*drawn(seed), plan_of(seed), seed)


def test_networks_have_such_layers() -> None:
    behind = [plan_of(seed).graph.state.unbounded_nodes for seed in range(NETWORKS)]
    # One counts hops: more is a network some of whose layers go on.
    assert sum(count > 1 for count in behind) >= 8 and sum(count == 1 for count in behind) >= 4
    assert {drawn(seed)[1] for seed in range(NETWORKS)} == {1, 2, 3, 4}


def small() -> Graph:
    """A layer that goes on, one that pads, and one that sees the whole window."""
    b = Builder(np.random.default_rng(1))
    x = b.input((12, 2, 4))
    y = convolution(b, x, Window((3, 1)), 10, 2, 4)
    z = convolution(b, y, Window((3, 1), pad=(1, 0, 1, 0)), 10, 2, 4)
    return b.graph([convolution(b, z, Window((10, 2)), 1, 1, 2).name])


def test_states_in_c(tmp_path: Path) -> None:
    check_states(make_plan(small(), CompileOptions(hop=1)), tmp_path)


def test_only_state_is_saved() -> None:
    plan = make_plan(small(), CompileOptions(hop=1))
    # Rows of the input and of the layer that goes on, the number of a hop, and counts of calls.
    state = 3 * 8 + 10 * 8 + 2 + 4
    assert plan.state[1] <= state + 4 < plan.pool_bytes
    with pytest.raises(PlanError, match=r"is not saved with the state; it holds (byte|scratch)"):
        VirtualMcu(replace(plan, saved=(plan.state[0], 90))).prove()


def test_rows_behind_are_no_state() -> None:
    """A layer of one window in bytes of rows that are kept, be it by one byte."""
    plan = make_plan(small(), CompileOptions(hop=1))
    start, size = plan.state
    (name,) = (name for name in plan.placements if name.startswith("t1 for "))
    for base in (start + size - 1, start - plan.placements[name].ring + 1):
        one = replace(plan.placements[name], base=base % plan.pool_bytes)
        harmed = replace(plan, placements={**plan.placements, name: one})
        with pytest.raises(PlanError):
            VirtualMcu(harmed).prove()


def test_a_window_that_begins_elsewhere_is_seen() -> None:
    """Each hop's layers read the rows of that hop's window, and none that are gone."""
    plan = make_plan(small(), CompileOptions(hop=1))
    name, ring = "t1", plan.placements["t1"].ring
    less = replace(plan.placements[name], ring=ring - 8)
    with pytest.raises(PlanError, match="destroys a live byte"):
        VirtualMcu(replace(plan, placements={**plan.placements, name: less})).prove()


@pytest.mark.parametrize("seed", range(NETWORKS))
def test_copies_live_as_the_replay_has_them(seed: int) -> None:
    """The last reads of each hop's tensors, taken from the first hop's: those of its own calls."""
    found = hops.played(plan_of(seed))
    known, counted = Times(found), Times(replace(found, copies={}))
    for name in found.copies:
        for y in range(found.plan.graph.tensors[name].shape[0]):
            all_columns = slice(None)
            np.testing.assert_array_equal(
                known.expiry(name, y, all_columns), counted.expiry(name, y, all_columns)
            )


def several() -> Graph:
    """One of layers that go on, one of layers that do not, one of both, one of several rows."""
    b = Builder(np.random.default_rng(4))
    x = b.input((9, 1, 4))
    one = depthwise_of(b, x, Window((2, 1), (2, 1)), 4, 1, 1)
    two = convolution(b, x, Window((3, 1), pad=(1, 0, 1, 0)), 9, 1, 3)
    three = convolution(b, one, Window((4, 1)), 1, 1, 2)
    both = b.node(Concat(0, (None, None)), [one, one], (8, 1, 4))
    return b.graph([t.name for t in (one, two, three, both)])


@pytest.mark.slow
def test_several_answers() -> None:
    graph = several()
    for hop in (2, 3):
        plan = make_plan(graph, CompileOptions(hop=hop))
        rows = stream_of(graph, hop, 200, hop)
        wanted = answers(graph, rows, hop)
        for target in ("virtual", SANITIZED):
            np.testing.assert_array_equal(streamed(runners.get(target), plan, rows), wanted)


def test_names_of_the_file_are_its_own() -> None:
    """Nodes without names read one window, and a tensor has the name of the count of hops."""
    b = Builder(np.random.default_rng(6))
    x = b.input((9, 1, 4))
    same = Window((3, 1), pad=(1, 0, 1, 0))
    y = convolution(b, x, Window((2, 1)), 8, 1, 4)
    both = [convolution(b, y, same, 8, 1, 4) for _ in range(2)]
    out = b.node(Concat(2, (None, None)), both, (8, 1, 8))
    graph = b.graph([out.name])
    names = {y.name: "hops", both[0].name: "hops for t3"}
    renamed = tuple(
        replace(
            node,
            name="",
            inputs=tuple(names.get(name, name) for name in node.inputs),
            outputs=tuple(names.get(name, name) for name in node.outputs),
        )
        for node in graph.nodes
    )
    tensors = {names.get(n, n): replace(t, name=names.get(n, n)) for n, t in graph.tensors.items()}
    graph = replace(graph, tensors=tensors, nodes=renamed)
    rows = stream_of(graph, 1, 60, 1)
    found = streamed(runners.get(SANITIZED), make_plan(graph, CompileOptions(hop=1)), rows)
    np.testing.assert_array_equal(found, answers(graph, rows, 1))


def test_all_rows_are_an_answer() -> None:
    b = Builder(np.random.default_rng(4))
    x = b.input((9, 1, 4))
    graph = b.graph([convolution(b, x, Window((3, 1)), 7, 1, 4).name])
    plan = make_plan(graph, CompileOptions(hop=2))
    # Two rows of the layer are new with each hop.
    assert sum(macs_of_hop(plan)) == 2 * 3 * 4 * 4
    header = emit(plan, "model").files["model.h"]
    assert "OUTPUT0_HEIGHT 7" in header and "INPUT0_HEIGHT 1\n" in header


@pytest.mark.parametrize("kind", ["move", "pad", "norm"])
def test_images_of_one_row(kind: str) -> None:
    """Whose columns come one by one; a layer rearranges them, puts what is no zero at both ends, or
    has factors of its own for each, which it does along W only."""
    b = Builder(np.random.default_rng(4))
    x = b.input((1, 12, 4))
    y = convolution(b, x, Window((1, 3)), 1, 10, 4)
    if kind == "move":
        columns = np.arange(9, -1, -1) * 4
        z = b.node(Move(np.zeros(1, np.int64), columns, np.arange(4)), [y], y.shape)
    elif kind == "pad":
        z = b.node(Pad(((0, 0), (2, 1), (0, 0)), y.zero_point ^ 1), [y], (1, 13, 4))
    else:
        factors = [b.rng.integers(-(1 << 12), 1 << 12, 40).astype(np.int32) for _ in range(2)]
        z = b.node(LayerNorm(*factors, 8, 1000, True, 1), [y], y.shape)
    width = z.shape[1]
    graph = transpose_rows(b.graph([convolution(b, z, Window((1, width)), 1, 1, 3).name]))
    assert any(node.kind == "Reshape" for node in graph.nodes) is (kind == "norm")
    plan = make_plan(graph, CompileOptions(hop=1))
    assert (
        plan.graph.state.unbounded_nodes == 2
        and sum(macs_of_hop(plan)) == 3 * 4 * 4 + width * 4 * 3
    )
    rows = stream_of(graph, 1, 200, 1)
    wanted = answers(graph, rows, 1)
    for target in ("virtual", SANITIZED):
        np.testing.assert_array_equal(streamed(runners.get(target), plan, rows), wanted)


LAYERS = st.tuples(
    st.sampled_from(["conv", "depthwise", "pool", "beside"]),
    st.integers(1, 4),
    st.sampled_from([1, 1, 1, 2, 3]),
    st.sampled_from([0, 0, 0, 1, 2]),
    st.sampled_from([0, 0, 0, 1, 2]),
)


def written(layers: list[tuple], height: int, path: Path, seed: int) -> None:
    """A file of layers along H, each with its kind, kernel, stride and padding at both ends; at the
    end one that sees all rows."""
    m, channels = OnnxModel(seed), 4
    stated = m.stated()
    scale = m.scales[stated[0]]
    x, rows = m.qdq("x", stated), height
    for kind, kernel, stride, top, bottom in layers:
        kernel = min(kernel, rows + top + bottom)
        # Pools see something of their input at either end.
        top, bottom = (min(pad, kernel - 1) for pad in (top, bottom))
        window = {"pads": [top, 0, bottom, 0], "strides": [stride, 1]}
        if kind == "pool":
            y, factor = m.node("MaxPool", [x], kernel_shape=[kernel, 1], **window), scale
        elif kind == "depthwise":
            y, factor = conv(channels, channels, (kernel, 1), group=channels, **window)(m, x, scale)
        else:
            y, factor = conv(channels, 4, (kernel, 1), **window)(m, x, scale)
        if kind == "beside":
            stated = m.stated(factor)
            other, _ = conv(channels, 2, (kernel, 1), **window)(m, x, scale)
            joined = m.node("Concat", [m.qdq(y, stated), m.qdq(other, stated)], axis=1)
            x, channels = m.qdq(joined, stated), 6
        elif kind == "pool":
            x = m.qdq(y, stated)
        else:
            stated = m.stated(factor)
            x, channels = m.qdq(y, stated), 4 if kind == "conv" else channels
        scale = m.scales[stated[0]]
        rows = (rows + top + bottom - kernel) // stride + 1
    y, factor = conv(channels, 3, (rows, 1))(m, x, scale)
    out, _ = requantised(m, y, factor)
    kind = TensorProto.FLOAT
    onnx.save(m.proto({"x": (kind, (1, 4, height, 1))}, {out: (kind, None)}), path)


# Without shrinking: each example is compiled and run.
@settings(max_examples=10, deadline=None, phases=(Phase.explicit, Phase.generate))
@given(st.lists(LAYERS, min_size=1, max_size=4), st.integers(6, 20), st.integers(1, 4))
# The last rows of the window, as many as a hop has, are read by none.
@example([("conv", 1, 3, 0, 0), ("pool", 3, 3, 0, 0)], 10, 3)
# A stride over the only row of the window there is.
@example([("pool", 2, 3, 0, 0), ("pool", 1, 2, 1, 2), ("depthwise", 1, 2, 1, 0)], 6, 3)
def test_files_beside_onnxruntime(
    tmp_path_factory: pytest.TempPathFactory, layers: list[tuple], height: int, hop: int
) -> None:
    path = tmp_path_factory.mktemp("drawn") / "drawn.onnx"
    written(layers, height, path, height + hop)
    outcome = verify(compile_model(path, CompileOptions(hop=hop)), "host", 200, 1)
    # Where branches come together, the runtime may be a step off by itself.
    exact = all(kind != "beside" for kind, *_ in layers)
    assert outcome.passed and outcome.judged[0].strict >= exact


@pytest.fixture(scope="module")
def padded(tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("padded") / "padded.onnx"
    written([("conv", 3, 1, 0, 0), ("conv", 3, 1, 1, 1), ("pool", 2, 2, 0, 0)], 14, path, 1)
    return path


def test_what_is_said(padded: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    report = tmp_path / "report.json"
    code, said, _ = vmcu(capsys, "build", padded, "--hop", 1, "-o", tmp_path, "--json", report)
    figures = json.loads(report.read_text())["hop"]
    anew, again = figures["anew"], 12 * 3 * 4 * 4 + 6 * 4 * 3
    assert code == 0 and anew["macs"] == again and anew["layers"] == 3 and not anew["others"]
    assert f"{again:,} of its {again + 48:,} MACs. The first is '{anew['first']}'" in said
    assert "the layer pads along time (1 rows before and 1 after the window)" in said
    assert 'hint: train it with "valid" padding along time' in said
    code, said, _ = vmcu(capsys, "verify", padded, "--hop", 3, "-n", 200, "--on", "virtual")
    assert code == 0 and "0 of 200 hops differ from the file's own runtime" in said


def test_strides_that_a_hop_does_not_divide(
    padded: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    path = tmp_path / "strided.onnx"
    written([("conv", 3, 1, 0, 0), ("pool", 2, 2, 0, 0)], 14, path, 1)
    code, said, _ = vmcu(capsys, "build", path, "--hop", 3, "-o", tmp_path)
    assert code == 0 and "needs 2 input rows, and 3 is not a multiple of 2" in said
    assert "choose --hop 2 or a multiple" in said
    assert expand_steps(oracle.open(path).graph, 2, 3).state.unbounded_nodes == 0


def test_what_a_hop_costs(padded: Path) -> None:
    counted = bench(compile_model(padded, CompileOptions(hop=1)), "padded", "qemu:m4")
    assert counted.macs == 12 * 3 * 4 * 4 + 6 * 4 * 3 + 48
    assert sum(layer.instructions for layer in counted.layers) > 1000
