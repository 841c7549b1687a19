# SPDX-License-Identifier: Apache-2.0
"""What is said of a file of another kind than int8 .tflite or .onnx: what it is, in one sentence,
before any operator is blamed, and a remedy."""

from __future__ import annotations

import zipfile
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest
from builders.networks import SHARED, present
from builders.tflite_models import TfliteModel, schema
from vmcu_bench import oracle
from vmcu_tools import cli, frontends
from vmcu_tools.errors import UserError
from vmcu_tools.machine import reference

IMAGE = (1, 4, 4, 2)


def dense(model: TfliteModel, x: int, weights: int, bias: int, out: int) -> int:
    return model.op("FULLY_CONNECTED", [x, weights, bias], out, "FullyConnected")


def floats(model: TfliteModel, weights: Callable[[TfliteModel], int]) -> tuple[int, int]:
    """A fully connected layer that computes in float."""
    x = model.activation((1, 8), dtype=np.float32)
    bias = model.constant(np.zeros(3, np.float32))
    out = model.activation((1, 3), dtype=np.float32)
    return x, dense(model, x, weights(model), bias, out)


def half(model: TfliteModel) -> int:
    stored = model.constant(np.ones((3, 8), np.float16))
    return model.op("DEQUANTIZE", [stored], model.activation((3, 8), dtype=np.float32))


def wide(model: TfliteModel) -> tuple[int, int]:
    x = model.activation((1, 8), 0.01, 0, np.int16)
    weights = model.constant(np.ones((3, 8), np.int8), [0.1])
    out = model.activation((1, 3), 0.01, 0, np.int16)
    return x, dense(model, x, weights, model.constant(np.zeros(3, np.int64), [0.001]), out)


def unsigned(model: TfliteModel) -> tuple[int, int]:
    x = model.activation((1, 8), 0.01, 3, np.uint8)
    weights = model.constant(np.ones((3, 8), np.uint8), [0.1], zero_point=128)
    out = model.activation((1, 3), 0.01, 3, np.uint8)
    return x, dense(model, x, weights, model.constant(np.zeros(3, np.int32), [0.001]), out)


def custom(name: str) -> Callable[[TfliteModel], tuple[int, int]]:
    def build(model: TfliteModel) -> tuple[int, int]:
        x = model.activation(IMAGE)
        return x, model.custom(name, [x], model.activation(IMAGE))

    return build


def builtin(name: str) -> Callable[[TfliteModel], tuple[int, int]]:
    def build(model: TfliteModel) -> tuple[int, int]:
        x = model.activation(IMAGE)
        return x, model.op(name, [x], model.activation(IMAGE))

    return build


def ones(dtype: type, *scales: float) -> Callable[[TfliteModel], int]:
    return lambda model: model.constant(np.ones((3, 8), dtype), scales)


# What the file holds, what is said of it, and a word of the remedy.
KINDS = {
    "float": (lambda m: floats(m, ones(np.float32)), "this is a float32 model", "full-integer"),
    "float16": (lambda m: floats(m, half), "the weights are float16", "full-integer"),
    "dynamic": (lambda m: floats(m, ones(np.int8, 0.1)), "(dynamic range)", "full-integer"),
    "16x8": (wide, "(16x8 quantisation): FULLY_CONNECTED", "TFLITE_BUILTINS_INT8"),
    "uint8": (unsigned, "quantised to uint8, as TensorFlow 1 did: FULLY_CONNECTED", "TensorFlow 2"),
    "vela": (custom("ethos-u"), "Vela has compiled this file", "that Vela was given"),
    "edge tpu": (custom("edgetpu-custom-op"), "compiled for an Edge TPU", "edgetpu_compiler"),
    "flex": (custom("FlexErf"), "calls TensorFlow itself, by FlexErf", "SELECT_TF_OPS"),
    "features": (custom("SignalRfft"), "an audio front end: SignalRfft", "vmcu audio"),
    "spectrogram": (custom("AudioSpectrogram"), "an audio front end", "vmcu audio"),
    "boxes": (custom("TFLite_Detection_PostProcess"), "sorts boxes in float", "in C"),
    "lstm": (builtin("BIDIRECTIONAL_SEQUENCE_LSTM"), "are not unrolled", "unroll=True"),
    "rnn": (builtin("UNIDIRECTIONAL_SEQUENCE_RNN"), "that are not unrolled: UNI", "unroll=True"),
}


def problems(path: Path) -> list[tuple[str, str]]:
    with pytest.raises(UserError) as caught:
        frontends.load(path)
    return [(problem.reason, problem.remedy) for problem in caught.value.problems]


@pytest.mark.parametrize("kind", KINDS)
def test_a_tflite_file_of_another_kind(tmp_path: Path, kind: str) -> None:
    build, said, remedy = KINDS[kind]
    model = TfliteModel()
    x, out = build(model)
    found = problems(model.save(tmp_path / "m.tflite", [x], [out]))
    assert len(found) == 1
    assert said in found[0][0]
    assert remedy in found[0][1]


def test_operators_that_stay_unsupported_are_named_too(tmp_path: Path) -> None:
    model = TfliteModel()
    x = model.activation(IMAGE, dtype=np.float32)
    y = model.op("RELU", [x], model.activation(IMAGE, dtype=np.float32))
    z = model.op("CUMSUM", [y], model.activation(IMAGE, dtype=np.float32))
    found = problems(model.save(tmp_path / "m.tflite", [x], [z]))
    assert "CUMSUM, RELU" in found[0][0]
    assert [reason for reason, _ in found[1:]] == ["this operation is not supported"]


def test_uint8_at_the_borders_is_an_int8_network(tmp_path: Path) -> None:
    model = TfliteModel()
    x = model.activation(IMAGE, 0.1, 128, np.uint8)
    inner = model.op("QUANTIZE", [x], model.activation(IMAGE, 0.1, 0), "Quantize")
    out = model.op("RELU", [inner], model.activation(IMAGE, 0.1, 0))
    assert frontends.load(model.save(tmp_path / "m.tflite", [x], [out])).nodes


def test_a_custom_operator_is_not_damage(tmp_path: Path) -> None:
    model = TfliteModel()
    x, out = custom("MyOwn")(model)
    assert problems(model.save(tmp_path / "m.tflite", [x], [out])) == [
        (
            "this operation is not supported",
            "replace it; `vmcu inspect --operators` lists the supported operators",
        )
    ]


def test_a_loop_is_a_recurrent_layer(tmp_path: Path) -> None:
    model = TfliteModel()
    x = model.activation(IMAGE)
    out = model.op("WHILE", [x], model.activation(IMAGE))
    model.model.subgraphs += [schema.SubGraphT(), schema.SubGraphT()]
    for empty in model.model.subgraphs[1:]:
        empty.tensors, empty.operators, empty.inputs, empty.outputs = [], [], [], []
    found = problems(model.save(tmp_path / "m.tflite", [x], [out]))
    assert found[0][0] == "this file has recurrent layers that are not unrolled: WHILE"


def archive(*members: str) -> Callable[[Path], None]:
    def write(path: Path) -> None:
        with zipfile.ZipFile(path, "w") as file:
            for member in members:
                file.writestr(member, "x")

    return write


def raw(data: bytes) -> Callable[[Path], None]:
    return lambda path: path.write_bytes(data)


FOREIGN = {
    "m.h5": (raw(b"\x89HDF\r\n\x1a\n" + bytes(90)), "a Keras model", "TFLiteConverter"),
    "m.keras": (archive("metadata.json", "config.json"), "a Keras model", "TFLiteConverter"),
    "m.pt": (archive("m/data.pkl", "m/version"), "of PyTorch", "torch.onnx.export"),
    "script.pt": (archive("m/data.pkl", "m/constants.pkl"), "TorchScript", "torch.onnx.export"),
    "old.pth": (raw(b"\x80\x02\x8a\x0al\xfc"), "torch.save", "torch.onnx.export"),
    "m.pte": (raw(b"\x00\x00\x00\x00ET12" + bytes(90)), "ExecuTorch", "torch.onnx.export"),
    "m.pb": (raw(b"\n\x10"), "a TensorFlow graph", "TFLiteConverter"),
    "m.safetensors": (raw(bytes(8) + b"{}"), "weights without a network", "torch.onnx.export"),
    "lfs.tflite": (raw(b"version https://git-lfs"), "Git LFS", "git lfs pull"),
    "page.onnx": (raw(b"<!DOCTYPE html>"), "a web page", "download"),
    "m.vmcu": (raw(b"VMCU" + bytes(60)), "a container", "compile the model file"),
    "renamed.onnx": (raw(b"\x89HDF\r\n\x1a\n" + bytes(90)), "a Keras model", "TFLiteConverter"),
    "x.npz": (archive("x.npy"), "an archive of arrays", "--calibration"),
}


@pytest.mark.parametrize("name", FOREIGN)
def test_a_file_of_another_format(tmp_path: Path, name: str) -> None:
    write, what, remedy = FOREIGN[name]
    write(tmp_path / name)
    ((said, way),) = problems(tmp_path / name)
    assert said.startswith("this is ")
    assert what in said
    assert remedy in way


def test_a_folder_and_a_pipe(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    saved = tmp_path / "saved"
    saved.mkdir()
    (saved / "saved_model.pb").write_bytes(b"\n")
    assert "SavedModel" in problems(saved)[0][0]
    (tmp_path / "m.onnx").write_bytes(b"")
    assert str(tmp_path / "m.onnx") in problems(tmp_path)[0][1]
    assert cli.main(["build", "/dev/null"]) == 1
    assert "no regular file" in capsys.readouterr().err


def test_no_message_has_a_name_of_pythons(tmp_path: Path) -> None:
    digits = (Path(__file__).parents[2] / "samples" / "digits" / "digits.onnx").read_bytes()
    model = TfliteModel()
    x, out = unsigned(model)
    lite = model.to_bytes([x], [out])
    for name, whole in (("m.onnx", digits), ("m.tflite", lite)):
        for size in range(8, len(whole), max(1, len(whole) // 40)):
            (tmp_path / name).write_bytes(whole[:size])
            try:
                frontends.load(tmp_path / name)
            except UserError as error:
                assert "Error" not in str(error), str(error)


def unrolled(model: TfliteModel, steps: int) -> tuple[int, int]:
    """A recurrent layer as Keras unrolls it, its first state a constant of zeros."""
    rng = model.rng
    kernel = model.constant(rng.integers(-127, 128, (6, 6), np.int8), [0.01])
    bias = model.constant(rng.integers(-2000, 2000, 6, np.int32), [0.0005])
    state = model.constant(np.full((1, 6), 7, np.int8), [0.05], zero_point=7)
    x = model.activation((1, 6), 0.05, 7)
    for _ in range(steps):
        y = dense(model, state, kernel, bias, model.activation((1, 6), 0.05, -3))
        both = model.op("ADD", [x, y], model.activation((1, 6), 0.06, 5), "Add")
        state = model.op("TANH", [both], model.activation((1, 6), 1 / 128, 0))
        state = model.op("QUANTIZE", [state], model.activation((1, 6), 0.05, 7), "Quantize")
    return x, state


@pytest.mark.parametrize("seed", range(4))
def test_a_state_that_begins_as_a_constant(tmp_path: Path, seed: int) -> None:
    """What is computed of it here is what TensorFlow Lite Micro computes on each call."""
    model = TfliteModel(seed)
    x, out = unrolled(model, 3)
    path = model.save(tmp_path / "m.tflite", [x], [out])
    graph = frontends.load(path)
    assert len([n for n in graph.nodes if n.kind == "FullyConnected"]) == 2
    for data in model.rng.integers(-128, 128, (5, 1, 6), np.int8):
        name = graph.outputs[0].tensor
        expected = oracle.open(path).run([data])[name]
        assert np.array_equal(reference.run(graph, [data])[name].ravel(), expected.ravel())


def test_a_network_that_is_int8_is_none_of_these() -> None:
    for path in (present(SHARED / "mlperf-tiny-kws.tflite"), *sorted(SHARED.glob("*.tflite"))):
        assert frontends.load(path).nodes
