# SPDX-License-Identifier: Apache-2.0
"""`vmcu check-image`: sound images pass, damaged ones do not if they compute other bytes."""

from __future__ import annotations

import functools
import hashlib
import json
import os
import random
import shutil
import struct
import subprocess
import tempfile
from pathlib import Path

import numpy as np
import pytest
from builders.onnx_states import Recurrent, listening
from builders.tflite_models import TfliteModel
from elftools.elf.elffile import ELFFile
from random_networks import two_layers
from test_fed_back import NAMES
from test_lstm import lstm
from test_lstm_rows import INPUTS, UNITS, flat
from test_recurring import FORMS
from vmcu_bench.commands.references import reference_of
from vmcu_bench.cycles.model import board
from vmcu_check.images.check import Verdict, check
from vmcu_check.images.elf import FaultError, ImageError, ImageSymbol, LinkedImage, read
from vmcu_check.images.structs import LAYER, MODEL, PARAMS, STAGE, STREAM, TENSOR, layout
from vmcu_check.images.tables import ImageLayer, ImageModel, roots
from vmcu_tools.cli import main
from vmcu_tools.emit import emit
from vmcu_tools.planner.options import CompileOptions
from vmcu_tools.planner.registry import make_plan
from vmcu_tools.planner.stages.recomputation import Pair, recomputed

SAMPLES = Path(__file__).resolve().parents[2] / "samples"
MODELS = {name: SAMPLES / name / f"{name}.onnx" for name in ("digits", "hello", "gesture")}
KWS = Path(os.environ.get("VMCU_MODELS", SAMPLES.parents[1] / "shared/models"))
MODELS["kws"] = KWS / "mlperf-tiny-kws.tflite"
# Inputs that tell a damaged image from the sound one.
ORACLE_INPUTS = 40
SECONDS = 60
FOLDERS: list[tempfile.TemporaryDirectory[str]] = []


@functools.cache
def kept(name: str, core: str, *options: str) -> Path:
    """The image that `vmcu bench --keep` leaves of a sample's model."""
    FOLDERS.append(tempfile.TemporaryDirectory())
    folder = Path(FOLDERS[-1].name) / "kept"
    words = ["bench", str(MODELS[name]), "--on", f"qemu:{core}", "--keep", str(folder), "-q"]
    assert main([*words, *options]) == 0
    (image,) = folder.glob("*.elf")
    return image


def verdict(image: Path, name: str, inputs: int = 3) -> Verdict:
    (found,) = check(image, MODELS[name], inputs, reference_of)
    return found


@pytest.mark.parametrize(
    ("name", "core", "options", "layers"),
    [
        ("digits", "m4", (), 8),
        ("digits", "m0", (), 8),
        ("digits", "m55", (), 8),
        ("digits", "rv32", (), 8),
        ("digits", "m4", ("--target", "portable", "--external-input"), 8),
        ("digits", "m4", ("--rotate",), 8),
        ("digits", "m4", ("--workers", "2"), 8),
        ("hello", "m3", (), 1),
        ("gesture", "m4", (), 3),
        ("gesture", "m4", ("--hop", "8"), 3),
    ],
)
def test_a_sound_image(name: str, core: str, options: tuple[str, ...], layers: int) -> None:
    """All constants of its layers with weights are the file's."""
    found = verdict(kept(name, core, *options), name)
    assert found.compared == layers and not found.alone
    assert found.inputs == 3
    assert (found.hops > 2) == ("--hop" in options)
    are_shared = any("not checked: the tasks and waits" in line for line in found.lines())
    assert are_shared == ("--workers" in options)


def offset_in(image: Path, address: int) -> int:
    """Where in the file a byte of the image is."""
    with image.open("rb") as stream:
        for part in ELFFile(stream).iter_segments("PT_LOAD"):
            if part["p_vaddr"] <= address < part["p_vaddr"] + part["p_filesz"]:
                return int(part["p_offset"] + address - part["p_vaddr"])
    raise AssertionError(address)


def changed(image: Path, folder: Path, address: int, data: bytes) -> Path:
    """A copy of the image with other bytes."""
    whole = bytearray(image.read_bytes())
    at = offset_in(image, address)
    whole[at : at + len(data)] = data
    folder.mkdir(exist_ok=True)
    (folder / image.name).write_bytes(whole)
    shutil.copy(image.parent / "run.sh", folder)
    return folder / image.name


def outputs(image: Path, inputs: bytes) -> tuple[int, bytes]:
    """What an image answers on the emulated core."""
    (image.parent / "inputs.bin").write_bytes(inputs)
    target = image.parent / "outputs.bin"
    target.unlink(missing_ok=True)
    try:
        code = subprocess.run(
            ["sh", "run.sh"], cwd=image.parent, capture_output=True, timeout=SECONDS, check=False
        ).returncode
    except subprocess.TimeoutExpired:
        code = -1
    return code, target.read_bytes() if target.exists() else b""


def model_of(image: Path) -> ImageModel:
    """The only model of an image."""
    linked = LinkedImage(image)
    ((symbol, top),) = roots(linked).items()
    return ImageModel(linked, symbol, top)


def tables(image: Path) -> list[ImageSymbol]:
    """The constants of the model in an image."""
    symbols = LinkedImage(image).symbols.values()
    return [s for s in symbols if s.name.startswith("model_") and s.bytes and not s.is_function]


def accepted_wrongly(name: str, core: str, seed: int, count: int, folder: Path) -> list[str]:
    """Changes a byte of `count` images each; names those that pass and answer otherwise."""
    image, dice = kept(name, core), random.Random(seed)
    model = model_of(image)
    size = sum(port.tensor.bytes for port in model.inputs)
    drawn = np.random.default_rng(seed).integers(0, 256, ORACLE_INPUTS * size)
    inputs = drawn.astype(np.uint8).tobytes()
    sound = changed(image, folder / "sound", tables(image)[0].address, b"")
    wanted, wrong, refused = outputs(sound, inputs), [], 0
    symbols = tables(image)
    small = [s for s in symbols if not s.name.endswith("_stream")]
    for _ in range(count):
        symbol = dice.choice(dice.choice((symbols, small)))
        address = symbol.address + dice.randrange(symbol.bytes)
        old = LinkedImage(image).read(address, 1)[0]
        new = dice.choice((old ^ 1 << dice.randrange(8), dice.randrange(256)))
        one = changed(image, folder / "damaged", address, bytes([new]))
        try:
            verdict(one, name)
        except ImageError:
            refused += 1
            continue
        if outputs(one, inputs) != wanted:
            wrong.append(f"{symbol.name} byte {address - symbol.address}: {old} -> {new}")
    assert refused > count // 3
    return wrong


@pytest.mark.parametrize(("name", "core"), [("digits", "m4"), ("digits", "rv32"), ("hello", "m4")])
def test_damaged_images(name: str, core: str, tmp_path: Path) -> None:
    assert accepted_wrongly(name, core, 5, 25, tmp_path) == []


@pytest.mark.slow
@pytest.mark.parametrize("seed", range(8))
def test_many_damaged_images(seed: int, tmp_path: Path) -> None:
    """Slow: 2,000 in all."""
    for name, count in (("digits", 200), ("hello", 50)):
        (tmp_path / name).mkdir()
        assert accepted_wrongly(name, "m4", seed, count, tmp_path / name) == []


def field(image: Path, table: str, members: str, number: int, name: str) -> int:
    """The address of a member of a struct in a table."""
    kind = layout(members, 4)
    assert kind.fields is not None
    (symbol,) = (s for s in tables(image) if s.name == table)
    return symbol.address + number * kind.itemsize + int(kind.fields[name][1])


def test_tensors_that_overlap(tmp_path: Path) -> None:
    """A base that is off by a row: the message names layer, byte, tensor and place."""
    image = kept("digits", "m4")
    where = field(image, "model_tensors", TENSOR, 3, "base")
    (base,) = struct.unpack("<I", LinkedImage(image).read(where, 4))
    one = changed(image, tmp_path, where, struct.pack("<I", base + 16))
    fault = r"layer \d \(vmcu_\w+\), row \d, .* byte \d+ of tensor 3 .*byte \d+ of tensor 4"
    with pytest.raises(FaultError, match=fault):
        check(one, None, 0, reference_of)


def test_a_huge_pool(tmp_path: Path) -> None:
    image = kept("hello", "m4")
    (symbol,) = (s for s in tables(image) if s.name.startswith("model_model"))
    one = changed(image, tmp_path, symbol.address + 7, b"\x10")
    with pytest.raises(ImageError, match="pools have more than"):
        check(one, None, 0, reference_of)


@pytest.mark.parametrize("size", ["height", "width", "channels"])
def test_a_huge_tensor(size: str, tmp_path: Path) -> None:
    """It is refused before it costs memory."""
    image = kept("digits", "m4")
    where = [field(image, "model_tensors", TENSOR, 2, name) for name in ("height", size)]
    one = changed(image, tmp_path, where[0], b"\xff\xff")
    one = changed(one, tmp_path / "both", where[1], b"\xff\xff")
    with pytest.raises(ImageError):
        check(one, None, 0, reference_of)


def test_a_pool_that_rotates(tmp_path: Path) -> None:
    """At some origin, a row of tensor 1 goes on behind an overhang that is 4 bytes shorter."""
    image = kept("digits", "m4", "--rotate")
    model, (symbol,) = model_of(image), (s for s in tables(image) if "_model_with" in s.name)
    at = symbol.address + 4
    bytes_ = struct.pack("<I", model.pools[0] - 4)
    with pytest.raises(FaultError, match="behind the pool"):
        check(changed(image, tmp_path, at, bytes_), None, 0, reference_of)


@pytest.mark.parametrize(
    ("name", "core", "options"),
    [("hello", "m4", ()), ("digits", "m4", ()), ("gesture", "m4", ("--hop", "8"))],
)
def test_a_pool_that_is_too_large(
    name: str, core: str, options: tuple[str, ...], tmp_path: Path
) -> None:
    """No application has the bytes: the image fails when it starts."""
    image = kept(name, core, *options)
    (symbol,) = (s for s in tables(image) if s.name.startswith("model_model"))
    (size,) = LinkedImage(image).numbers("I", symbol.address + 4, 1)
    one = changed(image, tmp_path, symbol.address + 4, struct.pack("<I", size + 1))
    with pytest.raises(FaultError, match=f"nothing uses the last 1 of {size + 1} bytes"):
        check(one, None, 0, reference_of)


@pytest.mark.parametrize(
    ("table", "members", "number", "name", "data", "reason"),
    [
        ("model_tensors", TENSOR, 0, "width", b"\4\0", "no input with the bytes"),
        ("model_tensors", TENSOR, 0, "phase", b"\xf8\xff\xff\xff", "outside the pool"),
        ("model_tensors", TENSOR, 2, "width", b"\0\0", "has no byte"),
        ("model_layers", LAYER, 2, "width", b"\x31\xc9", "not those of a tensor's rows"),
        ("model_model", MODEL, 0, "input_count", b"\2", "an input twice|not there|no text|read"),
        ("model_model", MODEL, 0, "output_count", b"\0", "nothing reads tensor"),
        ("model_02_mac", PARAMS["depthwise"], 0, "groups", b"\x40\0", "for other parameters"),
        ("model_01_mac", PARAMS["pointwise"], 0, "packed", b"\1", "for other parameters"),
        ("model_06_average_pool", PARAMS["average_pool"], 0, "dilation_w", b"\1\4", "no mean"),
        ("model_06_average_pool", PARAMS["average_pool"], 0, "act_max", b"\x70", "no mean"),
    ],
)
def test_members_that_contradict_one_another(
    table: str, members: str, number: int, name: str, data: bytes, reason: str, tmp_path: Path
) -> None:
    """Each of these images answers otherwise, and was accepted once."""
    image = kept("digits", "m4")
    one = changed(image, tmp_path, field(image, table, members, number, name), data)
    with pytest.raises(ImageError, match=reason):
        verdict(one, "digits", inputs=0)


@pytest.mark.parametrize(
    ("core", "first", "second"), [("m4", 1, 5), ("m4", 5, 7), ("m4", 0, 3), ("rv32", 1, 7)]
)
def test_kernels_that_are_swapped(core: str, first: int, second: int, tmp_path: Path) -> None:
    image = kept("digits", core)
    places = [field(image, "model_layers", LAYER, one, "kernel") for one in (first, second)]
    kernels = [LinkedImage(image).read(place, 4) for place in places]
    one = changed(image, tmp_path / "first", places[0], kernels[1])
    one = changed(one, tmp_path, places[1], kernels[0])
    with pytest.raises(ImageError):
        verdict(one, "digits", inputs=0)


def test_a_schedule_without_parts(tmp_path: Path) -> None:
    """The runtime leaves the layer of such a stage out."""
    image = kept("digits", "m4")
    stages = LinkedImage(image).structs(
        STAGE, field(image, "model_stages", STAGE, 0, "schedule"), 4
    )
    number = next(number for number, one in enumerate(stages) if not one["schedule"])
    one = changed(image, tmp_path, field(image, "model_stages", STAGE, number, "schedule"), b"\x74")
    with pytest.raises(ImageError, match="no schedule"):
        verdict(one, "digits", inputs=0)


@pytest.mark.skipif(not MODELS["kws"].exists(), reason="VMCU_MODELS has no kws")
def test_layers_that_are_swapped(tmp_path: Path) -> None:
    """Each layer has the weights of a node, but not of the one behind its input."""
    image = kept("kws", "m4")
    places = [field(image, "model_layers", LAYER, one, "params") for one in (5, 7)]
    params = [LinkedImage(image).read(place, 4) for place in places]
    one = changed(image, tmp_path / "first", places[0], params[1])
    one = changed(one, tmp_path, places[1], params[0])
    with pytest.raises(FaultError, match="in front of its inputs"):
        verdict(one, "kws", inputs=0)


@pytest.mark.skipif(not MODELS["kws"].exists(), reason="VMCU_MODELS has no kws")
def test_a_table_of_exponentials(tmp_path: Path) -> None:
    """Each entry is gemmlowp's, to the last bit; the bounds are those of int8."""
    image = kept("kws", "m4")
    layer = next(one for one in model_of(image).layers if one.kind == "softmax_tflite")
    (entry,) = LinkedImage(image).numbers("I", layer.p["exp"] + 4 * 3, 1)
    one = changed(image, tmp_path, layer.p["exp"] + 4 * 3, struct.pack("<I", entry + 1))
    with pytest.raises(FaultError, match="no softmax"):
        verdict(one, "kws", inputs=0)
    where = field(image, "model_11_softmax", PARAMS["softmax_tflite"], 0, "act_min")
    with pytest.raises(FaultError, match="no softmax"):
        verdict(changed(image, tmp_path, where, b"\x82"), "kws", inputs=0)


def test_scratch_memory_that_begins_at_no_word(tmp_path: Path) -> None:
    image = kept("digits", "m4")
    number = next(one.number for one in model_of(image).layers if one.scratch < 1 << 31)
    where = field(image, "model_layers", LAYER, number, "scratch")
    (base,) = LinkedImage(image).numbers("I", where, 1)
    with pytest.raises(FaultError, match="begins at no word"):
        check(changed(image, tmp_path, where, struct.pack("<I", base + 1)), None, 0, reference_of)


@pytest.mark.parametrize(
    ("layer", "name", "data", "reason"),
    [
        (0, "pad_top", b"\0\x80", "the window"),
        (2, "pad_top", b"\0\x80", "the window"),
        (0, "stream", b"\0\0\0\x40", "not in the image"),
    ],
)
def test_parameters_of_a_stream(
    layer: int, name: str, data: bytes, reason: str, tmp_path: Path
) -> None:
    """Without the emulated core."""
    image = kept("gesture", "m4", "--hop", "8")
    kind = model_of(image).layers[layer].kind
    where = field(image, f"model_{layer:02}_mac", PARAMS[kind], 0, name)
    one = changed(image, tmp_path, where, data)
    with pytest.raises(ImageError, match=reason):
        verdict(one, "gesture", inputs=0)


def test_calls_that_do_not_come_round(tmp_path: Path) -> None:
    image = kept("gesture", "m4", "--hop", "8")
    (calls,) = (s for s in tables(image) if s.name == "model_calls")
    with pytest.raises(ImageError, match="do not start over"):
        verdict(changed(image, tmp_path, calls.address + 3, b"\x42"), "gesture")


@pytest.mark.parametrize("seed", [0, 3, 5])
def test_recomputed_layers(seed: int, tmp_path: Path) -> None:
    """Sound images, and one whose ring buffer between the layers is half as long."""
    graph = recomputed(two_layers(seed), Pair(0, 1, 4))
    assert graph is not None
    plan = make_plan(graph, CompileOptions(planner="single"))
    image = board("qemu:m4").build(emit(plan, "model").all_files, "model", tmp_path)
    model = model_of(image)
    (layer,) = (one for one in model.layers if one.within)
    assert check(image, None, 0, reference_of)[0].layers == len(model.layers)
    (symbol,) = (s for s in tables(image) if s.name.endswith("_recomputed"))
    kind = layout(PARAMS["recomputed"], 4)
    assert kind.fields is not None
    at = symbol.address + int(kind.fields["ring"][1])
    channels = layer.within[0].out.channels
    shorter = struct.pack("<I", layer.p["ring"] // 2 // channels * channels)
    (tmp_path / "run.sh").touch()
    with pytest.raises(ImageError, match="overwritten pixels"):
        check(changed(image, tmp_path / "shorter", at, shorter), None, 0, reference_of)


@functools.cache
def container(name: str, *options: str) -> Path:
    """The container of a sample's model."""
    FOLDERS.append(tempfile.TemporaryDirectory())
    folder = FOLDERS[-1].name
    words = ["build", str(MODELS[name]), "--format", "container", "-o", folder, "-q"]
    assert main([*words, *options]) == 0
    return Path(folder) / f"{name}.vmcu"


@pytest.mark.parametrize(
    ("name", "options", "compared"),
    [
        ("digits", (), 8),
        ("digits", ("--target", "helium"), 8),
        ("digits", ("--rotate",), 8),
        ("gesture", ("--hop", "8"), 3),
    ],
)
def test_a_container(name: str, options: tuple[str, ...], compared: int) -> None:
    found = verdict(container(name, *options), name)
    assert found.compared == compared and not found.alone and found.inputs == 0


def layers_of(path: Path) -> tuple[ImageLayer, ...]:
    """The layers of a container."""
    image = read(path)
    ((symbol, top),) = roots(image).items()
    return ImageModel(image, symbol, top).layers


def resealed(data: bytearray) -> bytes:
    """A container with the digest of its bytes."""
    data[16:48] = hashlib.sha256(data[:16] + data[112:]).digest()
    return bytes(data)


def test_damaged_containers(tmp_path: Path) -> None:
    """A wrong digest; with a repaired one, a base and a weight that differ."""
    data, image = container("digits").read_bytes(), tmp_path / "digits.vmcu"
    (tensors,) = struct.unpack_from("<I", data, 128)
    weights = layers_of(container("digits"))[7].p["stream"] + 30
    for at, reason in ((tensors, "pool"), (weights, r"weight \(\d, \d+\) is -?\d+ in")):
        damaged = bytearray(data)
        damaged[at] ^= 4
        image.write_bytes(damaged)
        with pytest.raises(ImageError, match="digest"):
            verdict(image, "digits")
        image.write_bytes(resealed(damaged))
        with pytest.raises(FaultError, match=reason):
            verdict(image, "digits")


@pytest.mark.parametrize("number", [0, 2, 4, 5, 6])
def test_a_kernel_of_another_layer(number: int, tmp_path: Path) -> None:
    image = kept("digits", "m4")
    first = LinkedImage(image).read(field(image, "model_layers", LAYER, 3, "kernel"), 4)
    one = changed(image, tmp_path, field(image, "model_layers", LAYER, number, "kernel"), first)
    with pytest.raises(ImageError):
        verdict(one, "digits")


def test_a_weight_is_named(tmp_path: Path) -> None:
    image = kept("digits", "m4")
    (stream,) = (s for s in tables(image) if s.name == "model_07_mac_stream")
    old = LinkedImage(image).read(stream.address + 30, 1)[0]
    one = changed(image, tmp_path, stream.address + 30, bytes([old ^ 4]))
    with pytest.raises(
        FaultError, match=r"layer 7 \(vmcu_dense\).* weight \(\d, \d+\) is -?\d+ in"
    ):
        verdict(one, "digits", inputs=0)


def test_the_weights_of_another_file() -> None:
    with pytest.raises(FaultError, match="layer"):
        check(kept("digits", "m4"), other_digits(), 0, reference_of)


@functools.cache
def other_digits() -> Path:
    """The model with one weight that differs."""
    import onnx

    FOLDERS.append(tempfile.TemporaryDirectory())
    model = onnx.load(MODELS["digits"])
    one = next(t for t in model.graph.initializer if len(t.dims) == 4 and t.data_type == 3)
    values = onnx.numpy_helper.to_array(one).copy()
    values.flat[0] ^= 1
    one.CopyFrom(onnx.numpy_helper.from_array(values, one.name))
    path = Path(FOLDERS[-1].name) / "digits.onnx"
    onnx.save(model, path)
    return path


@pytest.mark.parametrize(
    ("data", "reason"),
    [(b"", "no readable ELF"), (b"\x7fELF" + bytes(60), "ELF"), (b"text\n" * 100, "ELF")],
)
def test_no_image(
    data: bytes, reason: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    path = tmp_path / "image.elf"
    path.write_bytes(data)
    assert main(["check-image", str(path)]) == 1
    message = capsys.readouterr().err
    assert reason in message and "hint: " in message


def test_an_image_without_symbols(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    path = tmp_path / "image.elf"
    image = kept("hello", "m4")
    subprocess.run(["arm-none-eabi-strip", "-o", str(path), str(image)], check=True)
    assert main(["check-image", str(path)]) == 1
    assert "strip" in capsys.readouterr().err
    assert main(["check-image", str(image), "--name", "other"]) == 1
    assert "no compiled model" in capsys.readouterr().err


def test_the_command(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """Exit 0 and what was checked; 1 and the fault."""
    image, figures = kept("hello", "m4"), tmp_path / "verdict.json"
    words = ["check-image", str(image), "--model", str(MODELS["hello"]), "--json", str(figures)]
    assert main(words) == 0
    assert "outputs of 3 inputs equal the file's" in capsys.readouterr().out
    (model,) = json.loads(figures.read_text())["models"]
    assert model["compared"] == 1 and model["inputs"] == 3
    where = field(image, "model_tensors", TENSOR, 0, "base")
    one = changed(image, tmp_path, where, b"\x7f")
    assert main(["check-image", str(one)]) == 1
    message = capsys.readouterr().err
    assert "outside the pool" in message and "hint: " in message


@pytest.mark.parametrize(("name", "options"), [("hello", ()), ("gesture", ("--hop", "8"))])
def test_an_image_that_answers_otherwise(
    name: str, options: tuple[str, ...], tmp_path: Path
) -> None:
    """The emulated core is asked: the code of a kernel may be wrong, too."""
    image = kept(name, "m4", *options)
    kernel = model_of(image).layers[-1].kernel
    code = LinkedImage(image).symbols[kernel]
    # BX LR: the kernel returns at once.
    one = changed(image, tmp_path, code.address & ~1, b"\x70\x47")
    with pytest.raises(FaultError, match="emulated core"):
        verdict(one, name)
    assert verdict(one, name, inputs=0).inputs == 0


@pytest.mark.parametrize(("kind", "inputs"), [("lstm", 3), ("state", 0)])
def test_a_stream_whose_answers_depend_on_the_past(kind: str, inputs: int, tmp_path: Path) -> None:
    """A runtime may have kept what was before; a file that asks for it is not run."""
    if kind == "lstm":
        file = lstm_file(tmp_path)
    else:
        file = listening(tmp_path / "fed.onnx", (3, 5), NAMES[:2])
    (found,) = check(linked(file, tmp_path), file, 3, reference_of)
    assert found.inputs == inputs and found.hops > 1


def lstm_file(folder: Path) -> Path:
    """An LSTM of three steps, and a dense layer over all of them."""
    pytest.importorskip("tflite_micro")
    m = TfliteModel(0)
    first = m.activation((1, 3, INPUTS))
    rows = lstm(m, first, INPUTS, 3, UNITS)
    return m.save(folder / "net.tflite", [first], [flat(m, rows, 3 * UNITS, 4)])


def linked(file: Path, folder: Path, *options: str) -> Path:
    """The image of any file."""
    words = ["bench", str(file), "--on", "qemu:m4", "--keep", str(folder / "kept"), "-q"]
    assert main([*words, *options]) == 0
    (image,) = (folder / "kept").glob("*.elf")
    return image


@pytest.mark.parametrize("form", range(len(FORMS)))
def test_states_that_are_computed(form: int, tmp_path: Path) -> None:
    """Sums in float32 among them, which round a pair of bytes in 65,536 otherwise than the real
    number."""
    model = Recurrent(form + 3, 2, **FORMS[form])
    file = model.save(tmp_path / "cells.onnx")
    pairs = [word for pair in model.states for word in ("--state", ":".join(pair))]
    (found,) = check(linked(file, tmp_path, *pairs), file, 3, reference_of)
    assert found.compared >= 6 and found.hops > 1 and not found.alone


@pytest.mark.parametrize("table", ["weights", "biases", "lstm"])
def test_an_lstm_of_another_file(table: str, tmp_path: Path) -> None:
    """A weight, a bias and a factor of a gate."""
    file = lstm_file(tmp_path)
    image = linked(file, tmp_path)
    (symbol,) = (one for one in tables(image) if one.name.endswith(f"_{table}"))
    where = symbol.address + (12 if table == "lstm" else 4)
    (old,) = LinkedImage(image).read(where, 1)
    one = changed(image, tmp_path / "other", where, bytes([old ^ 4]))
    with pytest.raises(FaultError, match="those of no lstm"):
        check(one, file, 0, reference_of)


def test_an_image_without_a_command_needs_no_runtime(tmp_path: Path) -> None:
    image = Path(shutil.copy(kept("hello", "m4"), tmp_path))
    (found,) = check(image, MODELS["hello"], 3, lambda _: pytest.fail("the runtime was asked"))
    assert found.compared == 1 and found.inputs == 0


def test_states_that_are_not_kept(tmp_path: Path) -> None:
    image = kept("gesture", "m4", "--hop", "8")
    where = field(image, "model_stream", STREAM, 0, "states")
    with pytest.raises(ImageError, match="not kept at the end"):
        verdict(changed(image, tmp_path, where, b"\1"), "gesture", inputs=0)


def test_a_sum_of_another_scale(tmp_path: Path) -> None:
    """One step of a factor makes other bytes of some pairs, and is not the file's."""
    image = kept("digits", "m4")
    layer = next(one for one in model_of(image).layers if one.kind == "add")
    for member in ("a_scale", "b_scale", "bias"):
        where = field(image, f"model_{layer.number:02}_add", PARAMS["add"], 0, member)
        step = changed(image, tmp_path, where, struct.pack("<i", layer.p[member] + (1 << 12)))
        with pytest.raises(FaultError, match="those of no sum"):
            verdict(step, "digits", inputs=0)
