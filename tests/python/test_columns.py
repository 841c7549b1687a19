# SPDX-License-Identifier: Apache-2.0
"""Images whose time is W: rows and columns exchanged, to the byte, and pushed by columns."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import onnx
import pytest
from builders.onnx_models import OnnxModel, conv, dense
from builders.tflite_states import StatefulModel
from drawn import CASES, seeds
from hypothesis import Phase, example, given, reject, settings
from hypothesis import strategies as st
from onnx import TensorProto
from random_graphs import LAYERS, random_inputs, random_layers
from test_streams import vmcu
from vmcu_bench.oracle import whole
from vmcu_bench.verify.stream import verify
from vmcu_tools.compiler import compile_model
from vmcu_tools.errors import UserError
from vmcu_tools.frontends import load
from vmcu_tools.machine import reference
from vmcu_tools.ops.move import Move
from vmcu_tools.passes.state.transpose import transpose_images
from vmcu_tools.plan.turns import macs_of_hop
from vmcu_tools.planner.options import CompileOptions

# What works on rows and columns alike has no copies around it.
COPIED = {"reshape", "matmul", "attention", "moving_operator"}


@pytest.mark.parametrize("kind", LAYERS)
@pytest.mark.parametrize("seed", seeds(3, 1))
def test_any_layer(kind: str, seed: int) -> None:
    graph = random_layers(kind, 6, seed)
    given = random_inputs(graph, seed)
    wanted = reference.run(graph, given)
    other = transpose_images(graph)
    columns = [np.ascontiguousarray(image.swapaxes(0, 1)) for image in given]
    found = reference.run(other, columns)
    for port, mine in zip(graph.outputs, other.outputs, strict=True):
        np.testing.assert_array_equal(np.ravel(found[mine.tensor]), np.ravel(wanted[port.tensor]))
    copies = sum(isinstance(node.op, Move) for node in other.nodes)
    assert kind in COPIED or copies <= len(graph.outputs)


LAYER = st.tuples(
    st.sampled_from(["conv", "depthwise", "pool", "mean", "pad", "up", "sum", "transposed"]),
    st.tuples(st.integers(1, 3), st.integers(1, 4)),
    st.tuples(st.sampled_from([1, 1, 2]), st.sampled_from([1, 1, 1, 2, 3])),
    st.tuples(st.sampled_from([0, 0, 1]), st.sampled_from([0, 0, 0, 1])),
)
ENDS = ("whole", "flat", "rows", "product")


class Drawn:
    """A file of layers over (1, C, H, W) whose time is W."""

    def __init__(self, layers: list[tuple], end: str, size: tuple[int, int]):
        self.m, self.channels, self.size = OnnxModel(sum(size)), 3, size
        self.shape = (1, self.channels, *size)
        self.scale = 0.05
        self.x = self.m.qdq("x", self.m.stated(self.scale))
        for kind, kernel, stride, pad in layers:
            kernel = tuple(min(k, n) for k, n in zip(kernel, self.size, strict=True))
            pad = tuple(min(p, k - 1) for p, k in zip(pad, kernel, strict=True))
            getattr(self, kind)(kernel, stride, pad)
        getattr(self, end)()

    def _put(self, y: str, scale: float | None, size: tuple[int, int]) -> None:
        stated = self.m.stated(self.scale if scale is None else scale)
        self.x, self.size = self.m.qdq(y, stated), size
        self.scale = self.m.scales[stated[0]]

    def _sized(self, kernel, stride, pad) -> tuple[int, int]:
        parts = zip(self.size, kernel, stride, pad, strict=True)
        high, wide = ((n + 2 * p - k) // s + 1 for n, k, s, p in parts)
        return high, wide

    def conv(self, kernel, stride, pad, group: int = 1) -> None:
        window = {"pads": [*pad, *pad], "strides": list(stride), "group": group}
        y, scale = conv(self.channels, self.channels, kernel, **window)(self.m, self.x, self.scale)
        self._put(y, scale, self._sized(kernel, stride, pad))

    def depthwise(self, kernel, stride, pad) -> None:
        self.conv(kernel, stride, pad, self.channels)

    def pool(self, kernel, stride, pad, op: str = "MaxPool") -> None:
        window = {"kernel_shape": list(kernel), "pads": [*pad, *pad], "strides": list(stride)}
        self._put(self.m.node(op, [self.x], **window), None, self._sized(kernel, stride, pad))

    def mean(self, kernel, stride, pad) -> None:
        self.pool(kernel, stride, (0, 0), "AveragePool")

    def pad(self, kernel, stride, pad) -> None:
        amounts = self.m.constant(np.array([0, 0, *pad, 0, 0, *kernel]))
        self._put(self.m.node("Pad", [self.x, amounts]), None, self._taller(kernel, pad))

    def _taller(self, *more) -> tuple[int, int]:
        high, wide = (sum(sizes) for sizes in zip(self.size, *more, strict=True))
        return high, wide

    def up(self, kernel, stride, pad) -> None:
        if self.size[1] > 20:
            return
        scales = self.m.constant(np.array([1, 1, *stride], np.float32))
        y = self.m.node("Resize", [self.x, "", scales], mode="nearest")
        self._put(y, None, (self.size[0] * stride[0], self.size[1] * stride[1]))

    def sum(self, kernel, stride, pad) -> None:
        before = self.x
        self.conv((1, 1), (1, 1), (0, 0))
        self._put(self.m.node("Add", [before, self.x]), 0.1, self.size)

    def transposed(self, kernel, stride, pad) -> None:
        """Rows and columns in each other's place, and back behind a layer."""
        y = self.m.node("Transpose", [self.x], perm=[0, 1, 3, 2])
        self._put(y, None, self.size[::-1])
        self.conv((1, 1), (1, 1), (0, 0))
        y = self.m.node("Transpose", [self.x], perm=[0, 1, 3, 2])
        self._put(y, None, self.size[::-1])

    def whole(self) -> None:
        self.conv(self.size, (1, 1), (0, 0))

    def flat(self) -> None:
        count = self.channels * self.size[0] * self.size[1]
        y, scale = dense("Gemm", count, 4, flatten=True)(self.m, self.x, self.scale)
        self._put(y, scale, (1, 1))

    def rows(self) -> None:
        """An answer of several rows and columns."""

    def product(self) -> None:
        """Rows times columns, which no order of axes makes alike."""
        y = self.m.node("Transpose", [self.x], perm=[0, 1, 3, 2])
        self._put(self.m.node("MatMul", [self.x, y]), 0.5, (self.size[0], self.size[0]))

    def save(self, path: Path) -> Path:
        kind = TensorProto.FLOAT
        onnx.save(self.m.proto({"x": (kind, self.shape)}, {self.x: (kind, None)}), path)
        return path


# Without shrinking: each example is compiled and run.
@settings(max_examples=CASES // 12, deadline=None, phases=(Phase.explicit, Phase.generate))
@given(
    st.lists(LAYER, min_size=1, max_size=3),
    st.sampled_from(ENDS),
    st.tuples(st.integers(2, 6), st.integers(6, 14)),
    st.integers(1, 3),
)
@example([("conv", (3, 3), (2, 1), (1, 0))], "flat", (5, 12), 1)
@example(
    [(kind, (2, 2), (1, 1), (0, 0)) for kind in ("depthwise", "pool", "sum")], "whole", (5, 9), 1
)
@example([("pad", (1, 2), (1, 1), (0, 1)), ("mean", (2, 3), (1, 2), (0, 0))], "rows", (4, 9), 2)
@example([("up", (1, 1), (2, 2), (0, 0)), ("transposed",) + ((1, 1),) * 3], "product", (3, 8), 1)
def test_files_beside_onnxruntime(
    tmp_path_factory: pytest.TempPathFactory,
    layers: list[tuple],
    end: str,
    size: tuple[int, int],
    hop: int,
) -> None:
    path = Drawn(layers, end, size).save(tmp_path_factory.mktemp("drawn") / "drawn.onnx")
    try:
        load(path)
    except UserError:
        # Of its transpositions some are refused, whatever time is.
        reject()
    plan = compile_model(path, CompileOptions(hop=hop, time="w"))
    shape = plan.model.tensors[plan.model.inputs[0].tensor].shape
    assert shape == (size[1], size[0], 3) and plan.model.inputs[0].layout == "ncwh"
    outcome = verify(plan, "host:sanitize", 60, 1)
    assert outcome.window == size[1] and outcome.passed
    # Sums, means and products of the runtime may be a step off by themselves.
    exact = end != "product" and all(kind not in ("sum", "mean") for kind, *_ in layers)
    assert not exact or not outcome.judged[0].differing


@pytest.fixture(scope="module")
def heard(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """6 bands along H, a window of 12 along W; one layer pads along H, one sees the window."""
    path = tmp_path_factory.mktemp("heard") / "heard.onnx"
    layers = [("conv", (3, 3), (1, 1), (1, 0)), ("pool", (2, 1), (2, 1), (0, 0))]
    return Drawn(layers, "flat", (6, 12)).save(path)


def test_a_hop_computes_new_columns_alone(heard: Path) -> None:
    plan = compile_model(heard, CompileOptions(hop=1, time="w"))
    assert sum(macs_of_hop(plan)) == 6 * 9 * 9 + 3 * 10 * 3 * 4
    assert plan.graph.state.unbounded_nodes == 0 and not any(
        isinstance(n.op, Move) for n in plan.graph.nodes
    )


def test_a_tflite_file(tmp_path: Path) -> None:
    m = StatefulModel(5)
    m.model.subgraphs.pop()
    m.graph.operators.clear()
    x = m.activation((1, 3, 16, 4), 0.05)
    y = m.convolved(m.convolved(x, 8, 3, across=True), 6, 3)
    path = m.save(tmp_path / "wide.tflite", [x], [m.dense(y, 3)])
    plan = compile_model(path, CompileOptions(hop=2, time="w"))
    outcome = verify(plan, "qemu:m4", 200, 1)
    assert outcome.passed and not outcome.judged[0].differing and len(outcome.judged) == 1


@pytest.mark.parametrize(
    ("target", "end"), [("virtual", "flat"), ("host", "rows"), ("host+container", "rows")]
)
def test_vmcu_run_takes_the_array_of_the_file(
    target: str, end: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """Each answer is what ONNX Runtime makes of the columns up to there, as the file has them."""
    drawn = Drawn([("conv", (3, 3), (1, 1), (0, 0))], end, (5, 9))
    model = drawn.save(tmp_path / "m.onnx")
    values = np.random.default_rng(5).normal(0, 2, (1, 3, 5, 30)).astype(np.float32)
    np.save(tmp_path / "x.npy", values)
    words = ("--hop", 2, "--time", "w")
    if target == "host+container":
        assert vmcu(capsys, "build", model, *words, "--format", "container", "-o", tmp_path)[0] == 0
        words, file, target = (), tmp_path / "m.vmcu", "host"
    else:
        file = model
    ends = ("--input", tmp_path / "x.npy", "--output", tmp_path / "y.npy", "--on", target)
    code, _, said = vmcu(capsys, "run", file, *words, *ends)
    assert code == 0, said
    judge, _ = whole.runner(model, load(model))
    wanted = [judge([values[..., at : at + 9]])[0] for at in range(0, 22, 2)]
    found = np.load(tmp_path / "y.npy")
    if file.suffix == ".vmcu":
        # It knows bytes, and no real numbers.
        port = compile_model(model).graph.outputs[0]
        tensor = compile_model(model).graph.tensors[port.tensor]
        found = (found.astype(np.float32) - tensor.zero_point) * np.float32(tensor.scale)
    np.testing.assert_array_equal(found, np.stack(wanted).reshape(found.shape))
    np.save(tmp_path / "x.npy", values[..., :8])
    code, _, said = vmcu(capsys, "run", file, *words, *ends)
    assert code == 1 and "the array has 120 values [1, 3, 5, 8]" in said
    assert "takes 135 [1, 3, 5, 9]" in said and "with 9 columns or more" in said


def test_what_is_said(heard: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    words = ("build", heard, "--hop", 1, "--time", "w", "-o", tmp_path)
    code, said, _ = vmcu(capsys, *words, "--json", tmp_path / "r.json")
    assert code == 0 and "time is axis W of 'x'" in said
    assert any(
        "time is axis W" in note for note in json.loads((tmp_path / "r.json").read_text())["notes"]
    )
    text = (tmp_path / "heard.c").read_text()
    assert "--hop 1 --time w" in text and "VMCU_IO_COLUMNS" in text
    # Six rows are no window for a hop of seven; twelve columns are.
    code, said, _ = vmcu(capsys, "verify", heard, "--hop", 7, "-n", 50)
    assert code == 0 and "window 12 rows, hop 7" in said
    code, said, _ = vmcu(capsys, "build", heard, "--hop", 1)
    assert code == 0 and "time is axis W" not in said and "over a window of 6 rows" in said
    code, _, said = vmcu(capsys, "build", heard, "--hop", 7, "--time", "h")
    assert code == 1 and "the window has only 6 rows along H" in said
    code, _, said = vmcu(capsys, "build", heard, "--time", "w")
    assert code == 1 and "--time requires --hop" in said


def test_one_column_is_no_time(tmp_path: Path) -> None:
    path = Drawn([("conv", (3, 1), (1, 1), (0, 0))], "flat", (8, 1)).save(tmp_path / "tall.onnx")
    with pytest.raises(UserError, match="the window has 1 columns along W"):
        compile_model(path, CompileOptions(hop=1, time="w"))


def test_rows_that_are_left_of_an_image_are_those_of_a_hop(tmp_path: Path) -> None:
    """A layer that sees all of the window and several columns, with another behind it."""
    layers = [("conv", (9, 1), (1, 1), (0, 0)), ("conv", (1, 3), (1, 1), (0, 0))]
    path = Drawn(layers, "flat", (9, 6)).save(tmp_path / "left.onnx")
    plan = compile_model(path, CompileOptions(hop=1))
    assert plan.graph.state.unbounded_nodes == 0
    assert verify(plan, "host", 50, 1).passed


def test_an_application_says_it_too(
    heard: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    words = ("new", tmp_path / "app", "--model", heard, "--hop", 1, "--time", "w")
    assert vmcu(capsys, *words)[0] == 0
    assert "HOP 1 TIME w)" in (tmp_path / "app/CMakeLists.txt").read_text()
