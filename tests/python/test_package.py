# SPDX-License-Identifier: Apache-2.0
"""A wheel of the checkout holds the compiler, the C runtime, the CMake package and the Zephyr
module: with it alone, models compile, run and are verified."""

from __future__ import annotations

import os
import re
import runpy
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]
DIGITS = ROOT / "samples" / "digits" / "digits.onnx"

PAGE = ROOT / "doc" / "install.md"
MAIN = """
#include <stdio.h>
#include <vmcu/vmcu.h>
#include "kws.h"

static uint8_t pool[VMCU_MODEL_POOL_BYTES(kws)];

int main(void)
{
	struct vmcu_context ctx;

	printf("%d\\n", vmcu_init(&ctx, &kws_model, pool, sizeof(pool)) + vmcu_invoke(&ctx));
	return 0;
}
"""


def installed_run(
    site: Path, command: list[str], cwd: Path, check: bool = True
) -> subprocess.CompletedProcess[str]:
    """Runs in a folder and an environment from which the checkout cannot be seen."""
    environment = {k: v for k, v in os.environ.items() if not k.startswith("VMCU_")}
    environment |= {"PYTHONPATH": str(site), "PYTHONDONTWRITEBYTECODE": "1"}
    environment["PATH"] = f"{site / 'bin'}{os.pathsep}{environment['PATH']}"
    done = subprocess.run(
        command, cwd=cwd, env=environment, capture_output=True, text=True, check=False
    )
    assert not check or done.returncode == 0, done.stdout + done.stderr
    return done


@pytest.fixture(scope="module")
def site(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """What `pip install .` puts into site-packages."""
    pytest.importorskip("hatchling", reason="no hatchling, which builds the wheel")
    if not shutil.which("git") or not (ROOT / ".git").exists():
        pytest.skip("no git checkout: nothing says which files belong to vmcu")
    folder = tmp_path_factory.mktemp("wheel")
    pip = [sys.executable, "-m", "pip", "install", "-q", "--no-deps", "--no-build-isolation"]
    subprocess.run([*pip, "--target", str(folder / "site"), str(ROOT)], check=True)
    return folder / "site"


def tracked(*folders: str) -> set[str]:
    command = ["git", "ls-files", *folders]
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=True)
    return set(done.stdout.split())


def test_every_file_that_is_needed_is_installed(site: Path) -> None:
    compiler = {name.removeprefix("python/") for name in tracked("python")}
    # It writes what is in lib.
    writers = {name for name in compiler if name.startswith("vmcu_kernelgen/")}
    assert writers and not (site / "vmcu_kernelgen").exists()
    assert [name for name in sorted(compiler - writers) if not (site / name).is_file()] == []
    runtime = tracked("lib", "cmake", "zephyr", "boards", "soc", "CMakeLists.txt", "Kconfig")
    tree = site / "vmcu_tools" / "tree"
    called = re.findall(r"VMCU_ROOT}/(scripts/\w+\.py)", (ROOT / "cmake/vmcu.cmake").read_text())
    assert called
    assert [name for name in sorted(runtime) + called if not (tree / name).is_file()] == []


def test_the_root_is_the_tree_of_the_wheel(site: Path, tmp_path: Path) -> None:
    done = installed_run(site, [sys.executable, "-m", "vmcu_tools", "--root"], tmp_path)
    assert Path(done.stdout.strip()) == site / "vmcu_tools" / "tree"


def test_an_installed_compiler_prints_pages(site: Path, tmp_path: Path) -> None:
    command = [sys.executable, "-m", "vmcu_tools", "help"]
    pages = {Path(name).name: ROOT / name for name in tracked("doc/*.md")}
    printed = installed_run(site, [*command, "audio.md"], tmp_path).stdout
    assert printed == pages["audio.md"].read_text()
    assert installed_run(site, [*command, "no.md"], tmp_path, check=False).returncode == 2
    doc = site / "vmcu_tools" / "tree" / "doc"
    assert {path.name for path in doc.iterdir()} == set(pages)


def test_an_installed_compiler_verifies(site: Path, tmp_path: Path) -> None:
    """Without C: the projects below compile and run it."""
    pytest.importorskip("onnxruntime")
    verify = ["verify", str(DIGITS), "--on", "virtual", "-n", "1"]
    command = [sys.executable, "-m", "vmcu_tools", *verify]
    assert "PASSED" in installed_run(site, command, tmp_path).stdout


def block(language: str) -> str:
    """The first code of a language on the page."""
    return PAGE.read_text().split(f"```{language}\n", 1)[1].split("```", 1)[0]


@pytest.fixture
def project(tmp_path: Path) -> Path:
    """A folder with what the page's project and makefile build."""
    shutil.copy(ROOT / "samples" / "keyword" / "keyword.onnx", tmp_path / "kws.onnx")
    (tmp_path / "main.c").write_text(MAIN)
    return tmp_path


needs_cmake = pytest.mark.skipif(
    not (shutil.which("cmake") and shutil.which("ninja") and shutil.which("gcc")),
    reason="needs cmake, ninja and gcc",
)
CONFIGURE = ["cmake", "-G", "Ninja", "-S", ".", "-B", "build"]


@needs_cmake
@pytest.mark.parametrize("qualifiers", ["/nrf52840", "nrf52840"], ids=["zephyr-3.7", "zephyr-4.4"])
def test_the_cmake_project_of_the_page(site: Path, project: Path, qualifiers: str) -> None:
    (project / "CMakeLists.txt").write_text(block("cmake"))
    board = ["-DBOARD=nrf52840dk", f"-DBOARD_QUALIFIERS={qualifiers}"]
    installed_run(site, [*CONFIGURE, f"-DPython3_EXECUTABLE={sys.executable}", *board], project)
    said = installed_run(site, ["cmake", "--build", "build"], project).stdout
    pattern = r"kws: RAM .*\n  flash .*\n  .* ms on nrf52840dk, .*: vmcu/kws/report.txt\n"
    lines = re.search(pattern, said)
    assert lines and max(map(len, lines[0].split("\n"))) <= 100 and "next:" not in said
    assert installed_run(site, ["build/firmware"], project).stdout == "0\n"


@needs_cmake
@pytest.mark.parametrize("version", ["0.99", "99.0"])
def test_another_version_is_not_found(site: Path, project: Path, version: str) -> None:
    (project / "CMakeLists.txt").write_text(
        re.sub(r"vmcu [\d.]+ ", f"vmcu {version} ", block("cmake"))
    )
    done = installed_run(site, CONFIGURE, project, check=False)
    assert done.returncode == 1
    assert "vmcuConfig.cmake" in done.stderr


@pytest.mark.skipif(not (shutil.which("make") and shutil.which("gcc")), reason="needs make and gcc")
def test_the_makefile_of_the_page(site: Path, project: Path) -> None:
    (project / "Makefile").write_text(block("make"))
    installed_run(site, ["make"], project)
    assert installed_run(site, ["./firmware"], project).stdout == "0\n"


def test_the_long_description_has_no_relative_links() -> None:
    pytest.importorskip("hatchling", reason="no hatchling, which builds the wheel")
    tomllib = pytest.importorskip("tomllib", reason="Python 3.11")
    urls = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]["urls"]
    absolute = runpy.run_path(str(ROOT / "scripts" / "long_description.py"))["absolute"]
    text = absolute((ROOT / "README.md").read_text(), urls["Documentation"])
    targets = re.findall(r"\]\(([^)]+)\)", text)
    assert targets and [target for target in targets if not target.startswith("https://")] == []
    assert f"{urls['Repository']}/blob/main/doc/install.md" in targets


def test_core_packages_are_few() -> None:
    """OR-tools brings pandas: 170 MB."""
    tomllib = pytest.importorskip("tomllib", reason="Python 3.11")
    project = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
    names = {re.split(r"[<>=\[]", line)[0] for line in project["dependencies"]}
    assert not names & {"ortools", "pulp", "pandas", "onnxruntime", "tflite-micro"}
    assert {"verify", "quantize", "solver", "dev"} <= set(project["optional-dependencies"])
