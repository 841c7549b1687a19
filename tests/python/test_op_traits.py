# SPDX-License-Identifier: Apache-2.0
"""What ops say of themselves: it is true, nobody says it for them, and what is forgotten shows."""

from __future__ import annotations

import ast
from collections.abc import Iterator
from dataclasses import dataclass, replace
from pathlib import Path

import numpy as np
import pytest
import vmcu_tools
from random_graphs import LAYERS, random_inputs, random_layers
from vmcu_tools.errors import UserError
from vmcu_tools.graph import Graph, Node, Op
from vmcu_tools.ops import LAYER_OF, bind, kernel_of
from vmcu_tools.ops.average_pooling import AveragePool2D
from vmcu_tools.ops.binary import Binary
from vmcu_tools.ops.dense_by_rows import DenseByRows
from vmcu_tools.ops.depthwise import DepthwiseConv2D
from vmcu_tools.ops.fetch import Fetch
from vmcu_tools.ops.hop_count import HopCount
from vmcu_tools.ops.layer import Layer
from vmcu_tools.ops.look_back import LookBack
from vmcu_tools.ops.max_pooling import MaxPool2D
from vmcu_tools.ops.pixelwise import OwnPixelLayer
from vmcu_tools.ops.recall import Recall, Remember
from vmcu_tools.ops.recomputed import Recomputed
from vmcu_tools.ops.resize import Resize
from vmcu_tools.ops.table_mean import TableMean
from vmcu_tools.ops.values import Array, Struct

PACKAGE = Path(vmcu_tools.__file__).parent
# Rooms whose code is about single ops: it makes them out of a file's, or rewrites them.
MAY_ASK = ("frontends", "passes")
# Of every kind some; kinds of several ops have each op among so many.
COUNT = 40


@pytest.fixture(scope="module", params=LAYERS)
def drawn(request: pytest.FixtureRequest) -> tuple[Graph, list[np.ndarray]]:
    graph = random_layers(request.param, COUNT, seed=3)
    return graph, random_inputs(graph, 3)


def with_op(graph: Graph, node: Node, op: Op) -> Layer:
    return bind(graph, replace(node, op=op))


def inputs_of(graph: Graph, values: list[np.ndarray], node: Node) -> list[np.ndarray]:
    by_name = {port.tensor: data for port, data in zip(graph.inputs, values, strict=True)}
    return [by_name[name] for name in node.inputs]


def test_every_op_is_drawn() -> None:
    graphs = [random_layers(kind, COUNT, seed=3) for kind in LAYERS]
    drawn = {type(node.op) for graph in graphs for node in graph.nodes}
    # A fetch has no inputs in the pool: tests/python/test_elsewhere.py. Planners alone make layers
    # that are recomputed: tests/python/test_again.py.
    # Sums of rows are of streams: tests/python/test_lstm_rows.py.
    others = {DenseByRows, Fetch, HopCount, LookBack, Recall, Recomputed, Remember}
    assert drawn == set(LAYER_OF) - others


def test_ops_that_clamp_do(drawn: tuple[Graph, list[np.ndarray]]) -> None:
    """Ops without the trait do not look at the bounds, and no kernel is emitted that would have
    to."""
    graph, values = drawn
    for node in graph.nodes:
        data = inputs_of(graph, values, node)
        whole = with_op(graph, node, replace(node.op, act_min=-128, act_max=127))
        narrow = with_op(graph, node, replace(node.op, act_min=-7, act_max=21))
        free, bounded = (layer.rows(data, 0, layer.out.shape[0]) for layer in (whole, narrow))
        if node.op.clamps:
            np.testing.assert_array_equal(bounded, free.clip(-7, 21))
        else:
            np.testing.assert_array_equal(bounded, free)
            with pytest.raises(UserError, match="fused activation"):
                kernel_of(graph, narrow)


def test_elementwise_ops_do_not_know_the_place(drawn: tuple[Graph, list[np.ndarray]]) -> None:
    """Bytes in another order give the same bytes in that order."""
    graph, values = drawn
    rng = np.random.default_rng(3)
    for node in (node for node in graph.nodes if node.op.elementwise):
        layer, data = bind(graph, node), inputs_of(graph, values, node)
        order = rng.permutation(layer.out.bytes)
        height, shape = layer.out.shape[0], layer.out.shape
        moved = layer.rows([x.ravel()[order].reshape(shape) for x in data], 0, height)
        expected = layer.rows(data, 0, height).ravel()[order].reshape(shape)
        np.testing.assert_array_equal(moved, expected)


def test_ops_by_channel_work_on_some_alone(drawn: tuple[Graph, list[np.ndarray]]) -> None:
    """What they make of some channels is what they make of those among all."""
    graph, values = drawn
    rng = np.random.default_rng(5)
    apart = AveragePool2D | MaxPool2D | TableMean | Resize | Binary
    assert all(node.op.by_channel for node in graph.nodes if isinstance(node.op, apart))
    for op in (node.op for node in graph.nodes if isinstance(node.op, DepthwiseConv2D)):
        assert op.by_channel == (op.multiplier == 1)
    for node in (node for node in graph.nodes if node.op.by_channel):
        layer, data = bind(graph, node), inputs_of(graph, values, node)
        count = layer.out.shape[2]
        if count < 2 or any(x.shape[2] != count for x in data):
            continue
        picked = np.sort(rng.choice(count, int(rng.integers(1, count)), replace=False))
        tensors = {
            name: replace(tensor, shape=(*tensor.shape[:2], len(picked)))
            for name, tensor in graph.tensors.items()
            if name in (*node.inputs, *node.outputs)
        }
        few = bind(replace(graph, tensors=tensors), replace(node, op=node.op.of_channels(picked)))
        found = few.rows([np.ascontiguousarray(x[:, :, picked]) for x in data], 0, layer.height)
        np.testing.assert_array_equal(found, layer.rows(data, 0, layer.height)[:, :, picked])


def test_ops_of_own_pixels_compute_any_part_of_a_row(
    drawn: tuple[Graph, list[np.ndarray]],
) -> None:
    """Otherwise stages would compute whole rows of them."""
    graph, _ = drawn
    for layer in (bind(graph, node) for node in graph.nodes):
        if isinstance(layer, OwnPixelLayer):
            assert layer.by_columns


def test_relabelling_ops_hand_on_bytes(drawn: tuple[Graph, list[np.ndarray]]) -> None:
    graph, values = drawn
    for node in (node for node in graph.nodes if node.op.relabels):
        layer, (data,) = bind(graph, node), inputs_of(graph, values, node)
        np.testing.assert_array_equal(layer.rows([data], 0, layer.height).ravel(), data.ravel())


@dataclass(frozen=True, eq=False)
class Biased(Op):
    bias: np.ndarray


@pytest.mark.parametrize(("op", "missing"), [(Op, "kernel"), (Biased, "biases")])
def test_a_layer_that_lacks_something_is_none(op: type[Op], missing: str) -> None:
    present = {"kernel": property(lambda self: None), "biases": lambda self: None}
    with pytest.raises(TypeError, match=missing):
        type(Layer)("Made", (Layer,), present | {missing: getattr(Layer, missing)}, op=op)


def test_an_op_has_one_layer() -> None:
    op = next(iter(LAYER_OF))
    present = {"kernel": property(lambda self: None), "biases": lambda self: None}
    with pytest.raises(TypeError, match=op.__name__):
        type(Layer)("Made", (Layer,), present, op=op)


def imported(tree: ast.AST) -> set[str]:
    """The classes of ops that a module imports, by the name that it has for them."""
    names = {op.__name__ for op in LAYER_OF}
    return {
        alias.asname or alias.name
        for node in ast.walk(tree)
        if isinstance(node, ast.ImportFrom) and "ops" in (node.module or "").split(".")
        for alias in node.names
        if alias.name in names
    }


def allowed(tree: ast.AST, may_ask: bool) -> Iterator[ast.AST]:
    """Where the class of an op may stand: called, in front of a dot, in an annotation; in some
    rooms alone as what isinstance() asks for."""
    for node in ast.walk(tree):
        if isinstance(node, ast.Call):
            yield node.func
            asks = isinstance(node.func, ast.Name) and node.func.id == "isinstance"
            if asks and may_ask:
                yield node.args[1]
        elif isinstance(node, ast.Attribute):
            yield node.value
        elif isinstance(node, ast.FunctionDef) and node.returns:
            yield from ast.walk(node.returns)
        elif isinstance(node, ast.arg | ast.AnnAssign) and node.annotation:
            yield from ast.walk(node.annotation)


def named(source: str, may_ask: bool = False) -> list[str]:
    """Classes of ops that stand where they must not: in lists, tuples, sets, dicts, unions,
    comparisons, under other names."""
    tree = ast.parse(source)
    ops, good = imported(tree), {id(node) for node in allowed(tree, may_ask)}
    names = (node for node in ast.walk(tree) if isinstance(node, ast.Name) and node.id in ops)
    return [f"{name.lineno}: {name.id}" for name in names if id(name) not in good]


MODULES = [path.relative_to(PACKAGE) for path in sorted(PACKAGE.rglob("*.py"))]


@pytest.mark.parametrize("module", [m for m in MODULES if m.parts[0] != "ops"], ids=str)
def test_ops_are_listed_nowhere(module: Path) -> None:
    assert named((PACKAGE / module).read_text(), module.parts[0] in MAY_ASK) == []


@pytest.mark.parametrize(
    "line",
    [
        "isinstance(op, (Add, Pad))",
        "isinstance(op, Add | Pad)",
        "isinstance(op, Add)",
        "some = [Add]",
        "some = {Add: 3}",
        "type(op) is Add",
        "kind = Add",
    ],
)
def test_lists_are_found(line: str) -> None:
    imports = "from vmcu_tools.ops.add import Add\nfrom vmcu_tools.ops.pad import Pad\n"
    assert named(imports + line)
    assert named("from elsewhere import Add, Pad\n" + line) == []


def test_a_reshape_reads_the_rows_of_its_bytes() -> None:
    """Those alone, in the order of its bytes."""
    graph = random_layers("reshape", COUNT, seed=5)
    for node in graph.nodes:
        layer = bind(graph, node)
        (tensor,) = layer.ins
        places = np.arange(tensor.bytes).reshape(tensor.shape)
        for y in range(layer.out.shape[0]):
            rows = np.unique(layer.rows([places], y, y + 1) // tensor.row_bytes)
            assert list(layer.input_rows(0, y)) == rows.tolist()
        np.testing.assert_array_equal(layer.last_reads(0), places)


@pytest.mark.parametrize("kind", ["conv2d", "pointwise", "column", "depthwise", "fully_connected"])
def test_macs_are_those_of_each_output_byte(kind: str) -> None:
    """Of images that are wider than high, too."""
    for node in (graph := random_layers(kind, 8, seed=2)).nodes:
        layer = bind(graph, node)
        taps = layer.op.weights.size // layer.out.shape[2]
        assert layer.macs == taps * layer.out.bytes


def constant_bytes(value: object) -> int:
    if isinstance(value, Array):
        return value.values.nbytes
    inner = value.fields.values() if isinstance(value, Struct) else ()
    return sum(map(constant_bytes, inner))


@pytest.mark.parametrize("kind", ["attention", "pointwise_operator", "table_mean"])
def test_weight_bytes_are_those_of_emitted_constants(kind: str) -> None:
    for node in (graph := random_layers(kind, COUNT, seed=3)).nodes:
        layer = bind(graph, node)
        assert layer.weight_bytes == constant_bytes(layer.kernel.params)
