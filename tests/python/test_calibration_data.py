# SPDX-License-Identifier: Apache-2.0
"""Calibration data from folders of files, and random ones."""

from __future__ import annotations

import json
import sys
import wave

import numpy as np
import onnx
import pytest
from builders.onnx_models import OnnxModel
from vmcu_tools import api
from vmcu_tools.cli import main
from vmcu_tools.errors import UserError
from vmcu_tools.quantize.calibration import read_samples

FLOAT = onnx.TensorProto.FLOAT
NOTE = "calibrated with random samples: only the RAM figures apply"


def float_file(tmp_path, shape=(1, 3, 4, 5), inputs=("x",)):
    m = OnnxModel(1, opset=17)
    y = inputs[0] if len(inputs) == 1 else m.node("Add", [*inputs])
    y = m.node("Relu", [m.node("Mul", [y, m.constant(np.float32(3))])])
    path = tmp_path / "float.onnx"
    onnx.save(m.proto(dict.fromkeys(inputs, (FLOAT, shape)), {y: (FLOAT, None)}), path)
    (tmp_path / "data").mkdir(exist_ok=True)
    return path, tmp_path / "data"


def write_wav(path, values, width=2, channels=1):
    with wave.open(str(path), "wb") as file:
        file.setparams((channels, width, 16000, 0, "NONE", ""))
        file.writeframes(values.tobytes())


def stacked(path, data) -> np.ndarray:
    return np.array([one["x"][0] for one in read_samples(path, data)])


def test_arrays(tmp_path):
    """One sample, one with its batch, several; other files are passed over."""
    path, data = float_file(tmp_path)
    x = np.random.default_rng(0).normal(size=(5, 3, 4, 5)).astype(np.float32)
    for name, part in (("a", x[0]), ("b", x[1:2]), ("c", x[2:])):
        np.save(data / f"{name}.npy", part)
    (data / "notes.txt").write_text("these are samples")
    np.testing.assert_array_equal(stacked(path, data), x)
    words = ["--calibration", str(data), "-o", str(tmp_path / "q.onnx")]
    assert main(["quantize", str(path), *words]) == 0
    assert main(["build", str(path), "--calibration", str(data)]) == 0


@pytest.mark.parametrize("channels", [1, 3])
@pytest.mark.parametrize("last", [False, True])
def test_pictures(tmp_path, channels, last):
    """Of either order of axes, from 0 to 1."""
    image = pytest.importorskip("PIL.Image")
    shape = (1, 4, 5, channels) if last else (1, channels, 4, 5)
    path, data = float_file(tmp_path, shape)
    pixels = np.random.default_rng(0).integers(0, 256, (2, 4, 5, channels)).astype(np.uint8)
    for number, one in enumerate(pixels):
        image.fromarray(one if channels == 3 else one[..., 0]).save(data / f"{number}.png")
    wanted = pixels / np.float32(255)
    wanted = wanted if last else wanted.transpose(0, 3, 1, 2)
    np.testing.assert_array_equal(stacked(path, data), wanted.astype(np.float32))


def test_sounds(tmp_path):
    """Pieces of the input's length; what is left behind them is not used."""
    path, data = float_file(tmp_path, (1, 1, 8))
    values = np.random.default_rng(0).integers(-32768, 32768, 20).astype("<i2")
    write_wav(data / "a.WAV", values)
    np.testing.assert_array_equal(
        stacked(path, data), values[:16].reshape(2, 1, 8) / np.float32(32768)
    )


def picture(data) -> None:
    pytest.importorskip("PIL.Image").new("RGB", (6, 4)).save(data / "a.png")


@pytest.mark.parametrize(
    ("write", "said"),
    [
        (lambda data: None, "no calibration data in the folder"),
        (lambda data: np.save(data / "a.npy", np.zeros((3, 4))), "a.npy: the array has the shape"),
        (
            lambda data: np.save(data / "a.npy", np.array(["a"] * 60)),
            "the array has the shape (60,)",
        ),
        (lambda data: np.save(data / "a.npy", np.full((3, 4, 5), np.nan)), "no numbers"),
        (lambda data: (data / "a.npy").write_bytes(b"\x93NUMPY"), "a.npy: not a .npy file"),
        (lambda data: (data / "a.wav").write_bytes(b"RIFF"), "a.wav: not a .wav file"),
        (lambda data: (data / "a.png").write_bytes(b"\x89PNG"), "a.png: not a .png file"),
        (picture, "a.png: the picture has 6 x 4 pixels, the input the shape (1, 3, 4, 5)"),
        (lambda data: write_wav(data / "a.wav", np.zeros(9, "<i2")), "the sound has 9 samples"),
        (lambda data: write_wav(data / "a.wav", np.zeros(90, "u1"), 1), "8 bits and 1 channels"),
        (lambda data: write_wav(data / "a.wav", np.zeros(90, "<i4"), 4), "32 bits"),
        (lambda data: write_wav(data / "a.wav", np.zeros(90, "<i2"), 2, 2), "16 bits and 2 chan"),
    ],
)
def test_files_that_do_not_fit(tmp_path, capsys, write, said):
    path, data = float_file(tmp_path)
    write(data)
    target = tmp_path / "q.onnx"
    assert main(["quantize", str(path), "--calibration", str(data), "-o", str(target)]) == 1
    problem = capsys.readouterr().err
    assert said in problem and "hint: " in problem and str(tmp_path) in problem
    assert not target.exists()


def test_an_array_that_declares_more_than_its_file(tmp_path):
    path, data = float_file(tmp_path)
    np.save(data / "a.npy", np.zeros((3, 4, 5), np.float32))
    content = (data / "a.npy").read_bytes().replace(b"(3, 4, 5)", b"(9**9,)  ")
    (data / "a.npy").write_bytes(content.replace(b"(9**9,)  ", b"(99999,4)"))
    with pytest.raises(UserError, match="not a \\.npy file"):
        read_samples(path, data)


def test_pictures_without_pillow(tmp_path, monkeypatch):
    path, data = float_file(tmp_path)
    (data / "a.png").write_bytes(b"")
    monkeypatch.setitem(sys.modules, "PIL", None)
    with pytest.raises(UserError, match="pip install pillow"):
        read_samples(path, data)


def test_a_folder_for_several_inputs(tmp_path):
    path, data = float_file(tmp_path, inputs=("x", "y"))
    with pytest.raises(UserError, match="a model of one input; this one has 2"):
        read_samples(path, data)


def test_no_data(tmp_path, capsys):
    path, _ = float_file(tmp_path)
    assert main(["quantize", str(path), "-o", str(tmp_path / "q.onnx")]) == 1
    said = capsys.readouterr().err
    assert "no calibration data" in said and "100 to 500" in said and "random" in said


@pytest.mark.parametrize(("name", "fits"), [("x", True), ("arr_0", True), ("image", False)])
def test_the_name_of_an_array(tmp_path, name, fits):
    """It is the input's, or the one of an array that was saved without a name."""
    path, _ = float_file(tmp_path)
    np.savez(tmp_path / "d.npz", **{name: np.ones((2, 3, 4, 5), np.float32)})
    if fits:
        assert len(read_samples(path, tmp_path / "d.npz")) == 2
        return
    with pytest.raises(UserError, match="rename 'image' to 'x'"):
        read_samples(path, tmp_path / "d.npz")


def test_random(tmp_path, capsys, monkeypatch):
    """Every output says so, also of a file that was written before."""
    monkeypatch.chdir(tmp_path)
    path, _ = float_file(tmp_path)
    words = ["--calibration", "random", "--json"]
    assert main(["quantize", "float.onnx", "-o", "q.onnx", *words, "q.json"]) == 0
    assert NOTE in " ".join(capsys.readouterr().out.split())
    assert json.loads((tmp_path / "q.json").read_text())["calibration"] == "random"
    for name, given in (("float", words), ("q", ["--json"])):
        assert main(["build", f"{name}.onnx", *given, "b.json", "-o", "out"]) == 0
        printed = capsys.readouterr()
        assert NOTE in " ".join(printed.out.split()) and NOTE in printed.err
        assert any(NOTE in one for one in json.loads((tmp_path / "b.json").read_text())["notes"])
        for suffix in ("c", "h"):
            stem = f"model_{name}" if name == "float" else name
            first = tmp_path / f"out/{stem}.{suffix}"
            assert "random samples" in first.read_text()[:200]
    assert main(["verify", "q.onnx", "-n", "1", "-q"]) == 0
    assert NOTE in capsys.readouterr().err
    assert any(NOTE in one for one in api.load("q.onnx").plan().report().notes)
    given = api.load(path, calibration="random").plan()
    assert any(NOTE in one for one in given.report().notes)
    assert "--calibration random" in given.emitted.all_files["model_float.c"]


def test_random_samples_are_the_same_each_time(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    float_file(tmp_path)
    made = []
    for name in ("a.onnx", "b.onnx"):
        assert main(["quantize", "float.onnx", "-o", name, "--calibration", "random"]) == 0
        made.append((tmp_path / name).read_bytes())
    assert made[0] == made[1]
