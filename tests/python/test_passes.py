# SPDX-License-Identifier: Apache-2.0
"""Passes change the nodes and never a byte."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import onnx
import pytest
from builders import onnx_exports, onnx_models, onnx_norms, onnx_ops, tflite_models, tflite_ops
from builders.networks import MODELS, network_file, random_inputs
from vmcu_bench import oracle
from vmcu_bench.oracle.compare import parts_of
from vmcu_tools import frontends, passes
from vmcu_tools.graph import Graph, Node, Op, Port, Shape, Tensor, Window
from vmcu_tools.machine import reference
from vmcu_tools.ops.average_pooling import AveragePool2D
from vmcu_tools.ops.binary import Binary
from vmcu_tools.ops.conv2d import Conv2D
from vmcu_tools.ops.depthwise import DepthwiseConv2D
from vmcu_tools.ops.fully_connected import FullyConnected
from vmcu_tools.ops.lookup import Lookup
from vmcu_tools.ops.max_pooling import MaxPool2D
from vmcu_tools.ops.move import Move
from vmcu_tools.ops.pad import Pad
from vmcu_tools.ops.requantize import Requantize
from vmcu_tools.ops.reshape import Reshape
from vmcu_tools.quant import FixedPoint


class Net:
    """Builds a graph node by node; tensors share one scale and zero point unless told."""

    def __init__(self, shape: Shape, zero_point: int = -7):
        self.rng = np.random.default_rng(0)
        self.tensors = {"x": Tensor("x", shape, 0.1, zero_point)}
        self.nodes: list[Node] = []

    def then(self, op: Op, shape: Shape, source: str, target: str, **changes) -> Net:
        tensor = Tensor(target, shape, 0.1, self.tensors[source].zero_point)
        self.tensors[target] = replace(tensor, **changes)
        self.nodes.append(Node(f"make {target}", op, (source,), (target,)))
        return self

    def conv(self, source: str, target: str, count=4, kernel=(3, 3), **limits) -> Net:
        size = self.tensors[source].shape
        window = Window(kernel)
        weights = self.rng.integers(-99, 99, (count, *kernel, size[2])).astype(np.int8)
        bias = self.rng.integers(-999, 999, count).astype(np.int32)
        op = Conv2D(weights, bias, window, FixedPoint.of(np.full(count, 0.004)), **limits)
        shape = (window.out_size(0, size[0]), window.out_size(1, size[1]), count)
        return self.then(op, shape, source, target)

    def depthwise(self, source: str, target: str) -> Net:
        height, width, count = self.tensors[source].shape
        weights = self.rng.integers(-99, 99, (3, 3, count)).astype(np.int8)
        requant = FixedPoint.of(np.full(count, 0.01))
        op = DepthwiseConv2D(weights, np.zeros(count, np.int32), Window((3, 3)), requant)
        return self.then(op, (height - 2, width - 2, count), source, target)

    def dense(self, source: str, target: str, count=5) -> Net:
        depth = self.tensors[source].shape[2]
        weights = self.rng.integers(-99, 99, (count, depth)).astype(np.int8)
        bias = np.arange(count, dtype=np.int32)
        op = FullyConnected(weights, bias, FixedPoint.of(np.full(count, 0.004)))
        return self.then(op, (1, 1, count), source, target)

    def pad(self, source: str, target: str, value: int, amounts=((1, 2), (2, 1), (0, 0))) -> Net:
        size = self.tensors[source].shape
        shape = tuple(s + a + b for s, (a, b) in zip(size, amounts, strict=True))
        return self.then(Pad(amounts, value), shape, source, target)

    def graph(self, *outputs: str) -> Graph:
        def port(name: str) -> Port:
            return Port(name, name, (1, *self.tensors[name].shape), "int8")

        ports = tuple(port(name) for name in outputs)
        return Graph("net", "", self.tensors, tuple(self.nodes), (port("x"),), ports)


def optimized(graph: Graph) -> list[str]:
    """The kinds of nodes that remain, after checking that all remaining tensors kept their
    bytes and that inputs and outputs kept their names."""
    result = passes.optimize(graph)
    rng = np.random.default_rng(1)
    inputs = [
        rng.integers(-128, 128, graph.tensors[port.tensor].shape).astype(np.int8)
        for port in graph.inputs
    ]
    before, after = reference.run(graph, inputs), reference.run(result, inputs)
    assert set(result.tensors) == set(after)
    # A node that stands for others may take what it reads and makes in another order.
    nodes = {node.name for node in graph.nodes}
    assert {name.rpartition("/")[0] for name in set(after) - set(before)} <= nodes
    for name in set(after) & set(before):
        values = after[name]
        np.testing.assert_array_equal(values.ravel(), before[name].ravel(), err_msg=name)
    for old, new in zip(
        (*graph.inputs, *graph.outputs), (*result.inputs, *result.outputs), strict=True
    ):
        assert old == new
    return [node.kind for node in result.nodes]


def test_pad_goes_into_convolutions():
    net = Net((6, 6, 3)).pad("x", "p", -7).conv("p", "a").depthwise("p", "b")
    assert optimized(net.graph("a", "b")) == ["Conv2D", "DepthwiseConv2D"]


def test_chain_of_pads_goes_into_convolution():
    net = Net((6, 6, 3)).pad("x", "p", -7).pad("p", "q", -7).conv("q", "a")
    assert optimized(net.graph("a")) == ["Conv2D"]


@pytest.mark.parametrize(
    "net",
    [
        Net((6, 6, 3)).pad("x", "p", 0).conv("p", "a"),
        Net((6, 6, 3)).pad("x", "p", -7, ((1, 1), (1, 1), (0, 2))).conv("p", "a"),
        Net((6, 6, 3))
        .pad("x", "p", -7)
        .conv("p", "b")
        .then(AveragePool2D(Window()), (9, 9, 3), "p", "a"),
    ],
    ids=["other value", "channels", "other consumer"],
)
def test_pad_stays(net):
    assert optimized(net.graph("a"))[0] == "Pad"


def test_pad_that_is_an_output_stays():
    net = Net((6, 6, 3)).pad("x", "p", -7).conv("p", "a")
    assert optimized(net.graph("p", "a")) == ["Pad", "Conv2D"]


def test_pad_goes_into_maximum_below_all_values():
    net = Net((8, 8, 3)).conv("x", "r", act_min=-7).pad("r", "p", -7, ((1, 1), (1, 1), (0, 0)))
    net.then(MaxPool2D(Window((3, 3), (2, 2))), (3, 3, 4), "p", "a")
    assert optimized(net.graph("a")) == ["Conv2D", "MaxPool2D"]
    net = Net((6, 6, 3)).pad("x", "p", -128, ((1, 1), (1, 1), (0, 0)))
    net.then(MaxPool2D(Window((3, 3), (2, 2))), (3, 3, 3), "p", "a")
    assert optimized(net.graph("a")) == ["MaxPool2D"]


def test_pad_before_maximum_stays():
    above = Net((6, 6, 3)).pad("x", "p", -7, ((1, 1), (1, 1), (0, 0)))
    above.then(MaxPool2D(Window((3, 3), (2, 2))), (3, 3, 3), "p", "a")
    empty = Net((6, 6, 3)).pad("x", "p", -128, ((2, 2), (2, 2), (0, 0)))
    empty.then(MaxPool2D(Window((2, 2), (2, 2))), (5, 5, 3), "p", "a")
    for net in (above, empty):
        assert optimized(net.graph("a")) == ["Pad", "MaxPool2D"]


def test_noops_are_dropped():
    net = Net((6, 6, 3)).pad("x", "p", 9, ((0, 0),) * 3).then(Reshape(), (6, 6, 3), "p", "q")
    net.then(Requantize(FixedPoint.of(np.ones(1))), (6, 6, 3), "q", "r").conv("r", "a")
    net.then(Reshape(), (4, 4, 4), "a", "y")
    assert optimized(net.graph("y")) == ["Conv2D"]


def test_noop_between_input_and_output_stays():
    net = Net((6, 6, 3)).then(Reshape(), (6, 6, 3), "x", "y")
    assert optimized(net.graph("y")) == ["Reshape"]


def test_requantize_that_relabels_stays():
    net = Net((6, 6, 3)).then(Reshape(), (6, 6, 3), "x", "y", zero_point=3).conv("y", "a")
    assert optimized(net.graph("a")) == ["Reshape", "Conv2D"]


def test_activation_is_fused():
    net = Net((6, 6, 3)).conv("x", "a", act_min=-90, act_max=90)
    net.then(Requantize(None, act_min=-7), (4, 4, 4), "a", "b")
    net.then(Requantize(None, act_max=60), (4, 4, 4), "b", "c")
    graph = net.graph("c")
    assert optimized(graph) == ["Conv2D"]
    op = passes.optimize(graph).nodes[0].op
    assert (op.act_min, op.act_max) == (-7, 60)


def test_disjoint_activations_are_fused():
    net = Net((6, 6, 3)).conv("x", "a", act_max=-20)
    net.then(Requantize(None, act_min=-7), (4, 4, 4), "a", "b")
    assert optimized(net.graph("b")) == ["Conv2D"]


def test_activation_of_shared_tensor_stays():
    net = Net((6, 6, 3)).conv("x", "a").then(Requantize(None, act_min=-7), (4, 4, 4), "a", "b")
    assert optimized(net.graph("a", "b")) == ["Conv2D", "Requantize"]
    net.conv("a", "c")
    assert optimized(net.graph("b", "c")) == ["Conv2D", "Requantize", "Conv2D"]


def test_activation_is_fused_into_a_product():
    net = Net((2, 3, 4))
    constant = net.rng.integers(-128, 128, (1, 1, 4)).astype(np.int8)
    net.then(Binary("product", out=FixedPoint.of([0.01]), constant=constant), (2, 3, 4), "x", "a")
    net.then(Requantize(None, act_min=-7), (2, 3, 4), "a", "b")
    assert optimized(net.graph("b")) == ["Binary"]


def test_tables_are_joined():
    net, shape = Net((2, 3, 4)), (2, 3, 4)
    first, second = (net.rng.integers(-128, 128, 256).astype(np.int8) for _ in range(2))
    net.then(Requantize(FixedPoint.of([0.7]), act_max=90), shape, "x", "a", zero_point=5)
    net.then(Lookup(first), shape, "a", "b").then(Lookup(second), shape, "b", "c")
    net.then(Requantize(None, act_min=-20), shape, "c", "d")
    assert optimized(net.graph("d")) == ["Lookup"]
    assert optimized(net.graph("b", "d")) == ["Lookup", "Lookup"]


def turned(shape: Shape) -> Move:
    height, width, channels = shape
    index = np.arange(height * width * channels).reshape(shape).transpose(1, 0, 2)
    return Move.of(np.ascontiguousarray(index))


def test_moves_are_joined():
    net = Net((2, 3, 4)).then(Reshape(), (4, 3, 2), "x", "a")
    net.then(turned((4, 3, 2)), (3, 4, 2), "a", "b").then(turned((3, 4, 2)), (4, 3, 2), "b", "c")
    net.conv("c", "d", kernel=(1, 1)).then(turned((3, 4, 2)), (4, 3, 2), "b", "e")
    assert optimized(net.graph("b")) == ["Move"]
    assert optimized(net.graph("b", "d")) == ["Move", "Move", "Conv2D"]
    # There and back again: nothing moves, and the shape of an input is free.
    assert optimized(net.graph("d")) == ["Conv2D"]


def test_move_and_reshape_are_joined_where_a_loop_says_so():
    net = Net((2, 3, 4)).then(turned((2, 3, 4)), (3, 2, 4), "x", "a")
    net.then(Reshape(), (1, 6, 4), "a", "b").conv("b", "c", kernel=(1, 1))
    assert optimized(net.graph("c")) == ["Move", "Conv2D"]
    net = Net((2, 3, 4)).then(turned((2, 3, 4)), (3, 2, 4), "x", "a")
    net.then(Reshape(), (3, 1, 8), "a", "b").dense("b", "c")
    net.tensors["c"] = replace(net.tensors["c"], shape=(3, 1, 5))
    assert optimized(net.graph("c")) == ["Move", "FullyConnected"]


def test_changes_of_scale_become_no_table():
    net, shape = Net((2, 3, 4)), (2, 3, 4)
    net.then(Requantize(FixedPoint.of([0.7])), shape, "x", "a", scale=0.2)
    net.then(Requantize(FixedPoint.of([0.6])), shape, "a", "b", scale=0.3)
    assert optimized(net.graph("b")) == ["Requantize", "Requantize"]


def test_flattened_image_is_convolved():
    net = Net((6, 6, 3)).conv("x", "a").then(Reshape(), (1, 4, 16), "a", "r")
    net.then(Reshape(), (1, 1, 64), "r", "f").dense("f", "b").dense("f", "c")
    graph = net.graph("b", "c")
    assert optimized(graph) == ["Conv2D"] * 3
    assert passes.optimize(graph).nodes[1].op.window.kernel == (4, 4)


def test_reshapes_at_the_borders_become_labels():
    net = Net((1, 1, 108)).then(Reshape(), (6, 6, 3), "x", "i").conv("i", "a")
    net.then(Reshape(), (1, 1, 64), "a", "y")
    graph = net.graph("y")
    assert optimized(graph) == ["Conv2D"]
    result = passes.optimize(graph)
    assert result.tensors["x"].shape == (6, 6, 3)
    assert result.tensors["y"].shape == (4, 4, 4)


def test_unused_nodes_are_dropped():
    net = Net((6, 6, 3)).conv("x", "a").conv("a", "dead").conv("a", "b", kernel=(1, 1))
    assert optimized(net.graph("b")) == ["Conv2D", "Conv2D"]


TFLITE_CASES = {**tflite_models.CASES, **tflite_ops.CASES}
ONNX_OPERATORS = {**onnx_ops.CASES, **onnx_norms.CASES, **onnx_exports.CASES}


@pytest.mark.parametrize("case", TFLITE_CASES)
def test_tflite_operators_keep_their_bytes(tmp_path, case):
    m = tflite_models.TfliteModel(3)
    ends = TFLITE_CASES[case](m)
    optimized(frontends.load(m.save(tmp_path / "m.tflite", *ends)))


@pytest.mark.parametrize("case", onnx_models.CASES)
def test_onnx_operators_keep_their_bytes(tmp_path, case):
    model = onnx_models.single(onnx_models.OnnxModel(3), *onnx_models.CASES[case])
    onnx.save(model, tmp_path / "m.onnx")
    kinds = optimized(frontends.load(tmp_path / "m.onnx"))
    if "of image" in case and "softmax" not in case:
        assert kinds == ["Conv2D"]


@pytest.mark.parametrize("case", ONNX_OPERATORS)
def test_further_onnx_operators_keep_their_bytes(tmp_path, case):
    model = onnx_models.single(onnx_models.OnnxModel(3, opset=17), *ONNX_OPERATORS[case])
    onnx.save(model, tmp_path / "m.onnx")
    optimized(frontends.load(tmp_path / "m.onnx"))


def test_network_has_no_reshape_left(tmp_path):
    path = onnx_models.quantised_network(tmp_path, "QDQ", "QInt8", True)
    assert "Reshape" not in optimized(frontends.load(path))


@pytest.mark.parametrize("name", MODELS)
def test_optimised_network_equals_oracle(name):
    judge = oracle.open(network_file(name))
    result = passes.optimize(judge.graph)
    assert "Pad" not in {node.kind for node in result.nodes}
    inputs = random_inputs(judge.graph, 5)
    expected = judge.run(inputs)
    wanted = parts_of(result, expected)
    for tensor, values in reference.run(result, inputs).items():
        np.testing.assert_array_equal(values, wanted[tensor], err_msg=tensor)
