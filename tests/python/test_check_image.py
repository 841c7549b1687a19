# SPDX-License-Identifier: Apache-2.0
"""`vmcu check-image`: sound images pass, damaged ones do not if they compute other bytes."""

from __future__ import annotations

import functools
import json
import random
import shutil
import struct
import subprocess
import tempfile
from pathlib import Path

import numpy as np
import pytest
from elftools.elf.elffile import ELFFile
from vmcu_bench.commands.check_image import session_of
from vmcu_check.images.check import Verdict, check
from vmcu_check.images.elf import ImageError, ImageSymbol, LinkedImage
from vmcu_check.images.tables import LAYER, TENSOR, StructLayout, TableReader, model_symbols
from vmcu_check.images.walk import FaultError
from vmcu_tools.cli import main

SAMPLES = Path(__file__).resolve().parents[2] / "samples"
MODELS = {name: SAMPLES / name / f"{name}.onnx" for name in ("digits", "hello", "gesture")}
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
    (found,) = check(image, MODELS[name], inputs, session_of)
    return found


@pytest.mark.parametrize(
    ("name", "core", "options", "layers"),
    [
        ("digits", "m4", (), 8),
        ("digits", "m0", (), 8),
        ("digits", "m55", (), 8),
        ("digits", "rv32", (), 8),
        ("digits", "m4", ("--target", "portable", "--external-input"), 8),
        ("hello", "m3", (), 1),
        ("gesture", "m4", (), 3),
        ("gesture", "m4", ("--hop", "8"), 3),
    ],
)
def test_a_sound_image(name: str, core: str, options: tuple[str, ...], layers: int) -> None:
    """All constants of its layers with weights are the file's."""
    found = verdict(kept(name, core, *options), name)
    assert found.compared == layers and not found.alone
    assert found.inputs == (0 if "--hop" in options else 3)
    assert (found.hops > 2) == ("--hop" in options)


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


def tables(image: Path) -> list[ImageSymbol]:
    """The constants of the model in an image."""
    symbols = LinkedImage(image).symbols.values()
    return [s for s in symbols if s.name.startswith("model_") and s.bytes and not s.is_function]


def accepted_wrongly(name: str, core: str, seed: int, count: int, folder: Path) -> list[str]:
    """Changes a byte of `count` images each; names those that pass and answer otherwise."""
    image, dice = kept(name, core), random.Random(seed)
    model = TableReader(LinkedImage(image), model_symbols(LinkedImage(image))[0]).model()
    size = sum(model.tensors[port.tensor].bytes for port in model.inputs)
    drawn = np.random.default_rng(seed).integers(0, 256, ORACLE_INPUTS * size)
    inputs = drawn.astype(np.uint8).tobytes()
    sound = changed(image, folder / "sound", model_symbols(LinkedImage(image))[0].address, b"")
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
    assert accepted_wrongly("digits", "m4", seed, 200, tmp_path) == []
    assert accepted_wrongly("hello", "m4", seed, 50, tmp_path / "hello") == []


def field(image: Path, table: str, members: str, number: int, name: str) -> int:
    """The address of a member of a struct in a table."""
    layout = StructLayout(members, 4)
    (symbol,) = (s for s in tables(image) if s.name == table)
    (at,) = (at for member, at, _ in layout.members if member == name)
    return symbol.address + number * layout.bytes + at


def test_tensors_that_overlap(tmp_path: Path) -> None:
    """A base that is off by a row: the message names layer, byte, tensor and place."""
    image = kept("digits", "m4")
    where = field(image, "model_tensors", TENSOR, 3, "base")
    (base,) = struct.unpack("<I", LinkedImage(image).read(where, 4))
    one = changed(image, tmp_path, where, struct.pack("<I", base + 16))
    fault = r"layer \d \(vmcu_\w+\), row \d, .* byte \d+ of tensor 3 .*byte \d+ of tensor 4"
    with pytest.raises(FaultError, match=fault):
        check(one, None, 0, session_of)


@pytest.mark.parametrize("size", ["height", "width", "channels"])
def test_a_huge_tensor(size: str, tmp_path: Path) -> None:
    """It is refused before it costs memory."""
    image = kept("digits", "m4")
    where = [field(image, "model_tensors", TENSOR, 2, name) for name in ("height", size)]
    one = changed(image, tmp_path, where[0], b"\xff\xff")
    one = changed(one, tmp_path / "both", where[1], b"\xff\xff")
    with pytest.raises(ImageError):
        check(one, None, 0, session_of)


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
        check(kept("digits", "m4"), other_digits(), 0, session_of)


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


def test_an_image_that_answers_otherwise(tmp_path: Path) -> None:
    """The emulated core is asked: the code of a kernel may be wrong, too."""
    image = kept("hello", "m4")
    code = LinkedImage(image).symbols["vmcu_dense"]
    # BX LR: the kernel returns at once.
    one = changed(image, tmp_path, code.address, b"\x70\x47")
    with pytest.raises(FaultError, match="emulated core"):
        verdict(one, "hello")
