# SPDX-License-Identifier: Apache-2.0
"""That every public header compiles alone, as C99, C17 and C++17, whatever the build's options."""

from __future__ import annotations

import json
import re
import shlex
import shutil
import subprocess
from pathlib import Path

import pytest
from drawn import case
from test_new import TINY, configure, zephyr_tree
from vmcu_tools import paths
from vmcu_tools.cli import main

LANGUAGES = {"c99": "c", "c17": "c", "c++17": "c++"}
INCLUDE = paths.runtime() / "include"
PORT = paths.runtime() / "port" / "zephyr" / "include"
# What some header or C file of the runtime asks for.
MACROS = sorted(
    set(re.findall(r"^#define (VMCU_\w+) 1$", (INCLUDE / "vmcu" / "config.h").read_text(), re.M))
    | {"VMCU_HOOKS", "VMCU_NO_DSP"}
)
# These exclude each other; the message says so.
SETS = [
    [name for name in MACROS if name not in without.split()]
    for without in (
        "VMCU_POOL_ROTATE VMCU_NO_REQUANT_FLOAT",
        "VMCU_SEVERAL_POOLS VMCU_NO_REQUANT_FIXED",
        "VMCU_SEVERAL_POOLS VMCU_POOL_GUARD VMCU_STREAMS VMCU_CONTAINERS VMCU_NO_REQUANT_FLOAT",
    )
]
WARNINGS = ["-Wall", "-Wextra", "-Werror"]


def complaints(command: list[str], language: str, header: str, lines: str = "") -> str:
    """What the compiler says of a file that only includes a header behind `lines`, if anything."""
    text = f"{lines}#include <{header}>\nextern int some;\n"
    arguments = ["-x", LANGUAGES[language], f"-std={language}", "-fsyntax-only", *WARNINGS, "-"]
    done = subprocess.run(
        [*command, *arguments], input=text, capture_output=True, text=True, check=False
    )
    return done.stderr if done.returncode else ""


# C17 is between the oldest C and C++ that headers are for.
OF_LANGUAGES = pytest.mark.parametrize(
    "language",
    [case(one, slow=one == "c17") for one in LANGUAGES],
)


def headers(folder: Path) -> list[str]:
    return [f"vmcu/{path.name}" for path in sorted((folder / "vmcu").glob("*.h"))]


@pytest.mark.skipif(shutil.which("gcc") is None, reason="not installed: gcc")
@OF_LANGUAGES
def test_headers_compile_alone(language: str) -> None:
    """Without options, with each one alone, and with as many as go together."""
    compiler = "gcc" if LANGUAGES[language] == "c" else "g++"
    if shutil.which(compiler) is None:
        pytest.skip(f"not installed: {compiler}")
    assert {"VMCU_STREAMS", "VMCU_CONTAINERS", "VMCU_POOL_GUARD"} < set(MACROS)
    for options in ([], *([name] for name in MACROS), *SETS):
        command = [compiler, "-Wpedantic", f"-I{INCLUDE}", *(f"-D{name}" for name in options)]
        for header in headers(INCLUDE):
            assert complaints(command, language, header) == "", (header, options)


POOLS = """
#include <vmcu/pool.h>

static VMCU_POOL_DEFINE(own, 24);
VMCU_POOL_DEFINE(shared, 40);

uint8_t *a_pool(int number);

uint8_t *a_pool(int number)
{
	static VMCU_POOL_DEFINE(inner, 8);

	return number == 0 ? own : number == 1 ? shared : inner;
}
"""


@pytest.mark.skipif(
    shutil.which("gcc") is None or shutil.which("nm") is None, reason="not installed: gcc"
)
@pytest.mark.parametrize("language", ["c99", "c17"])
def test_a_pool_is_static_if_you_write_so(language: str, tmp_path: Path) -> None:
    """Letters of nm: b for a static array without values, B for a global one."""
    strict = [*WARNINGS, "-Wpedantic", "-Wshadow", "-Wmissing-prototypes", "-Wredundant-decls"]
    (tmp_path / "pools.c").write_text(POOLS)
    command = ["gcc", f"-std={language}", *strict, f"-I{INCLUDE}", "-fno-common"]
    subprocess.run([*command, "-c", "pools.c", "-o", "pools.o"], cwd=tmp_path, check=True)
    said = subprocess.run(["nm", tmp_path / "pools.o"], capture_output=True, text=True, check=True)
    kinds = {name.split(".")[0]: kind for kind, name in re.findall(r" (\w) (\S+)", said.stdout)}
    assert kinds == {"own": "b", "shared": "B", "inner": "b", "a_pool": "T"}


def symbols(kind: str) -> list[str]:
    """The module's Kconfig symbols of a kind."""
    files = [paths.root() / "Kconfig", *paths.runtime().rglob("Kconfig*")]
    text = "".join(path.read_text() for path in files)
    return sorted(set(re.findall(rf"^config (VMCU_\w+)\n\t(?:def_)?{kind}\b", text, re.M)))


@pytest.fixture(scope="module")
def zephyr_command(tmp_path_factory: pytest.TempPathFactory) -> list[str]:
    """How an application of `vmcu new` compiles its main.c, without language and output."""
    tree, folder = zephyr_tree(), tmp_path_factory.mktemp("headers")
    app, build = folder / "app", folder / "build"
    assert main(["new", str(app), "--model", str(TINY)]) == 0
    if configure(app, build, tree).returncode != 0:
        pytest.skip(f"{tree} cannot configure an application")
    subprocess.run(["ninja", "-C", build, "zephyr_generated_headers"], check=True)
    entries = json.loads((build / "compile_commands.json").read_text())
    (command,) = [one["command"] for one in entries if one["file"].endswith("app/src/main.c")]
    words = [word for word in shlex.split(command) if not word.startswith("-std=")]
    # No definition of the module's is on the command line of another's file.
    others = [one["command"] for one in entries if "/lib/vmcu/" not in one["file"]]
    assert len(others) > 50 and not any("-DVMCU_" in one for one in others)
    return words[: words.index("-o")]


def mentioned(header: str) -> set[str]:
    """The module's Kconfig symbols in a header or in those of the port that it includes. What
    vmcu/config.h makes of symbols is compiled above."""
    path = PORT / header
    text = path.read_text() if path.is_file() else ""
    found = set(re.findall(r"CONFIG_(VMCU_\w+)", text))
    return found.union(*(mentioned(one) for one in re.findall(r"#include <(vmcu/\w+\.h)>", text)))


@OF_LANGUAGES
def test_headers_compile_alone_on_zephyr(language: str, zephyr_command: list[str]) -> None:
    """Without options, with each one alone that a header mentions, and with all together."""
    names, numbers = symbols("bool"), symbols("int")
    assert {"VMCU_PROFILE", "VMCU_REGISTRY", "VMCU_SLOTS", "VMCU_SHELL"} < set(names)
    keep = {"VMCU", "VMCU_REQUANT_FIXED", "VMCU_REQUANT_FLOAT"}
    most = set(names) - {"VMCU_POOL_ROTATE"}
    alone = set(names)
    command = list(zephyr_command)
    if LANGUAGES[language] == "c++":
        command[0] = re.sub(r"gcc$", "g++", command[0])
        # Of Zephyr's own headers.
        command += ["-Wno-volatile", "-Wno-register"]
    off = "".join(f"#undef CONFIG_{name}\n" for name in {*names, *numbers} - keep)
    for header in (*headers(INCLUDE), *headers(PORT)):
        for on in (set(), *({name} for name in mentioned(header) & alone), most):
            defined = sorted(on - keep) + (numbers if on else [])
            lines = off + "".join(f"#define CONFIG_{name} 1\n" for name in defined)
            assert complaints(command, language, header, lines) == "", (header, on)
