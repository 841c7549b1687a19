# SPDX-License-Identifier: Apache-2.0
"""The sample of each package, built from the package alone, prints ONNX Runtime's scores."""

from __future__ import annotations

import json
import os
import re
import shutil
import sys
import xml.etree.ElementTree as ET
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest
from packed import CORTEX_M4, KEYWORD, ROOT, compile_all, expected_scores, need, run, sources, tool

STUBS = Path(__file__).parent
Unpacked = Callable[[str], Path]


def run_sketch(sketch: Path, includes: list[str], objects: list[Path], out: Path) -> list[str]:
    """The lines that a sketch prints with a stub of Arduino; objects: those of the library."""
    flags = [*includes, f"-I{STUBS / 'arduino'}", f"-I{sketch.parent}"]
    objects = [*objects, *compile_all(["gcc"], sources(sketch.parent), out / "sketch", *flags)]
    files = ["-x", "c++", sketch, STUBS / "arduino" / "main.cpp", "-x", "none", *objects]
    run(["g++", "-Wall", *flags, *files, "-o", out / "firmware"])
    return run([out / "firmware"]).splitlines()


def test_arduino(unpacked: Unpacked, tmp_path: Path) -> None:
    need("gcc", "g++")
    library = unpacked("arduino") / "vmcu"
    include = f"-I{library / 'src'}"
    objects = compile_all(["gcc"], sources(library / "src"), tmp_path / "library", include)
    sketch = library / "examples" / "keyword" / "keyword.ino"
    assert run_sketch(sketch, [include], objects, tmp_path) == expected_scores()


def test_platformio(unpacked: Unpacked, tmp_path: Path) -> None:
    """As library.json says, on this computer: PlatformIO's compilers cannot be installed here."""
    need("gcc", "g++")
    library = unpacked("platformio")
    build = json.loads((library / "library.json").read_text())["build"]
    include = f"-I{library / build['includeDir']}"
    files = sources(library / build["srcDir"])
    objects = compile_all(["gcc"], files, tmp_path / "library", include, *build["flags"])
    sketch = library / "examples" / "keyword" / "src" / "main.cpp"
    assert run_sketch(sketch, [include], objects, tmp_path) == expected_scores()


# ESP-IDF reads components in a script first, for what they require.
IDF_SCRIPT = """
macro(idf_component_register)
  return()
endmacro()
include({}/CMakeLists.txt)
"""


def idf_block() -> str:
    """The component `main` of doc/esp-idf.md, for the keyword sample."""
    text = (ROOT / "doc" / "esp-idf.md").read_text()
    return text.split("```cmake\n")[1].split("```")[0].replace("kws", "keyword")


@pytest.fixture(params=["example", "page"])
def idf_project(request: pytest.FixtureRequest, unpacked: Unpacked, tmp_path: Path) -> Path:
    """The example of the component, with its C files, or the model as the page builds it."""
    component = unpacked("esp-idf")
    project = Path(shutil.copytree(component / "examples" / "keyword", tmp_path / "project"))
    main = project / "main"
    if request.param == "page":
        (main / "keyword.c").unlink()
        (main / "keyword.h").unlink()
        (main / "CMakeLists.txt").write_text(idf_block())
        shutil.copy(KEYWORD / "keyword.onnx", main)
    (main / "idf_component.yml").unlink()
    shutil.copytree(component, project / "components" / "vmcu")
    return project


def test_esp_idf(idf_project: Path) -> None:
    need("gcc", "cmake", "ninja", "vmcu")
    component = idf_project / "components" / "vmcu"
    for folder in (component, idf_project / "main"):
        (idf_project / "script.cmake").write_text(IDF_SCRIPT.format(folder))
        run(["cmake", "-P", idf_project / "script.cmake"], idf_project)
    build = idf_project / "build"
    command = ["cmake", "-G", "Ninja", "-S", idf_project, "-B", build, "-DCMAKE_C_FLAGS=-O1"]
    run([*command, "-DCONFIG_VMCU_STREAMS=y"], IDF_PATH=str(STUBS / "idf"))
    run(["cmake", "--build", build])
    assert run([build / "keyword.elf"]).splitlines() == expected_scores()


@pytest.mark.skipif("IDF_PATH" not in os.environ, reason="no ESP-IDF: IDF_PATH is not set")
def test_esp_idf_itself(idf_project: Path) -> None:
    """On its target that is this computer, whose programs never end."""
    build = idf_project / "build"
    command = ["cmake", "-G", "Ninja", "-S", idf_project, "-B", build, "-DIDF_TARGET=linux"]
    python = Path(os.environ.get("IDF_PYTHON_ENV_PATH", sys.prefix)) / "bin" / "python"
    run([*command, f"-DPYTHON={python}", "-DPYTHON_DEPS_CHECKED=1"], idf_project)
    run(["cmake", "--build", build])
    ended = ["bash", "-c", '"$@" || [ $? -eq 124 ]', "bash", "timeout", "2"]
    lines = run([*ended, "stdbuf", "-oL", build / "keyword.elf"]).splitlines()
    assert [line for line in lines if re.match(r"\w+:( -?\d+){4}$", line)] == expected_scores()


def test_cmsis_pack(unpacked: Unpacked, tmp_path: Path) -> None:
    """The files of the component Runtime, with start-up code of the checkout, on Arm's MPS2."""
    need("arm-none-eabi-gcc", "qemu-system-arm")
    pack = unpacked("cmsis-pack")
    runtime = ET.parse(pack / "vmcu.vmcu.pdsc").find(".//component[@Csub='Runtime']")
    assert runtime is not None
    files = [(one.get("category", ""), pack / one.get("name", "")) for one in runtime.iter("file")]
    code = [path for category, path in files if category in ("sourceC", "sourceAsm")]
    folders = {path for category, path in files if category == "include"}
    folders |= {path.parent for category, path in files if category == "header"}
    port = ROOT / "lib" / "vmcu" / "port" / "freestanding"
    code += [port / "startup.c", port / "semihosting.c", ROOT / "samples/shared/plain/newlib.c"]
    flags = [f"-I{folder}" for folder in sorted({*folders, port})]
    objects = compile_all(CORTEX_M4, code, tmp_path, *flags)
    link = ["--specs=nano.specs", "-nostartfiles", f"-T{port / 'linker.ld'}"]
    run([*CORTEX_M4, *link, "-Wl,--gc-sections", *objects, "-o", tmp_path / "keyword.elf"])
    board = ["qemu-system-arm", "-M", "mps2-an386", "-nographic", "-monitor", "none"]
    board += ["-serial", "none", "-semihosting-config", "enable=on,target=native", "-kernel"]
    assert run([*board, tmp_path / "keyword.elf"]).splitlines() == expected_scores()


def test_zephyr(unpacked: Unpacked, tmp_path: Path) -> None:
    """samples/hello of the module."""
    from vmcu_bench.runners.workspace import environment, zephyr_base
    from vmcu_tools.errors import UserError

    need("arm-none-eabi-gcc", "qemu-system-arm", "cmake", "ninja")
    try:
        tree = zephyr_base()
    except UserError:
        pytest.skip("no Zephyr tree")
    module = unpacked("zephyr") / "vmcu"
    command = ["cmake", "-G", "Ninja", "-S", module / "samples" / "hello", "-B", tmp_path]
    options = ["-DBOARD=qemu_cortex_m3", f"-DEXTRA_ZEPHYR_MODULES={module}"]
    options.append(f"-DPython3_EXECUTABLE={sys.executable}")
    run([*command, *options], **environment(tree))
    run(["cmake", "--build", tmp_path])
    board = ["qemu-system-arm", "-M", "lm3s6965evb", "-nographic", "-monitor", "none"]
    command = ["timeout", "5", *board, "-kernel", tmp_path / "zephyr" / "zephyr.elf"]
    lines = run(["bash", "-c", '"$@" || [ $? -eq 124 ]', "bash", *command]).splitlines()
    assert lines[-4:] == expected_hues(module / "samples" / "hello" / "hello.onnx")


def expected_hues(model: Path) -> list[str]:
    """ONNX Runtime's lines of the hello sample, for the colours of its main.c."""
    onnxruntime = pytest.importorskip("onnxruntime")
    colours = [(255, 215, 0), (34, 139, 34), (220, 20, 60), (65, 105, 225)]
    hues = ["red", "yellow", "green", "cyan", "blue", "magenta"]
    session = onnxruntime.InferenceSession(model, providers=["CPUExecutionProvider"])
    lines = []
    for colour in colours:
        stored = (np.array([colour]) - 128).astype(np.int8)
        scores = session.run(None, {"x": stored})[0].ravel()
        best = int(scores.argmax())
        numbers = " ".join(f"{part:3}" for part in colour)
        lines.append(f"{numbers}: {hues[best]}, score {scores[best]}")
    return lines


def test_python(built: Path, unpacked: Unpacked, tmp_path: Path) -> None:
    """The wheel in an environment of its own, and the makefile of doc/install.md."""
    need("gcc", "make")
    tool("python")  # Without an index there are no tools.
    (wheel,) = (built / "python").glob("*.whl")
    run([sys.executable, "-m", "venv", tmp_path / "venv"])
    scripts = tmp_path / "venv" / "bin"
    run([scripts / "python", "-m", "pip", "install", "-q", "--disable-pip-version-check", wheel])
    project = tmp_path / "project"
    project.mkdir()
    example = unpacked("esp-idf") / "examples" / "keyword" / "main"
    for path in (example / "main.c", example / "clips.h", KEYWORD / "keyword.onnx"):
        shutil.copy(path, project)
    makefile = (ROOT / "doc" / "install.md").read_text().split("```make\n")[1].split("```")[0]
    (project / "Makefile").write_text(makefile.replace("kws", "keyword"))
    search = f"{scripts}{os.pathsep}{os.environ['PATH']}"
    run(["make"], project, PATH=search)
    assert run([project / "firmware"]).splitlines() == expected_scores()
    tree = Path(run([scripts / "vmcu", "--root"], project).strip())
    assert tree.is_relative_to(tmp_path / "venv")
