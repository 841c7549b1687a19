# SPDX-License-Identifier: Apache-2.0
"""Recurrence as a loop: any number of steps with the same tables, beside ONNX Runtime."""

from __future__ import annotations

import json
import re
import time
from pathlib import Path
from typing import Any

import numpy as np
import onnx
import pytest
from builders.onnx_loops import INPUTS, SIZE, coupled, scan
from builders.onnx_recurrent import Cell
from drawn import case
from onnx import helper
from vmcu_tools.cli import main
from vmcu_tools.frontends import load
from vmcu_tools.passes import optimize

pytest.importorskip("onnxruntime")


def quantized(model: onnx.ModelProto, folder: Path, *words: str) -> Path:
    source, data, target = (folder / name for name in ("float.onnx", "data.npz", "int8.onnx"))
    onnx.save(model, source)
    rng = np.random.default_rng(5)
    values = [
        (v.name, [d.dim_value for d in v.type.tensor_type.shape.dim]) for v in model.graph.input
    ]
    np.savez(data, **{n: rng.normal(size=(8, *s)).astype(np.float32) for n, s in values})
    command = ["quantize", str(source), "--calibration", str(data), "-o", str(target)]
    assert main([*command, "--min-agreement", "0", *words]) == 0
    return target


def figures(path: Path, *words: str) -> dict[str, Any]:
    report = path.with_suffix(".json")
    assert main(["build", str(path), "--json", str(report), "--quiet", *words]) == 0
    found: dict[str, Any] = json.loads(report.read_text())
    return found


def nodes(*ops: str) -> list[onnx.NodeProto]:
    """Each "Op input ... output"."""
    parted = (op.split() for op in ops)
    return [helper.make_node(op, ins, [out]) for op, *ins, out in parted]


SUM = ("MatMul xt W xw", "MatMul s R sr", "Add xw sr sum", "Tanh sum after")
SCANS: dict[str, dict[str, Any]] = {
    "reads the state before": {"body": nodes(*SUM, "Sigmoid s yt")},
    "reads both": {"body": nodes(*SUM, "Mul s after yt")},
    "plain": {},
    "vectors": {"vectors": True},
    "batch": {"batch": 3},
    "backwards": {"backwards": True},
    "begins": {"begins": np.linspace(-0.6, 0.7, SIZE)[None]},
    "one step": {"steps": 1},
}


@pytest.mark.parametrize("name", SCANS)
def test_a_scan_of_a_person(name: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """Each byte of all steps is ONNX Runtime's, and values are near those in float."""
    path = quantized(scan(**SCANS[name]), tmp_path)
    capsys.readouterr()
    assert main(["verify", str(path), "-n", "20", "--on", "host"]) == 0
    text = capsys.readouterr().out
    assert set(re.findall(r"([\d,]+) of [\d,]+ values differ", text)) == {"0"}
    (scans,) = [n for n in onnx.load(path).graph.node if n.op_type == "Scan"] or [None]
    assert (scans is None) == (name == "one step")


# Two states: each of the other, one of what the other becomes, one a step behind, twins.
ONE = ("MatMul xt W xw", "MatMul b R br", "Add xw br s")
COUPLED = {
    "swapped": nodes(*ONE, "Tanh s an", "Sigmoid a bn", "Relu an yt"),
    "fed back": nodes(*ONE, "Tanh s an", "MatMul an Q m", "Sigmoid m bn", "Mul an a yt"),
    "shifted": nodes(*ONE, "Tanh s an", "Identity a bn", "Relu an yt"),
    "twins": nodes(*ONE, "MatMul a Q aq", "Add s aq t", "Tanh t an", "Identity an bn", "Relu t yt"),
}


@pytest.mark.parametrize("outputs", [("y",), ("al",), ("bl",), ("y", "al", "bl")], ids="-".join)
@pytest.mark.parametrize("name", COUPLED)
def test_states_that_depend_on_each_other(
    name: str, outputs: tuple[str, ...], tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    path = quantized(coupled(COUPLED[name], outputs), tmp_path)
    capsys.readouterr()
    assert main(["verify", str(path), "-n", "3", "--on", "host"]) == 0
    text = capsys.readouterr().out
    assert set(re.findall(r"([\d,]+) of [\d,]+ values differ", text)) == {"0"}


def own(*nodes: onnx.NodeProto) -> onnx.ModelProto:
    return scan(body=[*nodes, helper.make_node("Sigmoid", ["after"], ["yt"])])


# What a Scan is refused for.
REFUSED = {
    "does not depend on the step before": scan(
        body=nodes("MatMul xt W xw", "Tanh xw after", "Sigmoid s yt")
    ),
    "its body has a Transpose": own(
        helper.make_node("Transpose", ["s"], ["turned"], perm=[1, 0]),
        helper.make_node("Transpose", ["turned"], ["after"], perm=[1, 0]),
    ),
    "it scans another axis than the first": scan(scan_input_axes=[1], batch=5),
}


@pytest.mark.parametrize("said", REFUSED)
def test_what_is_refused(said: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    source = tmp_path / "float.onnx"
    onnx.save(REFUSED[said], source)
    np.savez(tmp_path / "data.npz", x=np.zeros((1, 5, 1, INPUTS), np.float32))
    words = ["quantize", str(source), "--calibration", str(tmp_path / "data.npz")]
    assert main([*words, "-o", str(tmp_path / "int8.onnx")]) == 1
    text = capsys.readouterr().err
    assert said in text and "float.onnx: loop (Scan)" in text and "hint: " in text


def last_state(cell: Cell) -> onnx.ModelProto:
    """A network whose only output is the state behind the last step."""
    model = cell.model()
    last = [value for value in model.graph.output if value.name == "hn"]
    del model.graph.output[:]
    model.graph.output.extend(last)
    model.graph.node[0].output[:] = ["", "hn", *[""] * (cell.op == "LSTM")]
    return model


@pytest.mark.parametrize("op", ["GRU", "LSTM", "RNN"])
def test_tables_do_not_grow_with_steps(op: str, tmp_path: Path) -> None:
    """Of 1,000 steps as of 10, but for the calls of the first and the last, and soon done."""
    sizes = []
    for steps in (10, 1000):
        folder = tmp_path / str(steps)
        folder.mkdir()
        before = time.process_time()
        path = quantized(last_state(Cell(op, steps=steps, inputs=3, size=8)), folder)
        report = figures(path, "--stream-input")
        assert time.process_time() - before < 20
        sizes.append([report[f"{what}_bytes"] for what in ("weights", "pool", "tables")])
    few, many = np.array(sizes)
    assert (few[:2] == many[:2]).all() and abs(many[2] - few[2]) <= 32


def test_a_window_that_begins_again(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    path = quantized(last_state(Cell("GRU", steps=7)), tmp_path)
    capsys.readouterr()
    assert main(["build", str(path), "--hop", "1"]) == 0
    assert "its state begins again in each window" in " ".join(capsys.readouterr().out.split())


WAYS = (
    "--on host",
    "--on host --stream-input",
    "--on host+container",
    "--on host --external-weights 10MB/s",
    "--on host --rotate",
    "--hop 2 --on host",
    "--memory fast=200,slow=4000:4",
)


# Each way with the cells by turns; the rest is slow.
@pytest.mark.parametrize(
    ("op", "words"),
    [
        case(op, way, slow=(place + turn) % 2 == 1)
        for place, way in enumerate(WAYS)
        for turn, op in enumerate(("LSTM", "GRU"))
    ],
)
def test_ways_to_run(op: str, words: str, tmp_path: Path) -> None:
    cell = Cell(op, steps=7, both=op == "LSTM", seed=4)
    # A hop has one output.
    model = last_state(cell) if "--hop" in words else cell.model()
    path = quantized(model, tmp_path)
    assert main(["verify", str(path), "-n", "3", *words.split()]) == 0


def test_the_last_step_alone(tmp_path: Path) -> None:
    """Y[-1] and Y_h need the same RAM: no other step is kept."""
    pools = []
    for name in ("y", "hn"):
        folder = tmp_path / name
        folder.mkdir()
        model = Cell("RNN", steps=16, inputs=6, size=16).model()
        graph = model.graph
        picked = [v for v in graph.output if v.name == "hn"]
        del graph.output[:]
        graph.output.extend(picked)
        if name == "y":
            graph.node[0].output[:] = ["y"]
            graph.initializer.append(onnx.numpy_helper.from_array(np.array(-1), "last"))
            graph.node.append(helper.make_node("Gather", ["y", "last"], ["hn"], axis=0))
        else:
            graph.node[0].output[:] = ["", "hn"]
        pools.append(figures(quantized(model, folder))["pool_bytes"])
    assert pools[0] == pools[1] < 16 * 6 + 4 * 16


def test_int4_weights_in_a_loop(tmp_path: Path) -> None:
    path = quantized(Cell("GRU", steps=6, size=16).model(), tmp_path, "--weights", "int4")
    kinds = {t.data_type for t in onnx.load(path).graph.initializer if len(t.dims) == 2}
    assert onnx.TensorProto.INT4 in kinds and onnx.TensorProto.INT8 not in kinds
    assert main(["verify", str(path), "-n", "5"]) == 0


@pytest.mark.parametrize(
    ("command", "said"),
    [
        (["compare"], "the network has a loop"),
        (
            ["build", "--format", "container", "--online", "-o", "out"],
            "those of a loop run in turns",
        ),
    ],
    ids=["compare", "online"],
)
def test_what_a_loop_cannot(
    command: list[str],
    said: str,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    path = quantized(Cell("RNN").model(), tmp_path)
    monkeypatch.chdir(tmp_path)
    capsys.readouterr()
    assert main([command[0], str(path), *command[1:]]) == 1
    text = capsys.readouterr().err
    assert said in text and "hint: " in text and not (tmp_path / "out").exists()


def test_a_loop_is_one_run_of_nodes(tmp_path: Path) -> None:
    """Two directions, two loops; nothing else reads a tensor before it is made."""
    graph = optimize(load(quantized(Cell("GRU", both=True).model(), tmp_path)))
    assert len(graph.loops) == 2 == len(graph.carried)
    for loop in graph.loops:
        first, last = graph.nodes[loop.start], graph.nodes[loop.stop - 1]
        assert set(first.inputs) & set(last.outputs) <= graph.carried
