# SPDX-License-Identifier: Apache-2.0
"""int4 weights with a scale for each group of inputs, against ONNX Runtime."""

from __future__ import annotations

import ctypes
import errno
import struct
from dataclasses import replace
from pathlib import Path

import ml_dtypes
import numpy as np
import onnx
import pytest
from builders.containers import changed
from builders.onnx_models import OnnxModel, single
from operators.grouped import blocked, n_bits
from promises import assert_within
from random_graphs import disjoint, random_inputs
from test_container import loaded
from vmcu_bench import oracle, runners
from vmcu_bench.cycles.kernels import CASES, case_graph
from vmcu_tools import container
from vmcu_tools.emit.model import write_tables
from vmcu_tools.errors import UserError
from vmcu_tools.frontends import load
from vmcu_tools.graph import Graph, Node, Port, Tensor
from vmcu_tools.kernels.targets import TARGETS
from vmcu_tools.machine import reference
from vmcu_tools.ops import bind
from vmcu_tools.ops.fully_connected import FullyConnected
from vmcu_tools.ops.grouped import COARSE, FINE, GroupedDense, multipliers_of
from vmcu_tools.quant import FloatScale

# By name, a file's input and its layer; `exact` is of scales.
FILES = {
    "MatMul": lambda exact: ((1, 96), blocked("MatMul", 96, 11, 32, exact=exact)),
    "MatMul, biases": lambda exact: ((5, 64), blocked("MatMul", 64, 8, 16, exact=exact, bias=1)),
    "MatMul, Transpose": lambda exact: (
        (1, 3, 64),
        blocked("MatMul", 64, 7, 32, exact=exact, turned=1),
    ),
    "Gemm": lambda exact: ((1, 640), blocked("Gemm", 640, 16, 128, exact=exact, bias=1)),
    "Gemm, transB": lambda exact: ((2, 48), blocked("Gemm", 48, 5, 32, exact=exact, turned=1)),
    "Conv": lambda exact: ((1, 32, 3, 5), blocked("Conv", 32, 6, 16, exact=exact, bias=1)),
    "unsigned": lambda exact: (
        (1, 64),
        blocked("Gemm", 64, 9, 16, exact=exact, dtype=ml_dtypes.uint4),
    ),
    "Conv, lines": lambda exact: (
        (1, 40, 9),
        blocked("Conv", 40, 6, 16, exact=exact, kernel=(3,), window={"strides": [2]}),
    ),
    "Conv, a window": lambda exact: (
        (1, 20, 6, 7),
        blocked(
            "Conv",
            *(20, 5, 16),
            **{"exact": exact, "bias": 1, "kernel": (3, 3), "dtype": np.uint8},
            window={"pads": [1, 2, 0, 1], "strides": [2, 1], "dilations": [1, 2]},
        ),
    ),
    "int8, blocks of 8": lambda exact: (
        (3, 40),
        blocked("Gemm", 40, 9, 8, exact=exact, dtype=np.int8),
    ),
    "zero points": lambda exact: (
        (3, 77),
        n_bits(77, 9, 32, exact=exact, zeros="uint8"),
    ),
    "8 bits": lambda exact: ((1, 100), n_bits(100, 9, 32, exact=exact, bits=8)),
    "8 bits, zero points": lambda exact: (
        (2, 128),
        n_bits(128, 9, 64, exact=exact, bits=8, zeros="uint8"),
    ),
    "MatMulNBits": lambda exact: ((1, 256), n_bits(256, 12, 32, exact=exact, bias=1)),
    "MatMulNBits, accuracy": lambda exact: (
        (1, 96),
        n_bits(96, 7, 16, exact=exact, zeros="uint8", accuracy=4),
    ),
}
# What ONNX Runtime's float32 sums may be off by, in steps of the output.
FLOAT32 = 1e-3


def saved(folder: Path, seed: int, shape: tuple[int, ...], layer) -> Path:
    onnx.save(single(OnnxModel(seed, opset=21), shape, layer), folder / "m.onnx")
    return folder / "m.onnx"


def bound(op: GroupedDense, taps: np.ndarray) -> np.ndarray:
    """Steps (..., N) that results may be off by before they are rounded: half a unit of the bias,
    and if multipliers are rounded, half a unit of the sum and half a multiplier of each group."""
    units: float | np.ndarray = 0.5
    if op.fine:
        parts = taps.reshape(*taps.shape[:-1], op.multipliers.shape[1], -1)
        groups = op.factors.reshape(*op.multipliers.shape, -1) / op.multipliers[:, :, None]
        units = 1 + 0.5 / 128 * np.abs(np.einsum("...gk,ngk->...ng", parts, groups)).sum(axis=-1)
    return units * op.requant.scale + FLOAT32


@pytest.mark.parametrize("exact", [True, False])
@pytest.mark.parametrize("name", FILES)
def test_bytes_are_those_of_onnx_runtime_but_for_ties(
    name: str, exact: bool, tmp_path: Path
) -> None:
    """A byte is another one only where the sum, with the file's own scales, is near a half."""
    for seed in range(8):
        judge = oracle.open(saved(tmp_path, seed, *FILES[name](exact)))
        (node,) = (n for n in judge.graph.nodes if isinstance(n.op, GroupedDense))
        assert node.op.fine is not exact
        inputs = random_inputs(judge.graph, seed)
        wanted = judge.run(inputs)
        found = reference.run(judge.graph, inputs)
        out, layer = node.outputs[0], bind(judge.graph, node)
        taps = found[node.inputs[0]].astype(np.float64) - layer.ins[0].zero_point
        sums = taps @ node.op.factors.T / (128 if node.op.fine else 1) + node.op.bias
        real = sums * node.op.requant.scale
        near = np.abs(real - np.floor(real) - 0.5) < bound(node.op, taps)
        assert near.mean() < 0.2
        np.testing.assert_array_equal(found[out][~near], wanted[out][~near], err_msg=str(seed))
        for difference in oracle.node_differences(judge.graph, wanted):
            assert_within(judge, difference)


@pytest.mark.parametrize("exact", [True, False])
def test_a_group_that_is_alone_is_none(exact: bool, tmp_path: Path) -> None:
    layer = n_bits(32, 12, 256, exact=exact, bias=1)
    for seed in range(8):
        judge = oracle.open(saved(tmp_path, seed, (4, 32), layer))
        (node,) = (n for n in judge.graph.nodes if isinstance(n.op, FullyConnected))
        assert node.op.weight_bits == 4 and bind(judge.graph, node).symbol == "vmcu_dense_int4"
        for difference in oracle.node_differences(
            judge.graph, judge.run(random_inputs(judge.graph, seed))
        ):
            assert_within(judge, difference)


def test_scales_that_are_multiples_need_8_bits() -> None:
    rng = np.random.default_rng(0)
    weights = rng.integers(-8, 8, (3, 64)).astype(np.int8)
    unit = np.float32(0.0123) / 255
    scales = np.array([[255, 7], [3, 1], [8, 8]], np.float32) * unit
    made = multipliers_of(weights, scales, np.zeros(3), 1.0)
    assert not made.fine
    np.testing.assert_array_equal(made.values, [[255, 7], [3, 1], [1, 1]])
    np.testing.assert_allclose(made.values * made.units[:, None], scales, rtol=1e-6)
    scales[1] = [1.0, 0.1416]
    fine = multipliers_of(weights, scales, np.zeros(3), 1.0)
    assert fine.fine and fine.values.max() == FINE
    units = fine.units[:, None] / 128
    np.testing.assert_allclose(fine.values * units, scales, atol=scales.max() / FINE)


def one_layer(
    weights: np.ndarray, multipliers: np.ndarray, bias: np.ndarray, columns: int, target: str
) -> Graph:
    op = GroupedDense(
        weights, multipliers, bias, FloatScale(np.full(len(bias), 2.0**-20, np.float32)), False
    )
    sizes = (("in", weights.shape[1]), ("out", len(bias)))
    tensors = {name: Tensor(name, (1, columns, size), 0.1, 0) for name, size in sizes}
    ports = [Port(name, name, (1, *tensor.shape), "int8") for name, tensor in tensors.items()]
    node = Node("one", op, ("in",), ("out",))
    return Graph("one", "one", tensors, (node,), (ports[0],), (ports[1],), target=target)


@pytest.mark.parametrize("board", ["host", "qemu:m4", "qemu:m7", "qemu:m55", "qemu:rv32"])
def test_sums_up_to_the_bound(board: str) -> None:
    """A sum of 32 bits is 16 times as large in a register. One more than fits, and sums have 64
    bits; multipliers then have 8 more, and all bytes are as exact."""
    target = getattr(runners.get(board), "family", None) or "dsp"
    weights = np.repeat(np.array([[-8], [7], [1], [0], [-8]], np.int8), 32, axis=1)
    multipliers = np.full((5, 2), COARSE)
    most = (1 << 27) - 1 - 128 * 32 * COARSE * np.abs(weights[:, 0].astype(np.int64))
    ends = (most * np.array([1, -1, 1, -1, -1])).astype(np.int32)
    graph = one_layer(weights, multipliers, ends, 2, target)
    assert "fine" not in bind(graph, graph.nodes[0]).symbol
    beyond = one_layer(weights, multipliers, ends + np.sign(ends), 2, target)
    assert "fine" in bind(beyond, beyond.nodes[0]).symbol
    samples = [[np.full((1, 2, 32), value, np.int8)] for value in (-128, 127, 1)]
    for made in (graph, beyond):
        found = runners.get(board).run(disjoint(made), samples)
        for sample, (output,) in zip(samples, found, strict=True):
            wanted = bind(made, made.nodes[0]).rows(sample, 0, 1)
            np.testing.assert_array_equal(output.reshape(wanted.shape), wanted)


def test_fine_sums_are_rounded_to_the_nearest() -> None:
    """A unit of a fine sum is 1/128 of a step of the output; halves are rounded up."""
    values = np.arange(-128, 128)
    weights = np.zeros((1, 64), np.int8)
    weights[0, 0] = 1
    graph = one_layer(weights, np.ones((1, 2), np.int64), np.zeros(1, np.int32), 256, "dsp")
    (node,) = graph.nodes
    op = replace(node.op, fine=True, requant=FloatScale(np.ones(1, np.float32)))
    graph = replace(graph, nodes=(replace(node, op=op),))
    data = np.zeros((1, 256, 64), np.int8)
    data[0, :, 0] = values
    wanted = np.floor(values / 128 + 0.5)
    np.testing.assert_array_equal(bind(graph, graph.nodes[0]).rows([data], 0, 1).ravel(), wanted)
    ((output,),) = runners.get("host").run(disjoint(graph), [[data]])
    np.testing.assert_array_equal(output.ravel(), wanted)


def container_of(channels: int, groups: int, size: int) -> tuple[bytes, bytes]:
    """Of one layer with groups of so many taps, and its stream."""
    rng = np.random.default_rng(7)
    weights = rng.integers(-8, 8, (channels, groups * size)).astype(np.int8)
    multipliers = rng.integers(1, COARSE + 1, (channels, groups))
    graph = one_layer(weights, multipliers, np.zeros(channels, np.int32), 1, "dsp")
    (node,) = graph.nodes
    op = replace(node.op, requant=FloatScale(np.full(channels, 0.00123456, np.float32)))
    graph = replace(graph, nodes=(replace(node, op=op),))
    image = container.of_tables(write_tables(disjoint(graph), "m").files, "m")
    return image, bind(graph, graph.nodes[0]).binding.stream


def test_containers_with_parts_of_a_turn_are_refused(loader: ctypes.CDLL) -> None:
    """Assembly for DSP adds up 16 taps in a turn of its loop, and would not stop behind 8."""
    assert loaded(loader, container_of(4, 2, 16)[0])[0] == 0
    assert loaded(loader, container_of(4, 4, 8)[0])[0] == -errno.EBADMSG


def test_containers_store_no_channel_too_many(loader: ctypes.CDLL) -> None:
    """Where the channels of a block all have lines, the kernel stores four."""
    image, stream = container_of(3, 2, 16)
    assert loaded(loader, image)[0] == 0
    last = image.index(stream) + len(stream) - 4
    line, none = struct.unpack_from("<2I", image, last - 4)
    assert line and not none
    assert loaded(loader, changed(image, last, "<I", line))[0] == -errno.EBADMSG


def test_large_layers_have_coarser_multipliers() -> None:
    """So that sums fit into 32 bits."""
    weights = np.full((1, 16384), -8, np.int8)
    scales = np.tile(np.array([1, 0.123456], np.float32), 256)[None]
    made = multipliers_of(weights, scales, np.zeros(1), 1e6)
    sums = np.abs(weights.reshape(1, 512, -1)).sum(axis=2) * made.values * 255
    assert made.fine and 1 << 30 <= sums.sum() >> 7 < 1 << 31


@pytest.mark.parametrize("target", TARGETS)
def test_flash_of_a_layer(target: str) -> None:
    case = next(case for case in CASES if case.kind == "dense")
    sizes = []
    for more in ({}, {"weight_bits": 4, "group": 32}):
        graph = replace(case_graph(replace(case, **more), 0), target=target)
        layer = bind(graph, graph.nodes[0])
        sizes.append((len(layer.binding.stream), layer.weight_bytes))
    assert layer.target.packing.has_groups
    for whole, half in zip(*sizes, strict=True):
        assert half <= 0.55 * whole


REFUSED = {
    "bits": ((1, 64), n_bits(64, 4, 32), {"bits": 2}, "weights of 2 bits", "use 4 or 8 bits"),
    "outputs": (
        (1, 32),
        blocked("Gemm", 32, 32, 16, turned=1),
        {"transB": 0},
        "along the outputs",
        "along the inputs",
    ),
    "zero points": ((1, 64), n_bits(64, 4, 32, zeros="float32"), {}, "no integer", "integer zero"),
    "far zero": ((1, 64), n_bits(64, 4, 32, zeros="float32"), {}, "fit 16 bits", "range"),
    "groups": (
        (1, 32, 3, 3),
        blocked("Conv", 16, 4, 16, window={"group": 2}),
        {},
        "that has groups",
        "one scale",
    ),
}


@pytest.mark.parametrize("name", REFUSED)
def test_what_is_refused_has_a_hint_that_works(name: str, tmp_path: Path) -> None:
    shape, layer, attributes, reason, hint = REFUSED[name]
    model = single(OnnxModel(1, opset=21), shape, layer)
    if "zero" in name:
        point = 1e6 if "far" in name else 3.5
        zeros = max(
            (k for k in model.graph.initializer if list(k.dims) == [8]), key=lambda k: k.name
        )
        zeros.CopyFrom(onnx.numpy_helper.from_array(np.full(8, point, np.float32), zeros.name))
    for node in model.graph.node:
        for attribute in node.attribute:
            if attribute.name in attributes:
                value = attributes[attribute.name]
                attribute.CopyFrom(onnx.helper.make_attribute(attribute.name, value))
    onnx.save(model, tmp_path / "m.onnx")
    with pytest.raises(UserError) as caught:
        load(tmp_path / "m.onnx")
    (problem,) = caught.value.problems
    assert reason in problem.reason and hint in problem.remedy
