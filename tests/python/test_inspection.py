# SPDX-License-Identifier: Apache-2.0
"""`vmcu inspect` says what is in a file and what may be in one."""

from __future__ import annotations

import ast
import inspect
import json
import textwrap
from collections.abc import Callable
from pathlib import Path

import onnx
from builders.onnx_models import CASES, OnnxModel, single
from builders.tflite_models import TfliteModel, conv
from vmcu_tools.cli import main
from vmcu_tools.frontends.onnx import importer as onnx_frontend
from vmcu_tools.frontends.tflite import arrays as tflite_arrays
from vmcu_tools.frontends.tflite import importer as tflite_frontend
from vmcu_tools.report import inspection

OPS = Path(__file__).resolve().parents[2] / "doc" / "ops.md"


def test_supported_model(tmp_path, capsys):
    m = TfliteModel()
    path = m.save(tmp_path / "m.tflite", *conv((6, 6), 4, 8, (3, 3))(m))
    assert main(["inspect", str(path), "--json", str(tmp_path / "m.json")]) == 0
    assert "supported; 1 layer, 10,368 MACs" in capsys.readouterr().out
    found = json.loads((tmp_path / "m.json").read_text())
    (node,) = found["nodes"]
    assert (node["op"], node["shape"], node["macs"]) == ("Conv2D", [6, 6, 8], 6 * 6 * 8 * 9 * 4)
    assert found["inputs"][0]["shape"] == [1, 6, 6, 4]


def test_unsupported_model(tmp_path, capsys):
    m = OnnxModel()
    y = m.node("LRN", [m.qdq("x", m.stated())])
    kind = onnx.TensorProto.FLOAT
    path = tmp_path / "m.onnx"
    onnx.save(m.proto({"x": (kind, (1, 4))}, {m.qdq(y, m.stated()): (kind, None)}), path)
    assert main(["inspect", str(path), "--json", str(tmp_path / "m.json")]) == 1
    captured = capsys.readouterr()
    assert "(LRN): this operation is not supported" in captured.err
    rows = {n["op"]: n["problem"] for n in json.loads((tmp_path / "m.json").read_text())["nodes"]}
    assert rows["LRN"] and not rows["QuantizeLinear"]


def test_missing_file(tmp_path, capsys):
    onnx.save(single(OnnxModel(), *CASES["relu"]), tmp_path / "model.onnx")
    assert main(["inspect", str(tmp_path / "modle.onnx")]) == 1
    assert f"did you mean {tmp_path / 'model.onnx'}?" in capsys.readouterr().err


def test_ops_are_those_of_the_registries(tmp_path, capsys):
    assert main(["inspect", "--operators", "--json", str(tmp_path / "ops.json")]) == 0
    found = {entry["format"]: entry for entry in json.loads((tmp_path / "ops.json").read_text())}
    assert set(found[".onnx"]["supported"]) == set(onnx_frontend.RULES)
    assert found[".onnx"]["constraints"]["QLinearConv"] == "as Conv; no channels_last"
    assert set(found[".tflite"]["supported"]) == set(tflite_frontend.RULES)
    assert {"LSTM", "GRU", "RNN"} <= set(found[".onnx"]["rewritten"])
    assert not found[".tflite"]["rewritten"]
    assert "RESIZE_BILINEAR" in capsys.readouterr().out


def test_doc_is_current():
    assert OPS.read_text() == inspection.markdown(inspection.coverage())


REFUSALS = {"require", "present", "UnsupportedError"}
ENTRIES = [
    *((op, found, onnx_frontend.CONSTRAINTS) for op, found in onnx_frontend.RULES.items()),
    *((op, found, tflite_frontend.CONSTRAINTS) for op, found in tflite_frontend.RULES.items()),
    *((op, found, tflite_frontend.CONSTRAINTS) for op, found in tflite_arrays.MOVERS.items()),
]


def refuses(function: Callable[..., object]) -> bool:
    """Whether the body of a function calls one of REFUSALS."""
    tree = ast.parse(textwrap.dedent(inspect.getsource(function)))
    calls = (node.func for node in ast.walk(tree) if isinstance(node, ast.Call))
    return any(isinstance(name, ast.Name) and name.id in REFUSALS for name in calls)


def test_rules_that_refuse_state_their_constraints():
    refusing = [(op, stated) for op, function, stated in ENTRIES if refuses(function)]
    assert len(refusing) > 60
    assert [op for op, stated in refusing if not stated[op]] == []
