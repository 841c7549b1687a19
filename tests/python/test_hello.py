# SPDX-License-Identifier: Apache-2.0
"""samples/hello: what it prints, and what the runtime costs an application of one layer."""

from __future__ import annotations

import json
import re
import runpy
import shutil
import subprocess
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
from vmcu_bench import runners
from vmcu_bench.runners.qemu import ARM, QemuRunner
from vmcu_tools import paths
from vmcu_tools.cli import main

HELLO = paths.root() / "samples" / "hello"
MODEL = HELLO / "hello.onnx"
LIBRARY_FLASH, LIBRARY_RAM = 3850, 100
LINE = re.compile(r" *(\d+) +(\d+) +(\d+): (\w+), score (-?\d+)")


def test_the_committed_model_is_what_the_script_makes() -> None:
    made = runpy.run_path(str(HELLO / "make_model.py"))["model"]()
    assert made.SerializeToString() == MODEL.read_bytes()
    assert MODEL.stat().st_size < 512


def test_the_expected_output_is_onnx_runtimes() -> None:
    ort = pytest.importorskip("onnxruntime")
    hues = list(runpy.run_path(str(HELLO / "make_model.py"))["HUES"])
    session = ort.InferenceSession(MODEL, providers=["CPUExecutionProvider"])
    expected = LINE.findall((HELLO / "sample.yaml").read_text())
    assert len(expected) == 4
    for *colour, hue, score in expected:
        pixel = (np.array([colour], np.int64) - 128).astype(np.int8)
        scores = session.run(None, {"x": pixel})[0][0]
        assert (hues[scores.argmax()], int(score)) == (hue, scores.max())


@pytest.fixture(scope="module")
def generated(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("hello")
    assert main(["build", str(MODEL), "-o", str(folder)]) == 0
    return folder


def test_prints_what_the_sample_expects(generated: Path) -> None:
    if shutil.which("gcc") is None:
        pytest.skip("not installed: gcc")
    host = runners.get("host")
    program = generated / "hello"
    sources = [HELLO / "src" / "main.c", generated / "hello.c"]
    sources.append(host.archive(sources))
    flags = ["-Wconversion", f"-I{generated}"]
    host.gcc([*flags, *map(str, sources), "-o", str(program)], generated)
    done = subprocess.run([program], check=True, capture_output=True, text=True)
    assert LINE.findall(done.stdout) == LINE.findall((HELLO / "sample.yaml").read_text())


APPLICATION = """
#include <vmcu/vmcu.h>
#include "hello.h"

static VMCU_POOL_DEFINE(pool, VMCU_MODEL_POOL_BYTES(hello));

int main(void)
{
	static struct vmcu_context ctx;

	(void)vmcu_init(&ctx, &hello_model, pool, sizeof(pool));
	vmcu_input(&ctx, 0)[0] = 1;
	return vmcu_invoke(&ctx) + vmcu_output(&ctx, 0)[0];
}
"""


def linked(board: QemuRunner, level: str, generated: Path, folder: Path) -> Path:
    """An image of the layer without printf(), the runtime compiled at an optimisation level."""
    (folder / "app.c").write_text(APPLICATION)
    board = replace(board, flags=(*board.flags, level, "-DVMCU_NO_REQUANT_FIXED"))
    sources = [folder / "app.c", generated / "hello.c", *board.sources()]
    linked = map(str, (*sources, board.archive(sources)))
    elf = folder / "hello.elf"
    board.gcc([f"-I{generated}", *linked, *board.link_flags(), "-o", str(elf)], folder)
    return elf


# prj.conf compiles for size, with one requantiser; cores with an FPU keep the bound at -O2 too.
@pytest.mark.parametrize(
    ("name", "level"), [("qemu:m3", "-Os"), ("qemu:m4", "-Os"), ("qemu:m4", "-O2")]
)
def test_the_library_is_small(generated: Path, name: str, level: str, tmp_path: Path) -> None:
    if shutil.which(ARM.prefix + "gcc") is None:
        pytest.skip("not installed: arm-none-eabi-gcc")
    board = runners.get(name)
    assert isinstance(board, QemuRunner)
    elf = linked(board, level, generated, tmp_path)
    figures = tmp_path / "size.json"
    assert main(["inspect", str(elf), "--json", str(figures)]) == 0
    parts = json.loads(figures.read_text())["parts"]
    library = [parts[part] for part in ("context", "kernels", "executor")]
    assert 1000 < sum(part["flash"] for part in library) <= LIBRARY_FLASH
    assert 16 <= sum(part["ram"] for part in library) <= LIBRARY_RAM
    assert parts["pool"]["ram"] == 7


def test_the_sample_is_compiled_for_size() -> None:
    lines = (HELLO / "prj.conf").read_text().splitlines()
    assert {"CONFIG_VMCU_SPEED=n", "CONFIG_VMCU_REQUANT_FIXED=n"} <= set(lines)
