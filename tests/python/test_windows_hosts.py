# SPDX-License-Identifier: Apache-2.0
"""The tools on a computer that lacks what Windows lacks, in a folder with a space and an umlaut."""

from __future__ import annotations

import ast
import os
import shutil
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import numpy as np
import onnx
import pytest
from onnx import helper, numpy_helper

ROOT = Path(__file__).resolve().parents[2]
SHIM = Path(__file__).with_name("windows")
SAMPLES = ROOT / "samples"
MODEL = "Größe 1.onnx"
# Each in the folder of the model; the ones behind it use what it wrote.
COMMANDS = {
    "build": [("build", MODEL, "-o", "aus gabe", "--picture", "bild.svg", "--json", "zahlen.json")],
    "fit": [("fit", MODEL, "--ram", "64K", "--json", "-")],
    "check": [("check", MODEL, "--max-ram", "64K")],
    "quantize": [
        ("quantize", "gleitkomma.onnx", "--calibration", "random", "-o", "ganz zahlig.onnx"),
        ("build", "ganz zahlig.onnx"),
    ],
    "new": [("new", "neue Anwendung", "--model", MODEL)],
    "inspect": [("inspect", MODEL)],
    "container": [
        ("build", MODEL, "--format", "container", "--name", "netz", "-o", "."),
        ("container", "show", "netz.vmcu"),
    ],
    "compare": [("compare", MODEL, MODEL)],
    "place": [("place", "puffer.csv")],
    "run": [("run", MODEL, "--input", "größe.npy", "--output", "aus gabe.npy")],
    "verify": [("verify", MODEL, "--on", "host")],
    "evidence": [("evidence", MODEL, "-o", "nach weis.zip")],
    "check-image": [
        ("bench", MODEL, "--on", "qemu:m4", "--keep", "bild", "-q"),
        ("check-image", "bild/gr__e_1.elf", "--model", MODEL),
    ],
}


PROJECT = f"""\
cmake_minimum_required(VERSION 3.20)
project(firmware LANGUAGES C)
find_package(vmcu REQUIRED PATHS "{ROOT / "cmake"}" NO_DEFAULT_PATH)
add_executable(firmware main.c)
vmcu_add_model(firmware NAME netz MODEL "{MODEL}")
"""
PROGRAM = """\
#include <netz.h>
#include <vmcu/pool.h>

static VMCU_POOL_DEFINE(pool, VMCU_MODEL_POOL_BYTES(netz));

int main(void)
{
	struct vmcu_context ctx;

	return vmcu_init(&ctx, &netz_model, pool, sizeof(pool)) != 0 || vmcu_invoke(&ctx) != 0;
}
"""


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    made = tmp_path / "Büro Modelle"
    made.mkdir()
    shutil.copy(SAMPLES / "digits" / "digits.onnx", made / MODEL)
    rows = "".join(f"b{n},{n},{n + 3},{16 * (n % 7 + 1)}\n" for n in range(40))
    np.save(made / "größe.npy", np.zeros((1, 1, 8, 8), np.float32))
    (made / "puffer.csv").write_text(f"id,lower,upper,size\n{rows}", encoding="utf-8")
    return made


def environment() -> dict[str, str]:
    """That of the shim; files and pipes without an encoding are ASCII."""
    return {
        **os.environ,
        **{"LC_ALL": "C", "PYTHONUTF8": "0", "PYTHONCOERCECLOCALE": "0"},
        "PYTHONPATH": os.pathsep.join((str(SHIM), str(ROOT / "python"))),
    }


def a_float_model() -> onnx.ModelProto:
    weights = np.random.default_rng(0).normal(size=(8, 4)).astype(np.float32)
    shapes = (("x", (1, 8)), ("y", (1, 4)))
    ports = [
        helper.make_tensor_value_info(name, onnx.TensorProto.FLOAT, one) for name, one in shapes
    ]
    nodes = [helper.make_node("MatMul", ["x", "w"], ["z"]), helper.make_node("Relu", ["z"], ["y"])]
    graph = helper.make_graph(
        nodes, "net", ports[:1], ports[1:], [numpy_helper.from_array(weights, "w")]
    )
    return helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=9)


@pytest.mark.parametrize("name", COMMANDS)
def test_commands(name: str, folder: Path) -> None:
    if name == "check-image" and not shutil.which("qemu-system-arm"):
        pytest.skip("needs qemu-system-arm")
    if name == "quantize":
        pytest.importorskip("onnxruntime")
        onnx.save(a_float_model(), folder / "gleitkomma.onnx")
    for words in COMMANDS[name]:
        command = [sys.executable, "-m", "vmcu_tools", *words]
        done = subprocess.run(
            command, cwd=folder, env=environment(), capture_output=True, check=False
        )
        assert done.returncode == 0, done.stderr.decode("utf-8", "replace")


@pytest.mark.skipif(
    not (shutil.which("cmake") and shutil.which("ninja") and shutil.which("gcc")),
    reason="needs cmake, ninja and gcc",
)
def test_cmake(folder: Path) -> None:
    (folder / "main.c").write_text(PROGRAM, encoding="utf-8")
    (folder / "CMakeLists.txt").write_text(PROJECT, encoding="utf-8")
    python = f"-DPython3_EXECUTABLE={sys.executable}"
    for command in (
        ["cmake", "-G", "Ninja", "-S", ".", "-B", "ge baut", python],
        ["cmake", "--build", "ge baut"],
        [str(folder / "ge baut" / "firmware")],
    ):
        done = subprocess.run(
            command, cwd=folder, env=environment(), capture_output=True, check=False
        )
        assert done.returncode == 0, (done.stdout + done.stderr).decode("utf-8", "replace")


def test_west(folder: Path) -> None:
    """A workspace whose module is in that folder, too."""
    pytest.importorskip("west")
    module = folder / "die Erweiterung"
    for name in ("python", "scripts"):
        shutil.copytree(ROOT / name, module / name, ignore=shutil.ignore_patterns("__pycache__"))
    commands = "west-commands: scripts/west-commands.yml"
    manifest = f"manifest: {{self: {{path: die Erweiterung, {commands}}}}}\n"
    (module / "west.yml").write_text(manifest, encoding="utf-8")
    for words in (("init", "-l", module.name), ("vmcu", "build", MODEL, "-o", "aus gabe")):
        without = {name: text for name, text in environment().items() if name != "ZEPHYR_BASE"}
        command = [sys.executable, "-m", "west", *words]
        done = subprocess.run(command, cwd=folder, env=without, capture_output=True, check=False)
        assert done.returncode == 0, (done.stdout + done.stderr).decode("utf-8", "replace")
    assert [file.name for file in (folder / "aus gabe").glob("*.c")]


def test_the_shim_takes_away_what_windows_lacks(tmp_path: Path) -> None:
    """What a command would do without a fallback."""
    for wrong in (
        "import os; os.killpg",
        "import os; os.getuid",
        "import signal; signal.SIGKILL",
        "import fcntl",
        "import resource",
        "print('ü')",
        f"from pathlib import Path; Path({str(tmp_path / 'a')!r}).write_text('ü')",
    ):
        done = subprocess.run(
            [sys.executable, "-c", wrong], env=environment(), capture_output=True, check=False
        )
        assert done.returncode == 1, wrong


def unencoded(source: str) -> Iterator[int]:
    """The lines that read or write text in the encoding of the computer."""
    for node in ast.walk(ast.parse(source)):
        if not isinstance(node, ast.Call):
            continue
        name = getattr(node.func, "attr", getattr(node.func, "id", ""))
        given = {word.arg for word in node.keywords}
        modes = [a.value for a in node.args[:2] if isinstance(a, ast.Constant)]
        is_binary = any(isinstance(mode, str) and "b" in mode for mode in modes)
        is_method = hasattr(node.func, "attr")
        is_text = (is_method and name in ("read_text", "write_text")) or "text" in given
        is_text |= name == "open" and not is_method and not is_binary
        if is_text and not given & {"encoding", "errors"}:
            yield node.lineno


def test_text_has_an_encoding() -> None:
    assert list(unencoded("p.read_text()\nrun(c, text=True)\nopen(p, 'rb')\nopen(p)\n")) == [
        1,
        2,
        4,
    ]
    found = [
        f"{path.relative_to(ROOT)}:{line}"
        for path in sorted((ROOT / "python").rglob("*.py"))
        for line in unencoded(path.read_text(encoding="utf-8"))
    ]
    assert not found
