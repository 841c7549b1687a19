# SPDX-License-Identifier: Apache-2.0
"""GRU, LSTM and RNN of float files: the operators that they become, and what int8 makes of them."""

from __future__ import annotations

import itertools
import re
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import onnx
import pytest
from builders.onnx_recurrent import Cell
from drawn import seeds
from onnx import helper
from vmcu_bench.oracle import exact_ort
from vmcu_tools.cli import main
from vmcu_tools.frontends import load
from vmcu_tools.passes.rewrite import same_quantisation
from vmcu_tools.quantize.functions import take_apart
from vmcu_tools.quantize.loops import closed

ort = pytest.importorskip("onnxruntime")
KINDS = ("GRU", "LSTM", "RNN")


def outputs(model: onnx.ModelProto, feeds: dict[str, np.ndarray]) -> dict[str, np.ndarray]:
    session = exact_ort.session(ort, model, "ORT_ENABLE_EXTENDED")
    return dict(zip([o.name for o in session.get_outputs()], session.run(None, feeds), strict=True))


def feeds_of(model: onnx.ModelProto, seed: int) -> dict[str, np.ndarray]:
    rng = np.random.default_rng(seed)
    return {
        value.name: rng.normal(size=[d.dim_value for d in value.type.tensor_type.shape.dim]).astype(
            np.float32
        )
        for value in model.graph.input
    }


def expect_the_same(cell: Cell) -> None:
    """Beside onnxruntime, which takes no batch in front: there it is given the axes exchanged."""
    opened = take_apart(cell.model(), "cell.onnx")
    apart = closed(opened.model, opened.carries)
    assert not {node.op_type for node in apart.graph.node} & {"GRU", "LSTM", "RNN"}
    scans = [node for node in apart.graph.node if node.op_type == "Scan"]
    assert len(scans) == (1 + cell.both if (cell.length or cell.steps) > 1 else 0)
    feeds = feeds_of(apart, 7)
    found = outputs(apart, feeds)
    plain = replace(cell, given={k: v for k, v in cell.given.items() if k != "layout"})
    if cell.batch_first:
        feeds = {name: array.swapaxes(0, 1) for name, array in feeds.items()}
    wanted = outputs(plain.model(), feeds)
    assert set(found) == set(wanted)
    for name, array in wanted.items():
        if cell.batch_first:
            array = array.transpose(2, 0, 1, 3) if name == "y" else array.swapaxes(0, 1)
        np.testing.assert_allclose(found[name], array, atol=2e-6)
        assert np.abs(array).max() > 0.1


@pytest.mark.parametrize("op", KINDS)
@pytest.mark.parametrize(
    ("both", "begins", "biased", "batch_first"), list(itertools.product([False, True], repeat=4))
)
def test_forms(op: str, both: bool, begins: bool, biased: bool, batch_first: bool) -> None:
    given = {"layout": 1} if batch_first else {}
    expect_the_same(Cell(op, both=both, begins=begins, biased=biased, given=given))


@pytest.mark.parametrize("op", KINDS)
@pytest.mark.parametrize("steps", [1, 4])
@pytest.mark.parametrize("batch_first", [False, True])
def test_several_sequences(op: str, steps: int, batch_first: bool) -> None:
    given = {"layout": 1} if batch_first else {}
    for more in ({"both": True}, {"begins": True}, {"both": True, "begins": True}):
        expect_the_same(Cell(op, steps, given=given, batch=3, **more))


FACTORS = {"activation_alpha": [0.3, 0.8, 1.2], "activation_beta": [0.45, 0.9, 0.7]}
GIVEN: list[tuple[str, dict[str, Any], dict[str, Any]]] = [
    ("GRU", {"linear_before_reset": 1}, {}),
    ("GRU", {"linear_before_reset": 1, "direction": "reverse"}, {"begins": True}),
    ("GRU", {"activations": ["Sigmoid", "Softsign"]}, {}),
    ("LSTM", {}, {"peepholes": True}),
    ("LSTM", {"input_forget": 1}, {"peepholes": True, "both": True}),
    ("LSTM", {"clip": 0.4}, {"peepholes": True}),
    ("LSTM", {"activations": ["sigmoid", "tanh", "relu"]}, {}),
    ("LSTM", {"activations": ["Sigmoid", "Tanh", "Softplus"] * 2}, {"both": True}),
    ("LSTM", {"direction": "reverse"}, {"steps": 1, "begins": True}),
    ("RNN", {"activations": ["Relu"], "clip": 0.7}, {}),
    ("RNN", {"direction": "reverse"}, {"size": 1, "inputs": 1}),
    ("RNN", {"activations": ["HardSigmoid"]}, {}),
    ("RNN", {"activations": ["Elu", "LeakyRelu"], "activation_alpha": [0.7]}, {"both": True}),
    ("RNN", {"activations": ["ThresholdedRelu"], "activation_alpha": [0.1]}, {}),
    ("GRU", {"activations": ["HardSigmoid", "ScaledTanh"]} | FACTORS, {"begins": True}),
    ("LSTM", {"activations": ["HardSigmoid", "Affine", "ScaledTanh"]} | FACTORS, {}),
    ("GRU", {}, {"steps": 6, "length": 4}),
    ("LSTM", {"direction": "reverse"}, {"steps": 5, "length": 3, "begins": True}),
    ("RNN", {}, {"steps": 6, "length": 2, "both": True, "batch": 2}),
    ("GRU", {"layout": 1}, {"steps": 5, "length": 1, "batch": 2}),
]


@pytest.mark.parametrize(("op", "given", "more"), GIVEN, ids=str)
def test_attributes(op: str, given: dict[str, Any], more: dict[str, Any]) -> None:
    expect_the_same(Cell(op, given=given, **more))


def quantized(cell: Cell, folder: Path, samples: int = 32) -> Path:
    onnx.save(cell.model(), folder / "float.onnx")
    data = [feeds_of(cell.model(), seed) for seed in range(samples)]
    arrays = {name: np.stack([one[name] for one in data]) for name in data[0]}
    np.savez(folder / "data.npz", **arrays)
    target = folder / "int8.onnx"
    words = ["quantize", "float.onnx", "--calibration", "data.npz", "-o", "int8.onnx"]
    assert main([word if "." not in word else str(folder / word) for word in words]) == 0
    return target


# One direction of a cell costs half, and is in the other.
@pytest.mark.parametrize("op", KINDS)
@pytest.mark.parametrize("both", [pytest.param(False, marks=pytest.mark.slow), True])
def test_int8(op: str, both: bool, tmp_path: Path) -> None:
    """Each byte is ONNX Runtime's, and values are near those in float."""
    cell = Cell(op, steps=3 if both else 6, both=both, begins=both, seed=2)
    path = quantized(cell, tmp_path)
    assert main(["verify", str(path), "-n", "20"]) == 0
    assert main(["verify", str(path), "-n", "20", "--on", "host"]) == 0
    feeds = feeds_of(cell.model(), 100)
    wanted, found = outputs(cell.model(), feeds), outputs(onnx.load(path), feeds)
    for name, array in wanted.items():
        error = np.abs(found[name] - array)
        assert error.max() < 0.15 and error.mean() < 0.03, name


@pytest.mark.parametrize("op", KINDS)
@pytest.mark.parametrize("seed", seeds(200, 2))
def test_random_cells(
    op: str, seed: int, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """Each byte is ONNX Runtime's, over whole windows or call by call, unless a float sum of its
    loop rounds to the other neighbour, which happens in one of 200 cells."""
    rng = np.random.default_rng(seed)
    steps, inputs, size = (int(rng.integers(1, n)) for n in (7, 20, 20))
    begins, both, biased = (bool(rng.integers(2)) for _ in range(3))
    given = {"linear_before_reset": int(rng.integers(2))} if op == "GRU" else {}
    if op == "LSTM" and not both and rng.random() < 0.3:
        given["input_forget"] = 1
    peepholes = op == "LSTM" and bool(rng.integers(2))
    cell = Cell(op, steps, inputs, size, both, begins, biased, peepholes, given, seed)
    path = quantized(cell, tmp_path, 8)
    options = ["-n", "30", "--seed", str(seed), "--on", "host" if seed < 3 else "virtual"]
    capsys.readouterr()
    assert main(["verify", str(path), *options]) == 0
    shares = re.findall(r"([\d,]+) of ([\d,]+) values differ", capsys.readouterr().out)
    counts = [[int(number.replace(",", "")) for number in pair] for pair in shares]
    assert counts and all(differing <= 0.02 * values for differing, values in counts)


@pytest.mark.parametrize("op", KINDS)
def test_a_state_that_is_kept(op: str, tmp_path: Path) -> None:
    """One step a call: both ends of each state have one scale, so that nothing converts it."""
    cell = Cell(op, steps=1, begins=True, seed=3)
    path = quantized(cell, tmp_path)
    graph = load(path)
    ports = {port.name: port for port in (*graph.inputs, *graph.outputs)}
    for state in cell.states:
        ends = (graph.tensors[ports[f"{state}{end}"].tensor] for end in ("0", "n"))
        assert same_quantisation(*ends)
    for target in ("virtual", "host"):
        assert main(["verify", str(path), "-n", "60", "--on", target]) == 0


def spoiled(cell: Cell, place: int, name: str) -> onnx.ModelProto:
    """Another input at a place of the node: one of the model's, or none of it."""
    model = cell.model()
    inputs = [*model.graph.node[0].input, *[""] * 8]
    inputs[place] = name
    del model.graph.node[0].input[:]
    model.graph.node[0].input.extend(inputs[:8])
    model.graph.input.append(helper.make_tensor_value_info(name, onnx.TensorProto.FLOAT, (1,)))
    return model


REFUSED = [
    (spoiled(Cell("GRU"), 4, "lengths"), "the sequence's length is an input"),
    (spoiled(Cell("LSTM"), 1, "weights"), "input 1 is not constant"),
    (Cell("RNN", given={"activations": ["Cosine"]}).model(), "the activations Cosine"),
]


@pytest.mark.parametrize(("model", "said"), REFUSED, ids=[said for _, said in REFUSED])
def test_what_is_refused(
    model: onnx.ModelProto, said: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    onnx.save(model, tmp_path / "float.onnx")
    arrays = {name: array[None] for name, array in feeds_of(model, 1).items()}
    np.savez(tmp_path / "data.npz", **arrays)
    words = ["quantize", str(tmp_path / "float.onnx"), "--calibration", str(tmp_path / "data.npz")]
    assert main([*words, "-o", str(tmp_path / "int8.onnx")]) == 1
    text = capsys.readouterr().err
    assert said in text and "hint: " in text and "float.onnx: cell" in text
    assert not (tmp_path / "int8.onnx").exists()
