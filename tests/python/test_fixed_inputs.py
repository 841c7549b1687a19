# SPDX-License-Identifier: Apache-2.0
"""--constant: inputs that become constants, beside the float model that is given them."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import onnx
import onnxruntime
import pytest
from builders.onnx_models import OnnxModel
from onnx import TensorProto
from vmcu_tools.cli import main

INT64, TOKENS = TensorProto.INT64, 6
MASK, PLACES = "0,1,1,1,1,0", "0..5"


def encoder(folder: Path) -> tuple[Path, Path]:
    """Attention of tokens with the three inputs of BERT, and its samples."""
    m = OnnxModel(3)

    def real(*shape: int) -> str:
        return m.constant(m.rng.normal(size=shape).astype(np.float32))

    tables = [m.node("Gather", [real(9, 8), name]) for name in ("ids", "places")]
    x = m.node("Add", tables)
    mask = m.node("Cast", [m.node("Unsqueeze", ["mask", m.constant(np.array([1]))])], to=1)
    hidden = m.node("Sub", [m.constant(np.float32(1)), mask])
    addend = m.node("Mul", [hidden, m.constant(np.float32(-1e9))])
    scores = m.node("MatMul", [x, m.node("Transpose", [x], perm=[0, 2, 1])])
    scores = m.node("Mul", [scores, m.constant(np.float32(0.1))])
    shares = m.node("Softmax", [m.node("Add", [scores, addend])], axis=-1)
    y = m.node("MatMul", [m.node("MatMul", [shares, x]), real(8, 4)])
    ids = dict.fromkeys(("ids", "mask", "places"), (INT64, (1, TOKENS)))
    path, data = folder / "float.onnx", folder / "data.npz"
    onnx.save(m.proto(ids, {y: (TensorProto.FLOAT, None)}), path)
    np.savez(data, ids=np.random.default_rng(1).integers(0, 9, (40, TOKENS)))
    return path, data


def quantize(folder: Path, *words: str) -> int:
    path, data = encoder(folder)
    target = str(folder / "int8.onnx")
    return main(["quantize", str(path), "--calibration", str(data), "-o", target, *words])


def test_fixed_inputs_have_their_values(tmp_path: Path) -> None:
    assert quantize(tmp_path, "--constant", f"mask={MASK}", "--constant", f"places={PLACES}") == 0
    target = tmp_path / "int8.onnx"
    real, made = (
        onnxruntime.InferenceSession(file, providers=["CPUExecutionProvider"])
        for file in (tmp_path / "float.onnx", target)
    )
    assert [one.name for one in made.get_inputs()] == ["ids"]
    rows = np.load(tmp_path / "data.npz")["ids"][:, None]
    mask = np.array([[int(one) for one in MASK.split(",")]])
    more = {"mask": mask, "places": np.arange(TOKENS)[None]}
    wanted = np.array([real.run(None, {"ids": ids, **more})[0] for ids in rows])
    error = np.array([made.run(None, {"ids": ids})[0] for ids in rows]) - wanted
    assert 10 * np.log10((wanted**2).mean() / (error**2).mean()) > 25
    assert main(["verify", str(target), "-n", "5"]) == 0


def test_other_commands_fix_inputs(tmp_path: Path) -> None:
    path, data = encoder(tmp_path)
    words = ["--constant", "mask=1", "--constant", f"places={PLACES}", "-o", str(tmp_path)]
    assert main(["build", str(path), "--calibration", str(data), *words]) == 0
    assert "--constant mask=1" in (tmp_path / "model_float.h").read_text()


@pytest.mark.parametrize(
    ("setting", "said"),
    [
        ("", "the input is int64, not float32. hint: give it a fixed value: `vmcu quantize "
         "--constant mask=VALUE`"),
        ("mask2=1", "--constant mask2=1: no such input. hint: its inputs are mask"),
        ("1", "--constant 1: no such input. hint: write NAME=1"),
        ("mask=1,0", "mask: --constant: the input has 6 elements, not as many as '1,0'"),
        ("mask=0..9999999999", "6 elements, not as many"),
        ("mask=one", "mask: --constant: 'one'. hint: write NAME=1, NAME=0,0,1,1 or"),
        ("mask=0.5", "mask: --constant: '0.5' is no int64"),
        ("mask=nan", "mask: --constant: 'nan' is no int64"),
    ],
)  # fmt: skip
def test_settings_that_do_not_fit(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], setting: str, said: str
) -> None:
    words = ["--constant", setting] if setting else []
    assert quantize(tmp_path, "--constant", f"places={PLACES}", *words) == 1
    assert said in capsys.readouterr().err


def test_a_dynamic_size(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    path, data = encoder(tmp_path)
    model = onnx.load(path)
    model.graph.input[1].type.tensor_type.shape.dim[1].dim_param = "tokens"
    onnx.save(model, path)
    words = ["--calibration", str(data), "-o", str(tmp_path / "int8.onnx"), "--constant", "mask=1"]
    assert main(["quantize", str(path), *words]) == 1
    assert "mask: --constant: the input has the dynamic shape [1, 0]" in capsys.readouterr().err
