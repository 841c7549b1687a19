# SPDX-License-Identifier: Apache-2.0
"""`vmcu evidence`: one file with all checks, equal byte for byte wherever it is made."""

from __future__ import annotations

import csv
import hashlib
import io
import json
import os
import shutil
import subprocess
import sys
import zipfile
from pathlib import Path

import pytest
from vmcu_tools import paths
from vmcu_tools.cli import main

DIGITS = paths.root() / "samples" / "digits" / "digits.onnx"
GESTURE = paths.root() / "samples" / "gesture" / "gesture.onnx"


def evidence(out: Path, *words: str, model: Path = DIGITS) -> int:
    return main(["evidence", str(model), "-n", "1", "-o", str(out), *words])


def results(out: Path) -> dict[str, str]:
    text = zipfile.ZipFile(out).read("requirements.csv").decode()
    return {row["requirement"]: row["result"] for row in csv.DictReader(io.StringIO(text))}


@pytest.fixture(scope="module")
def kept(tmp_path_factory: pytest.TempPathFactory) -> Path:
    for program in ("arm-none-eabi-gcc", "qemu-system-arm"):
        if shutil.which(program) is None:
            pytest.skip(f"not installed: {program}")
    folder = tmp_path_factory.mktemp("kept")
    assert main(["bench", str(DIGITS), "--on", "qemu:m4", "--keep", str(folder)]) == 0
    return folder / "digits.elf"


def test_the_same_bytes_from_two_folders(tmp_path: Path) -> None:
    made = []
    for number in (1, 2):
        folder = tmp_path / f"folder{number}"
        folder.mkdir()
        shutil.copyfile(DIGITS, folder / "digits.onnx")
        words = ["evidence", "digits.onnx", "-n", "1", "-o", "out.zip"]
        environment = {**os.environ, "PYTHONHASHSEED": str(number), "TZ": f"UTC+{number}"}
        command = [sys.executable, "-m", "vmcu_tools", *words]
        subprocess.run(command, cwd=folder, env=environment, check=True, capture_output=True)
        made.append((folder / "out.zip").read_bytes())
    assert made[0] == made[1]


def test_what_is_in_the_file(tmp_path: Path) -> None:
    out = tmp_path / "digits.zip"
    assert evidence(out, "--ram", "4K") == 0
    archive = zipfile.ZipFile(out)
    document = json.loads(archive.read("evidence.json"))
    assert document["options"] == ["--ram", "4096"] or document["options"] == ["--ram", "4K"]
    assert document["model"]["sha256"] == hashlib.sha256(DIGITS.read_bytes()).hexdigest()
    tables = {name for name in archive.namelist() if name.startswith("tables/")}
    assert tables == {"tables/digits.c", "tables/digits.h"}
    for name, digest in document["tables"].items():
        assert hashlib.sha256(archive.read(f"tables/{name}")).hexdigest() == digest
    assert document["image"] is None
    by_result = results(out)
    assert sorted(set(by_result.values())) == ["not run", "passed"]
    assert [name for name, result in by_result.items() if result == "not run"] == [
        "the time of an inference does not depend on the input",
        "the linked image has a plan without overlaps",
        "the linked image has the constants of the model file",
        "the stack of an inference is bounded",
    ]
    spdx = json.loads(archive.read("sbom.spdx.json"))
    named = {package["SPDXID"] for package in spdx["packages"]} | {"SPDXRef-DOCUMENT"}
    for one in spdx["relationships"]:
        assert {one["spdxElementId"], one["relatedSpdxElement"]} <= named


def test_of_an_image(kept: Path, tmp_path: Path) -> None:
    out = tmp_path / "digits.zip"
    assert evidence(out, "--elf", str(kept), "--on", "qemu:m4") == 0
    assert set(results(out).values()) == {"passed"}
    image = json.loads(zipfile.ZipFile(out).read("evidence.json"))["image"]
    assert image["sha256"] == hashlib.sha256(kept.read_bytes()).hexdigest()
    assert any("GCC" in compiler for compiler in image["compiler"])


def test_a_check_that_fails(kept: Path, tmp_path: Path) -> None:
    """Damages a weight of the image, and builds the tables with other options."""
    from elftools.elf.elffile import ELFFile

    with kept.open("rb") as file:
        elf = ELFFile(file)
        symbols = elf.get_section_by_name(".symtab")
        (symbol,) = symbols.get_symbol_by_name("model_05_mac_stream")
        section = elf.get_section(symbol["st_shndx"])
        at = section["sh_offset"] + symbol["st_value"] - section["sh_addr"]
    data = bytearray(kept.read_bytes())
    data[at + 5] ^= 0x55
    damaged = tmp_path / "damaged.elf"
    damaged.write_bytes(data)
    out = tmp_path / "digits.zip"
    assert evidence(out, "--elf", str(damaged)) == 1
    assert results(out)["the linked image has the constants of the model file"] == "failed"
    assert evidence(out, "--elf", str(kept), "--stream-input") == 1
    assert results(out)["the linked image has a plan without overlaps"] == "failed"


def test_of_a_stream(tmp_path: Path) -> None:
    if shutil.which("gcc") is None:
        pytest.skip("not installed: gcc")
    out = tmp_path / "gesture.zip"
    assert evidence(out, "--hop", "4", model=GESTURE) == 0
    assert results(out)["outputs equal those of ONNX Runtime"] == "passed"


def test_no_file_of_a_model_that_is_not_one(tmp_path: Path) -> None:
    model = tmp_path / "m.onnx"
    model.write_bytes(b"no model")
    assert evidence(tmp_path / "out.zip", model=model) == 1
    assert not (tmp_path / "out.zip").exists()


def test_of_a_float_model(tmp_path: Path) -> None:
    """The digests of the file, of its samples, and of the int8 file that is compared."""
    import numpy as np
    from builders import scratch

    scratch.furnish(tmp_path)
    out, data = tmp_path / "net.zip", tmp_path / "data.npz"
    assert evidence(out, "--calibration", str(data), model=tmp_path / "net.onnx") == 0
    document = json.loads(zipfile.ZipFile(out).read("evidence.json"))
    assert document["calibration"]["sha256"] == hashlib.sha256(data.read_bytes()).hexdigest()
    assert document["int8_sha256"] != document["model"]["sha256"]
    assert len(np.load(data).files) > 0
