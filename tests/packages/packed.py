# SPDX-License-Identifier: Apache-2.0
"""Packages for the tests: unpacked, compiled, and the lines that their samples must print."""

from __future__ import annotations

import os
import re
import shutil
import subprocess
import tarfile
import zipfile
from collections.abc import Iterable, Sequence
from pathlib import Path

import numpy as np
import pytest
from vmcu_bench.oracle import exact_ort

ROOT = Path(__file__).resolve().parents[2]
KEYWORD = ROOT / "samples" / "keyword"
CORTEX_M = ("arm-none-eabi-gcc", "-mthumb", "-mcpu=cortex-m4", "-mfloat-abi=hard")
CORTEX_M4 = (*CORTEX_M, "-mfpu=fpv4-sp-d16")


def run(command: Sequence[str | Path], cwd: Path | None = None, **environment: str) -> str:
    """The standard output of a command that must succeed."""
    kept = {k: v for k, v in os.environ.items() if k not in ("PYTHONPATH", "SOURCE_DATE_EPOCH")}
    done = subprocess.run(
        list(map(str, command)), cwd=cwd, env=kept | environment, capture_output=True, text=True
    )
    assert done.returncode == 0, done.stdout + done.stderr
    return done.stdout


def need(*programs: str) -> None:
    """Skips the test unless the machine has these programs."""
    for program in programs:
        if not shutil.which(program):
            pytest.skip(f"needs {program}")


def tool(name: str) -> Path:
    """A program of the environment that ./test packages installs; skips the test without it."""
    folder = os.environ.get("VMCU_PACKAGE_TOOLS")
    if not folder:
        pytest.skip("VMCU_PACKAGE_TOOLS is not set: ./test packages installs the tools")
    return Path(folder) / name


def unpack(archive: Path, folder: Path) -> Path:
    if zipfile.is_zipfile(archive):
        zipfile.ZipFile(archive).extractall(folder)
    else:
        with tarfile.open(archive) as packed:
            # New in Python 3.11.4.
            packed.extraction_filter = getattr(tarfile, "data_filter", None)
            packed.extractall(folder)
    return folder


def sources(folder: Path) -> list[Path]:
    """C and assembly files of a folder and those below it."""
    return sorted(path for end in ("c", "S") for path in folder.rglob(f"*.{end}"))


def compile_all(
    compiler: Sequence[str | Path], files: Iterable[Path], out: Path, *flags: str | Path
) -> list[Path]:
    """The objects of files, at -O2 in GCC's own C as users' builds have it."""
    out.mkdir(parents=True, exist_ok=True)
    objects = []
    for number, path in enumerate(files):
        objects.append(out / f"{number}_{path.name}.o")
        run([*compiler, "-O2", "-std=gnu11", *flags, "-c", path, "-o", objects[-1]], out)
    return objects


def clips() -> tuple[np.ndarray, list[str]]:
    """The clips of the keyword sample, int8, and their words."""
    text = (KEYWORD / "src" / "clips.h").read_text(encoding="utf-8")
    rows = re.findall(r"^\t\t\{([-\d, ]+)\},$", text, re.MULTILINE)
    values = np.array([list(map(int, row.split(","))) for row in rows], dtype=np.int8)
    played = re.search(r"played\[CLIPS\] = \{([\d, ]+)\}", text)
    words = re.search(r"words\[\] = \{(.+)\}", text)
    assert played and words
    names = words[1].replace('"', "").split(", ")
    return values.reshape(-1, 1, 1, 49, 10), [names[int(i)] for i in played[1].split(",")]


def border(graph: object, tensor: str, kind: str) -> tuple[np.float32, int]:
    """Scale and zero point of the Quantize- or DequantizeLinear at an end of a network."""
    from onnx import numpy_helper

    constants = {one.name: numpy_helper.to_array(one) for one in graph.initializer}
    end = "input" if kind == "QuantizeLinear" else "output"
    node = next(n for n in graph.node if n.op_type == kind and tensor in getattr(n, end))
    return constants[node.input[1]].item(), constants[node.input[2]].item()


def expected_scores() -> list[str]:
    """ONNX Runtime's lines of the keyword sample: the clip's word, then the int8 scores."""
    onnx = pytest.importorskip("onnx")
    onnxruntime = pytest.importorskip("onnxruntime")
    model = onnx.load(KEYWORD / "keyword.onnx")
    scale, zero = border(model.graph, "features", "QuantizeLinear")
    out_scale, out_zero = border(model.graph, "scores", "DequantizeLinear")
    session = exact_ort.session(onnxruntime, model, "ORT_ENABLE_EXTENDED")
    lines = []
    for clip, word in zip(*clips(), strict=True):
        real = ((clip.astype(np.int32) - zero) * scale).astype(np.float32)
        scores = session.run(None, {"features": real})[0].ravel()
        stored = np.rint(scores / out_scale).astype(int) + out_zero
        lines.append(f"{word}: {' '.join(map(str, stored))}")
    return lines
