# SPDX-License-Identifier: Apache-2.0
"""Each kind of operator that once differed from ONNX Runtime by more than the promise, and a few
random ones of every operator, against ONNX Runtime with and without its optimisations."""

from __future__ import annotations

import contextlib
import zlib
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
from builders.onnx_models import OnnxModel
from onnx import TensorProto
from random_onnx_operators import DRAWERS, operator_network
from raw_runtime import RawRuntime
from vmcu_bench import oracle
from vmcu_bench.oracle import node_differences
from vmcu_bench.oracle.promise import Promise
from vmcu_bench.runners.samples import make_samples
from vmcu_bench.verify.verify import Check, Tally, judge_sample
from vmcu_tools import passes, paths
from vmcu_tools.errors import UserError
from vmcu_tools.frontends.onnx.arithmetic import as_int8
from vmcu_tools.frontends.onnx.importer import RULES
from vmcu_tools.frontends.onnx.values import Constant
from vmcu_tools.graph import Graph, Node, Op
from vmcu_tools.machine import reference
from vmcu_tools.ops import bind
from vmcu_tools.ops.layer import LAYER_OF
from vmcu_tools.ops.table_mean import TableMean

FLOAT = TensorProto.FLOAT
# Names, scales and zero points of two inputs.
SIDES = (("x", 0.04, -20), ("slopes", 0.01, 31))
DRAWN = 12


def file_of(folder: Path, m: OnnxModel, shape: tuple[int, ...], y: str, scale: float, zero: int):
    """A file whose output is `y`, quantised; its input "x" is read by the caller."""
    result = m.qdq(y, m.stated(scale, zero))
    path = folder / "m.onnx"
    path.write_bytes(m.proto({"x": (FLOAT, shape)}, {result: (FLOAT, None)}).SerializeToString())
    return path


def held(path: Path, single: bool = True) -> Graph:
    """Asserts that nothing is beyond the promise; returns the file's graph."""
    graph = oracle.open(path).graph
    samples = make_samples(graph, DRAWN, 5, 3)
    assert RawRuntime(path).faults(samples, single) == []
    judge, tally, optimised = oracle.open(path), Tally(), passes.optimize(graph)
    for number, sample in enumerate(samples):
        meaning = reference.run(optimised, sample)
        drawn = number < DRAWN
        judge_sample(optimised, judge, judge.run(sample), meaning, tally, drawn=drawn)
    wrong = [check for check in tally.checks.values() if not check.passed]
    assert wrong == []
    return graph


def ends(path: Path) -> float:
    """The largest difference of the outputs from ONNX Runtime's without optimisation, in steps."""
    raw = RawRuntime(path)
    graph, largest = raw.graph, 0
    for sample in make_samples(graph, DRAWN, 5, 3):
        values, _ = raw.run(sample)
        found = oracle.node_differences(graph, values)
        largest = max(largest, *(one.largest for one in found))
    return largest


def test_each_operator_with_a_rule_is_drawn() -> None:
    assert set(DRAWERS) == set(RULES)


@pytest.mark.parametrize("op", sorted(DRAWERS))
def test_random_operators_keep_the_promise(tmp_path: Path, op: str) -> None:
    compared = 0
    for seed in range(4):
        rng = np.random.default_rng([seed, zlib.crc32(op.encode())])
        path = tmp_path / f"{seed}.onnx"
        path.write_bytes(operator_network(rng, op).file())
        try:
            graph = oracle.open(path).graph
        except UserError:
            continue
        samples = make_samples(graph, 2, 5, seed)
        assert RawRuntime(path).faults(samples, single=True) == []
        compared += 1
    assert compared or op in ("Acos", "Acosh", "Asin", "Atanh", "Log", "Sqrt")


@pytest.mark.parametrize("auto", ["SAME_UPPER", "SAME_LOWER"])
@pytest.mark.parametrize("op", ["Conv", "AveragePool"])
def test_same_padding_crops_where_the_stride_exceeds_the_kernel(tmp_path, op, auto):
    for size, kernel, stride in ((8, 1, 4), (9, 2, 5), (7, 2, 6), (12, 1, 3)):
        # Below opset 19 onnxruntime runs no average with a negative padding.
        m = OnnxModel(size, opset=19)
        x = m.qdq("x", m.stated(0.05, 0))
        names = m.weights((3, 2, kernel, kernel), 0, 0.05, 2 * kernel, "none")[0]
        more = {"strides": [stride] * 2, "auto_pad": auto, "kernel_shape": [kernel] * 2}
        y = m.node(op, [x, *(names if op == "Conv" else [])], **more)
        scale = 0.01 if op == "Conv" else 0.04
        held(file_of(tmp_path, m, (1, 2, size, size + 1), y, scale, 3))


@pytest.mark.parametrize("op", ["LayerNormalization", "InstanceNormalization"])
def test_a_small_epsilon_counts_where_few_values_are_normalised(tmp_path, op):
    for count in (2, 3, 8):
        m = OnnxModel(count, opset=17)
        x = m.qdq("x", m.stated(0.025, -16))
        width = count if op == "LayerNormalization" else 2
        factors = [m.constant(np.full(width, v, np.float32)) for v in (1.7, 0.3)]
        y = m.node(op, [x, *factors], epsilon=1e-4)
        held(file_of(tmp_path, m, (1, 2, count), y, 0.015, 4))


@pytest.mark.parametrize("op", ["ReduceMean", "ReduceSum", "AveragePool", "GlobalAveragePool"])
@pytest.mark.parametrize("function", ["Elu", "HardSwish"])
def test_means_of_functions_in_float_are_rounded_once(tmp_path, op, function):
    m = OnnxModel(5, opset=14)
    y = m.node(function, [m.qdq("x", m.stated(0.025, -20))])
    axes = np.array([2, -1])
    more = {"ReduceMean": {"axes": axes.tolist()}}
    more["AveragePool"] = {"kernel_shape": [1, 8], "strides": [1, 4], "pads": [0, 0, 0, 3]}
    inputs = [y, m.constant(axes)] if op == "ReduceSum" else [y]
    y = m.node(op, inputs, **more.get(op, {}))
    scale = 0.6 if op == "ReduceSum" else 0.003
    path = file_of(tmp_path, m, (1, 5, 6, 16), y, scale, -33)
    graph = held(path)
    assert any(isinstance(node.op, TableMean) for node in graph.nodes)
    assert ends(path) == 0


@pytest.mark.parametrize("op", ["Mul", "Add", "Sub", "Div", "PRelu", "Min", "Max"])
@pytest.mark.parametrize("swapped", [False, True])
def test_float_constants_keep_their_bits(tmp_path, op, swapped):
    if swapped and op in ("Div", "PRelu"):
        pytest.skip(f"{op} has its constant behind")
    for shape, fine in (((4, 5, 6), 0.05), ((4, 5, 1), 0.2), ((1, 1, 6), 1.0)):
        m = OnnxModel(len(shape) + 7)
        x = m.qdq("x", m.stated(0.04, -100))
        constant = m.constant(m.rng.uniform(0.3, 5, shape).astype(np.float32))
        y = m.node(op, [constant, x] if swapped else [x, constant])
        held(file_of(tmp_path, m, (1, 4, 5, 6), y, 0.06 * fine, -19))


@pytest.mark.parametrize("fine", [0.02, 0.3])
def test_slopes_that_are_an_activation(tmp_path, fine):
    m = OnnxModel(4)
    sides = [m.qdq(name, m.stated(scale, zero)) for name, scale, zero in SIDES]
    result = m.qdq(m.node("PRelu", sides), m.stated(fine, -19))
    path = tmp_path / "m.onnx"
    given = {name: (FLOAT, (1, 4, 5, 6)) for name, *_ in SIDES}
    path.write_bytes(m.proto(given, {result: (FLOAT, None)}).SerializeToString())
    (node,) = held(path).nodes
    assert node.op.kind == "prelu"


@pytest.mark.parametrize("factor", [2.0**-21, 2.0**-19, 2.0**9])
def test_sums_with_a_number_of_another_magnitude(tmp_path, factor):
    """The number is less than a step of the output, or one of its steps is more than all of it."""
    m = OnnxModel(6, np.uint8)
    x = m.qdq("x", m.stated(0.04, 77))
    names = [m.constant(v) for v in (np.uint8(101), np.float32(0.03 * factor), np.uint8(100))]
    y = m.node("Add", [x, m.node("DequantizeLinear", names)])
    held(file_of(tmp_path, m, (1, 4, 5, 6), y, 0.03, 90))


@pytest.mark.parametrize("values", [[-2.54, 0.5, 1.27], [0.0, 0.0, 0.0]])
def test_float_constants_fill_the_range_of_int8(values):
    real = np.array(values, np.float32)
    found = as_int8(Constant(real))
    assert found.scale.item() > 0 and found.zero_point.tolist() == [0]
    assert np.abs(found.ints).max() == (127 if real.any() else 0)
    assert np.abs(found.real() - real).max() <= found.scale / 2


@pytest.mark.parametrize("op", ["Add", "Sub"])
@pytest.mark.parametrize("shape", [(3, 4, 5), (3, 1, 1), ()])
def test_sums_with_an_output_scale_far_below_the_inputs(tmp_path, op, shape):
    """Where that is too far, they are refused."""
    for power in (4, 6, 8, 9, 11):
        m = OnnxModel(power)
        x = m.qdq("x", m.stated(0.1, 3))
        y = m.node(op, [x, m.constant(m.rng.uniform(-10, 10, shape).astype(np.float32))])
        path = file_of(tmp_path, m, (1, 3, 4, 5), y, 0.1 * 2.0**-power, 5)
        if power > 6:
            with contextlib.suppress(UserError):
                held(path)
        else:
            held(path)


@pytest.mark.parametrize("op", ["Hardmax", "ArgMax", "ArgMin"])
@pytest.mark.parametrize("way", ["Flatten", "Reshape", "Transpose"])
def test_the_files_order_decides_between_equals(tmp_path, op, way):
    m = OnnxModel(3)
    stated = m.stated(0.04, 26)
    # Few values, of which many are equal.
    low, high = (m.constant(np.float32(v)) for v in (-0.05, 0.05))
    x = m.qdq(m.node("Clip", [m.qdq("x", stated), low, high]), stated)
    if way == "Flatten":
        x = m.node("Flatten", [x], axis=1)
    elif way == "Reshape":
        x = m.node("Reshape", [x, m.constant(np.array([1, 4, -1]))])
    else:
        x = m.node("Transpose", [x], perm=[0, 2, 3, 1])
    x = m.qdq(x, stated)
    if op == "Hardmax":
        held(file_of(tmp_path, m, (1, 4, 5, 6), m.node(op, [x], axis=-1), 1 / 127, 0))
        return
    y = m.node(op, [x], axis=-1)
    path = tmp_path / "m.onnx"
    given = {"x": (FLOAT, (1, 4, 5, 6))}
    path.write_bytes(m.proto(given, {y: (TensorProto.INT64, None)}).SerializeToString())
    held(path)


@pytest.mark.parametrize("op", ["Softmax", "LogSoftmax", "Hardmax"])
def test_over_the_first_axis_of_a_row(tmp_path, op):
    for shape in ((1, 7), (3, 7)):
        m = OnnxModel(4)
        y = m.node(op, [m.qdq("x", m.stated(0.05, 3))], axis=0)
        zero = 127 if op == "LogSoftmax" else -128
        held(file_of(tmp_path, m, shape, y, 0.02 if op == "LogSoftmax" else 1 / 200, zero))


@pytest.mark.parametrize("op", ["Add", "Mul"])
def test_numbers_are_added_as_onnxruntime_fuses_them(tmp_path, op):
    """A sum that is half way between two bytes for every input."""
    m = OnnxModel(6, np.uint8)
    x = m.qdq("x", m.stated(2 / 255, 127))
    names = [m.constant(v) for v in (np.uint8(255), np.float32(1 / 255), np.uint8(0))]
    y = m.node(op, [x, m.node("DequantizeLinear", names)])
    held(file_of(tmp_path, m, (1, 3, 4, 8), y, 2 / 255 if op == "Add" else 1 / 255, 0))


def test_a_promise_has_steps_and_a_share() -> None:
    promise = Promise(1, 0.1)
    assert [promise.most(total) for total in (0, 1, 10, 1000)] == [0, 1, 3, 102]
    assert Promise(0, 0.5).most(1000) == 0


@pytest.mark.parametrize(("wrong", "passes_"), [(1, True), (7, True), (8, False), (30, False)])
def test_a_table_is_judged_by_its_entries(tmp_path: Path, wrong: int, passes_: bool) -> None:
    """One entry half way can be most bytes of an input; many entries are another function."""
    m = OnnxModel(3)
    y = m.node("Sigmoid", [m.qdq("x", m.stated(0.05, 0))])
    judge = oracle.open(file_of(tmp_path, m, (1, 2, 8, 8), y, 1 / 256, -128))
    (node,) = (node for node in judge.graph.nodes if node.op.tabulated)
    table = node.op.table.copy()
    table[:wrong] = np.where(table[:wrong] < 127, table[:wrong] + 1, 126)
    changed = replace(node, op=replace(node.op, table=table))
    graph = replace(
        judge.graph, nodes=tuple(changed if n is node else n for n in judge.graph.nodes)
    )
    # Half of the bytes reach the first entries.
    rng = np.random.default_rng(5)
    x = rng.integers(-128, 128, judge.graph.tensors[node.inputs[0]].shape).astype(np.int8)
    x.ravel()[: max(64, wrong)] = -128 + np.arange(max(64, wrong)) % wrong
    shown = judge.run([x])
    tally = Tally()
    for off in node_differences(graph, shown):
        figures = off.total, off.count, off.largest, judge.promise(graph, off.node)
        tally.add(Check("t", "n", "Lookup", *figures, *off.share[::-1]))
    assert tally.checks["t"].differing >= 64
    assert tally.checks["t"].passed is passes_


@pytest.mark.parametrize(
    ("level", "epsilon", "noisy"), [(90, 1e-5, True), (90, 0.5, False), (1, 1e-5, False)]
)
def test_equal_values_that_are_normalised(
    tmp_path: Path, level: int, epsilon: float, noisy: bool
) -> None:
    """Rounding of float32 is all that a runtime has left of their variance, if epsilon is small."""
    m = OnnxModel(2)
    x = m.qdq("x", m.stated(0.17, 0))
    factors = [m.constant(np.float32(values)) for values in ([1.5, -0.7, 2.0], [0.1, 0.0, -0.2])]
    y = m.node("InstanceNormalization", [x, *factors], epsilon=epsilon)
    judge = oracle.open(file_of(tmp_path, m, (1, 3, 2, 17), y, 0.02, 3))
    (node,) = (node for node in judge.graph.nodes if node.kind == "LayerNorm")
    layer = bind(judge.graph, node)
    given = np.full(layer.ins[0].shape, level, np.int8)
    assert layer.rounding_noise([given]).all() == layer.rounding_noise([given]).any() == noisy
    given[..., 0] += 1
    assert not layer.rounding_noise([given]).any()
    image = np.full(judge.graph.tensors[judge.graph.inputs[0].tensor].shape, level, np.int8)
    image[0] += 1
    wrong = replace(node, op=replace(node.op, gain=node.op.gain * 2))
    for other, differs in ((node, False), (wrong, True)):
        nodes = tuple(other if one is node else one for one in judge.graph.nodes)
        found = node_differences(replace(judge.graph, nodes=nodes), judge.run([image]))
        assert [off.largest > 1 for off in found if off.node is other] == [differs]


def test_the_page_of_models_lists_the_promise() -> None:
    shares: dict[float, list[str]] = {}
    for op in LAYER_OF:
        if not op.exact and op.differing_share != Op.differing_share:
            shares.setdefault(op.differing_share, []).append(op.__name__)
    rows = sorted(
        f"| {', '.join(sorted(ops))} | 1 | {share:.0%} |" for share, ops in shares.items()
    )
    text = (paths.root() / "doc/models.md").read_text()
    table = text.split("<!-- promise -->")[1].split("<!-- end of promise -->")[0].splitlines()
    assert [row.replace(" %", "%") for row in sorted(table[4:-1])] == rows
    assert table[-1] == f"| all others | 1 | {Op.differing_share:.0%} |".replace("%", " %")


@pytest.mark.parametrize(("scale", "expected"), [(0.2, 1), (0.1, 2), (0.004, None)])
def test_a_layer_behind_a_mean_in_float_may_differ_by_what_the_rounding_makes(
    tmp_path, scale, expected
):
    """As PyTorch's fake quantisation leaves it; refused where that is much."""
    m = OnnxModel(8)
    y = m.node("ReduceMean", [m.qdq("x", m.stated(0.05, 3))], axes=[2, 3], keepdims=0)
    y = m.node("MatMul", [y, m.weights((24, 5), None, 0.05, 24, "none")[0][0]])
    path = file_of(tmp_path, m, (1, 24, 3, 5), y, scale, 0)
    if expected is None:
        with pytest.raises(UserError, match="would cost it 44 steps"):
            oracle.open(path)
        return
    graph = held(path, single=False)
    judge = oracle.open(path)
    assert [judge.promise(graph, node).steps for node in graph.nodes] == [1, expected]


def test_too_many_bytes_that_are_a_step_off_fail(tmp_path, monkeypatch):
    m = OnnxModel(2)
    y = m.node("Sigmoid", [m.qdq("x", m.stated(0.05, 3))])
    path = file_of(tmp_path, m, (1, 3, 8, 8), y, 1 / 255, -128)
    judge, tally = oracle.open(path), Tally()
    graph = judge.graph
    samples = make_samples(graph, 3, 0, 1)

    def off_by_one(graph: Graph, node: Node, number: int) -> None:
        values = judge.run(samples[number])
        name = node.outputs[0]
        values[name] = np.clip(values[name].astype(np.int16) + 1, -128, 127).astype(np.int8)
        meaning = reference.run(graph, samples[number])
        judge_sample(graph, judge, values, meaning, tally, drawn=True)

    for number in range(len(samples)):
        off_by_one(graph, graph.nodes[-1], number)
    check = tally.checks[graph.nodes[-1].outputs[0]]
    assert check.largest == 1 and not check.passed


def test_nothing_is_cut_to_int8_ahead_of_an_interpolation(tmp_path):
    for scale in (0.05, 0.002):
        m = OnnxModel(1)
        y = m.node("Elu", [m.qdq("x", m.stated(0.05, 0))])
        sizes = m.constant(np.array([1, 1, 2, 2], np.float32))
        y = m.node("Resize", [y, "", sizes], mode="linear")
        path = file_of(tmp_path, m, (1, 2, 4, 5), y, scale, 0)
        if scale < 0.05:
            with pytest.raises(UserError, match="outside of the output's range"):
                oracle.open(path)
        else:
            held(path, single=False)
