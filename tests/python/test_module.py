# SPDX-License-Identifier: Apache-2.0
"""What Zephyr, CMake and west see of vmcu, as far as it can be tried without a Zephyr tree."""

from __future__ import annotations

import os
import re
import shutil
import subprocess
import sys
from pathlib import Path

import pytest
import vmcu_tools
from builders import scratch
from builders.onnx_states import listening
from vmcu_tools import paths

ROOT = Path(__file__).resolve().parents[2]
DIGITS = ROOT / "samples" / "digits"

MANIFEST = """
manifest:
  self:
    path: vmcu
    west-commands: scripts/west-commands.yml
"""


def run(*command: str | Path, cwd: Path) -> subprocess.CompletedProcess[str]:
    # An exported ZEPHYR_BASE would make west look at another workspace.
    environment = {k: v for k, v in os.environ.items() if k != "ZEPHYR_BASE"}
    return subprocess.run(
        [str(part) for part in command],
        cwd=cwd,
        env=environment,
        stdin=subprocess.DEVNULL,
        capture_output=True,
        text=True,
        check=False,
    )


def test_requirements_are_those_of_the_project():
    tomllib = pytest.importorskip("tomllib", reason="Python 3.11")
    project = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
    extras = project["optional-dependencies"]
    assert scratch.requirements() == project["dependencies"]
    assert scratch.requirements("-test") == [*extras["quantize"], *extras["sign"]]


@pytest.mark.parametrize(("folder", "requirements"), [("samples", ""), ("tests", "-test")])
def test_requirements_suffice(folder: str, requirements: str, tmp_path: Path) -> None:
    """For Python that CMakeLists.txt of samples and tests start."""
    started, places = set(), [ROOT / "tests" / "python", ROOT / "python"]
    for lists in ROOT.glob(f"{folder}/*/CMakeLists.txt"):
        names = re.findall(r"CURRENT_SOURCE_DIR}/(\w+)\.py", lists.read_text())
        started |= {*names}
        places += [lists.parent] if names else []
    assert started
    core = scratch.core(tmp_path, scratch.requirements(requirements))
    path = os.pathsep.join(map(str, [core, *places]))
    command = [sys.executable, "-c", f"import {', '.join(sorted(started))}"]
    done = subprocess.run(command, env=os.environ | {"PYTHONPATH": path}, capture_output=True)
    assert done.returncode == 0, done.stderr.decode()


def test_module_file_is_one_that_zephyr_takes() -> None:
    """By the schemas of all trees that are here; and its version is that of everything else."""
    trees = [t for t in Path.home().glob("zephyrproject*/zephyr") if (t / "VERSION").is_file()]
    if not trees:
        pytest.skip("no Zephyr tree, whose schema says what may be in the file")
    for tree in trees:
        code = f"""
import sys
from pathlib import Path
sys.path.insert(0, {str(tree / "scripts")!r})
import zephyr_module
print(zephyr_module.process_module(Path({str(ROOT)!r}))["security"]["external-references"])
"""
        done = run(sys.executable, "-c", code, cwd=ROOT)
        assert done.stdout == f"['pkg:generic/vmcu@{vmcu_tools.__version__}']\n", done.stderr


OPERATORS = "include/vmcu/operators.h"


def test_module_file_is_found_under_both_names():
    assert (ROOT / "module.yml").read_text() == (ROOT / "zephyr" / "module.yml").read_text()


def test_sources_are_those_of_the_folders() -> None:
    """cmake/sources.cmake lists all C and assembly files but kernels that operators.h lists, ports,
    stacks and the list of all kernels."""
    runtime = ROOT / "lib" / "vmcu"
    there = {str(path.relative_to(runtime)) for path in paths.sources(runtime)}
    there -= {name for name in there if name.startswith(("port/", "endurance/"))}
    kernels = re.findall(r"entry\(vmcu_(\w+)\)", (runtime / OPERATORS).read_text())
    listed = re.findall(r"^  (\S+\.[cS])$", (ROOT / "cmake" / "sources.cmake").read_text(), re.M)
    listed += there.intersection(f"kernels/{name}.c" for name in kernels)
    assert sorted(listed) == sorted(there - {"container/all.c"})
    module = "".join(path.read_text() for path in runtime.rglob("CMakeLists.txt"))
    assert "GLOB" not in module and "zephyr_compile_definitions" not in module


@pytest.fixture(scope="module")
def workspace(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A west workspace around a copy of the command; nothing is fetched."""
    top = tmp_path_factory.mktemp("workspace")
    project = top / "vmcu"
    shutil.copytree(ROOT / "scripts", project / "scripts")
    (project / "python").symlink_to(ROOT / "python")
    (project / "west.yml").write_text(MANIFEST)
    assert west(top, "init", "-l", "vmcu").returncode == 0
    return top


def west(cwd: Path, *arguments: str) -> subprocess.CompletedProcess[str]:
    return run(sys.executable, "-m", "west", *arguments, cwd=cwd)


@pytest.mark.parametrize("arguments", [("help", "vmcu"), ("vmcu", "-h")])
def test_west_help_names_the_commands(workspace: Path, arguments: tuple[str, ...]):
    assert "vmcu:" in west(workspace, "help").stdout
    done = west(workspace, *arguments)
    assert done.returncode == 0
    assert all(words in done.stdout for words in ("build", "verify", "usage: west vmcu"))


def test_west_hands_arguments_on_and_exit_codes_back(workspace: Path):
    output = workspace / "out"
    model = DIGITS / "digits.onnx"
    done = west(workspace, "vmcu", "build", str(model), "-o", str(output), "--name", "digits")
    assert done.returncode == 0, done.stderr
    assert (output / "digits.c").is_file()
    assert west(workspace, "vmcu", "build", "missing.onnx").returncode == 1
    assert west(workspace, "vmcu", "build", "--no-such-option").returncode == 2


needs_cmake = pytest.mark.skipif(
    not (shutil.which("cmake") and shutil.which("ninja") and shutil.which("gcc")),
    reason="needs cmake, ninja and gcc",
)


def cmake_project(folder: Path, *models: str, main: str = "") -> None:
    (folder / "main.c").write_text(f"{main}int main(void) {{ return 0; }}\n")
    (folder / "CMakeLists.txt").write_text(
        "cmake_minimum_required(VERSION 3.20.0)\n"
        "project(app LANGUAGES C)\n"
        f"include({ROOT}/cmake/vmcu.cmake)\n"
        "add_executable(app main.c)\n"
        + "".join(f"vmcu_add_model(app NAME {arguments})\n" for arguments in models)
    )


def configure(folder: Path) -> subprocess.CompletedProcess[str]:
    python = f"-DPython3_EXECUTABLE={sys.executable}"
    return run("cmake", "-G", "Ninja", "-S", folder, "-B", folder / "build", python, cwd=folder)


def built(folder: Path, *targets: str) -> subprocess.CompletedProcess[str]:
    """The build of some targets: all would compile the runtime, as test_package.py does."""
    return run("cmake", "--build", "build", "--target", *targets, cwd=folder)


@needs_cmake
def test_models_are_for_the_core_that_zephyr_builds_for(tmp_path: Path):
    cases = {
        "": "",
        "CPU_CORTEX_M4 FPU": "",
        "ARMV8_1_M_MVEI": "",
        "ARMV8_1_M_MVEI FPU": "helium",
        "RISCV": "",
        "RISCV RISCV_ISA_EXT_M": "rv32",
        "RISCV RISCV_ISA_EXT_M 64BIT": "",
        "ARMV6_M_ARMV8_M_BASELINE": "v6m",
    }
    (tmp_path / "CMakeLists.txt").write_text(
        "cmake_minimum_required(VERSION 3.20.0)\n"
        "project(app LANGUAGES NONE)\n"
        f"include({ROOT}/cmake/vmcu.cmake)\n"
        "function(choose)\n"
        "  foreach(symbol ${ARGN})\n"
        "    set(CONFIG_${symbol} y)\n"
        "  endforeach()\n"
        "  vmcu_core_target(core)\n"
        '  message(STATUS "core of ${ARGN}: <${core}>")\n'
        "endfunction()\n" + "".join(f"choose({symbols})\n" for symbols in cases)
    )
    done = configure(tmp_path)
    assert done.returncode == 0, done.stderr
    wanted = [(symbols.replace(" ", ";"), core) for symbols, core in cases.items()]
    assert re.findall(r"core of (.*): <(.*)>", done.stdout) == wanted


@needs_cmake
def test_a_model_that_does_not_fit_stops_the_build_and_says_why(tmp_path: Path):
    cmake_project(tmp_path, f"tiny MODEL {ROOT}/tests/runtime/tiny.onnx RAM 100")
    assert configure(tmp_path).returncode == 0
    done = built(tmp_path, "vmcu_generate_tiny")
    assert done.returncode != 0
    assert "100 are allowed" in done.stdout + done.stderr
    assert not list((tmp_path / "build" / "vmcu" / "tiny").iterdir())


@needs_cmake
def test_models_that_keep_their_state(tmp_path: Path):
    """Rows of a window, and values that are inputs and outputs of the file."""
    listening(tmp_path / "fed.onnx", (3, 4), [("a", "b"), ("past", "present")], rows=2)
    keyword = f"keyword MODEL {ROOT}/samples/keyword/keyword.onnx HOP 4"
    main = (
        '#include "fed.h"\n#include "keyword.h"\n#ifndef VMCU_STREAMS\n#error\n#endif\n'
        "char hop_is_four[(VMCU_MODEL_KEYWORD_HOP_ROWS == 4) ? 1 : -1];\n"
        "char two_rows[(VMCU_MODEL_FED_HOP_ROWS == 2) ? 1 : -1];\n"
    )
    cmake_project(tmp_path, keyword, "fed MODEL fed.onnx STATE a:b past:present", main=main)
    assert configure(tmp_path).returncode == 0
    objects = (f"CMakeFiles/app.dir/{name}.c.o" for name in ("main", "vmcu/fed/fed"))
    done = built(tmp_path, *objects)
    assert done.returncode == 0, done.stdout + done.stderr
    rules = (tmp_path / "build" / "build.ninja").read_text()
    runtime = re.findall(r"^build CMakeFiles/vmcu\.dir/.*?\n\n", rules, re.M | re.S)
    assert len(runtime) > 50 and all("-DVMCU_STREAMS" in rule for rule in runtime)


def defined_macros(folder: Path) -> set[str]:
    """The macros that CMake defines for main.c."""
    rules = (folder / "build" / "build.ninja").read_text()
    (rule,) = re.findall(r"^build CMakeFiles/app\.dir/main\.c\.o:.*?\n\n", rules, re.M | re.S)
    return set(re.findall(r"-D(\S+)", rule))


@needs_cmake
@pytest.mark.parametrize(
    ("names", "options", "macros"),
    [
        (("h0", "hn"), "", {"VMCU_STREAMS"}),
        (("h0", "hn"), "ARGS --state none", set()),
        (("a", "b"), "", set()),
        (("a", "b"), "ARGS --state a:b", {"VMCU_STREAMS"}),
    ],
)
def test_a_model_with_states_defines_the_macro(
    tmp_path: Path, names: tuple[str, str], options: str, macros: set[str]
) -> None:
    """Whether the file, ARGS or vmcu_add_model() says so."""
    listening(tmp_path / "net.onnx", (3,), [names], rows=2)
    cmake_project(tmp_path, f"net MODEL net.onnx {options}")
    done = configure(tmp_path)
    assert done.returncode == 0, done.stderr
    assert defined_macros(tmp_path) == macros


@needs_cmake
def test_a_model_that_becomes_one_with_states_is_seen(tmp_path: Path) -> None:
    listening(tmp_path / "net.onnx", (3,), [("a", "b")], rows=2)
    cmake_project(tmp_path, "net MODEL net.onnx")
    assert configure(tmp_path).returncode == 0 and defined_macros(tmp_path) == set()
    listening(tmp_path / "net.onnx", (3,), [("h0", "hn")], rows=2)
    done = built(tmp_path, "CMakeFiles/app.dir/vmcu/net/net.c.o")
    assert done.returncode == 0, done.stdout + done.stderr
    assert defined_macros(tmp_path) == {"VMCU_STREAMS"}


@needs_cmake
@pytest.mark.parametrize("given", [False, True])
def test_a_runtime_that_is_already_compiled_needs_the_macro(tmp_path: Path, given: bool) -> None:
    listening(tmp_path / "net.onnx", (3,), [("h0", "hn")], rows=2)
    cmake_project(tmp_path, "net MODEL net.onnx")
    page = tmp_path / "CMakeLists.txt"
    own = "add_library(vmcu STATIC IMPORTED)\n"
    own += "set_target_properties(vmcu PROPERTIES IMPORTED_LOCATION ./libvmcu.a)\n"
    if given:
        own += "target_compile_definitions(vmcu INTERFACE VMCU_STREAMS)\n"
    page.write_text(page.read_text().replace("vmcu_add_model(", own + "vmcu_add_model("))
    done = configure(tmp_path)
    assert (done.returncode == 0) == given
    said = " ".join(done.stderr.split())
    assert ("vmcu_add_model(app NAME net): compile the imported target vmcu with " in said) != given
    assert ("target_compile_definitions(vmcu INTERFACE VMCU_STREAMS)" in said) != given


@needs_cmake
@pytest.mark.parametrize("options", ["", "STATE h0:hn", "HOP 1", "ARGS --hop 1"])
def test_zephyr_needs_its_option_for_states(tmp_path: Path, options: str) -> None:
    listening(tmp_path / "net.onnx", (3,), [("h0", "hn")], rows=2)
    cmake_project(tmp_path, f"net MODEL net.onnx {options}")
    page = tmp_path / "CMakeLists.txt"
    zephyr = "set(ZEPHYR_BASE .)\nset(CONFIG_VMCU y)\nvmcu_add_model("
    page.write_text(page.read_text().replace("vmcu_add_model(", zephyr))
    done = configure(tmp_path)
    assert done.returncode != 0
    assert "net.onnx keeps state between calls: set CONFIG_VMCU_STREAMS=y in prj.conf" in (
        " ".join(done.stderr.split())
    )
    page.write_text(page.read_text().replace(zephyr, "set(CONFIG_VMCU_STREAMS y)\n" + zephyr))
    assert configure(tmp_path).returncode == 0


@needs_cmake
def test_a_model_that_two_workers_share(tmp_path: Path) -> None:
    digits = f"digits MODEL {DIGITS}/digits.onnx"
    main = '#include "digits.h"\nconst void *tables = &digits_team;\n'
    for workers, works in (("2", True), ("3", False)):
        cmake_project(tmp_path, f"{digits} WORKERS {workers}", main=main)
        assert configure(tmp_path).returncode == 0
        done = built(tmp_path, "CMakeFiles/app.dir/main.c.o")
        assert (done.returncode == 0) == works, done.stdout + done.stderr
    assert "--workers" in done.stdout + done.stderr


@needs_cmake
def test_a_changed_model_is_compiled_again(tmp_path: Path):
    model = tmp_path / "digits.onnx"
    shutil.copy(DIGITS / "digits.onnx", model)
    cmake_project(tmp_path, "digits MODEL digits.onnx")
    assert configure(tmp_path).returncode == 0
    for compiled in (True, False):
        done = built(tmp_path, "vmcu_generate_digits")
        assert done.returncode == 0, done.stdout
        assert ("compiling digits.onnx" in done.stdout) == compiled
    model.write_bytes(b"not a model")
    done = built(tmp_path, "vmcu_generate_digits")
    assert done.returncode != 0
    assert "digits.onnx" in done.stdout


@needs_cmake
@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ("digits MODEL missing.onnx", "there is no"),
        ("digits", "MODEL is missing"),
        (f"digits MODEL {DIGITS}/digits.onnx RAMM 1K", "what is 'RAMM;1K'"),
        (
            f"digits MODEL {DIGITS}/digits.onnx)\nvmcu_add_audio(app NAME digits",
            "two models or front ends are called 'digits': give one of them another NAME",
        ),
    ],
)
def test_a_wrong_call_is_explained(tmp_path: Path, arguments: str, message: str):
    cmake_project(tmp_path, arguments)
    done = configure(tmp_path)
    assert done.returncode != 0
    assert message in " ".join(done.stderr.split())
