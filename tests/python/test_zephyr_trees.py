# SPDX-License-Identifier: Apache-2.0
"""Where ./test looks for Zephyr trees, and the emulated boards as each tree has to see them."""

from __future__ import annotations

import re
import subprocess
from pathlib import Path

import pytest
from vmcu_bench.runners.workspace import board_module, toolchain_folder
from vmcu_tools import paths

ROOT = paths.root()
NEW = ROOT / "boards" / "arm" / "qemu_mps2"
OLD = ROOT / "tests" / "boards_3_7" / "boards" / "arm" / "qemu_mps2"
SCHEMA = {
    "string": '"simulation":\n    type: str\n    enum:\n',
    "list": '    "simulation":\n      type: seq\n      seq:\n        - type: map\n',
}


def find(home: Path, function: str, **environment: str) -> tuple[int, list[str]]:
    command = f'. "{ROOT}/scripts/common.sh" && {function}'
    done = subprocess.run(
        ["bash", "-c", command],
        env={"HOME": str(home), "PATH": "/usr/bin:/bin", **environment},
        capture_output=True,
        text=True,
        check=False,
    )
    return done.returncode, done.stdout.splitlines()


def tree(folder: Path) -> str:
    (folder / "scripts").mkdir(parents=True)
    (folder / "scripts" / "zephyr_module.py").touch()
    return str(folder)


def test_trees_are_found(tmp_path: Path) -> None:
    one, two = tree(tmp_path / "one"), tree(tmp_path / "second tree")
    assert find(tmp_path, "find_zephyrs")[0] != 0
    usual = tree(tmp_path / "zephyrproject" / "zephyr")
    assert find(tmp_path, "find_zephyrs") == (0, [usual])
    assert find(tmp_path, "find_zephyrs", ZEPHYR_BASE=one) == (0, [one])
    both = {"ZEPHYR_BASE": usual, "ZEPHYR_BASES": f"{one}:{two}"}
    assert find(tmp_path, "find_zephyrs", **both) == (0, [one, two])
    assert find(tmp_path, "find_zephyr", **both) == (0, [one])
    missing = {"ZEPHYR_BASES": f"{tmp_path}/none:{two}"}
    code, found = find(tmp_path, "find_zephyrs", **missing)
    assert (code != 0, found) == (True, [two])


def test_the_version_of_a_tree(tmp_path: Path) -> None:
    lines = (
        "VERSION_MAJOR = 4\nVERSION_MINOR = 1\nPATCHLEVEL = 99\nVERSION_TWEAK = 0\nEXTRAVERSION =\n"
    )
    (tmp_path / "VERSION").write_text(lines)
    assert find(tmp_path, f'zephyr_version "{tmp_path}"') == (0, ["4.1.99"])


@pytest.mark.parametrize(("form", "boards"), [("string", OLD), ("list", NEW)])
def test_a_tree_gets_boards_in_its_form(form: str, boards: Path, tmp_path: Path) -> None:
    schema = tmp_path / "scripts" / "schemas" / "twister" / "platform-schema.yaml"
    schema.parent.mkdir(parents=True)
    schema.write_text(SCHEMA[form])
    module = board_module(tmp_path)
    assert (module / "zephyr" / "module.yml").is_file()
    assert boards.is_relative_to(module)


def test_both_forms_are_of_the_same_boards() -> None:
    names = {path.name for path in NEW.iterdir()}
    assert names == {path.name for path in OLD.iterdir()}
    for name in names:
        lines = (NEW / name).read_text().splitlines()
        if name.endswith(".yml"):
            lines = [line for line in lines if "full_name:" not in line]
        elif name.endswith(".yaml"):
            at = lines.index("simulation:")
            lines[at : at + 2] = ["simulation: " + lines[at + 1].removeprefix("  - name: ")]
        assert (OLD / name).read_text().splitlines() == lines, name


def test_no_test_names_a_board_that_zephyr_has_not() -> None:
    ours = {path.stem for path in NEW.glob("*.yaml")}
    assert ours
    files = [*ROOT.glob("tests/*/testcase.yaml"), *ROOT.glob("samples/*/sample.yaml")]
    assert files
    for path in files:
        named = {board for board in ours if board in path.read_text()}
        assert not named, f"{path}: twister stops at a board that it does not know"


@pytest.mark.parametrize("version", ["12.2.1", "13.2.1/../12.2.1"])
def test_a_compiler_that_something_else_calls(tmp_path: Path, version: str) -> None:
    """As ccache does, whose folder on PATH has no other tool of the compiler."""
    real, links = tmp_path / "gnu arm" / "bin", tmp_path / "lib" / "ccache"
    kept = real.parent / "lib" / "gcc" / "arm-none-eabi"
    for folder in (real, links, kept / "12.2.1", kept / "13.2.1"):
        folder.mkdir(parents=True)
    for folder in (real, links):
        compiler = folder / "arm-none-eabi-gcc"
        compiler.write_text(f'#!/bin/sh\necho "install: {kept}/{version}/"\n')
        compiler.chmod(0o755)
        assert toolchain_folder(compiler) == real.parent


@pytest.mark.parametrize("said", ["", "install: /usr/lib/gcc", "install: /none/lib/gcc/arm/1"])
def test_a_compiler_that_does_not_say_where_it_is(tmp_path: Path, said: str) -> None:
    (tmp_path / "bin").mkdir()
    compiler = tmp_path / "bin" / "arm-none-eabi-gcc"
    compiler.write_text(f"#!/bin/sh\necho '{said}'\nexit 1\n")
    compiler.chmod(0o755)
    assert toolchain_folder(compiler) == tmp_path


# Names that later trees lack, and what a condition around them names.
REMOVED = {
    r"FIXED_PARTITION_\w+\(": r"defined\(PARTITION_ID\)",
    r"\b_dmic_ops\b": r"KERNEL_VERSION_NUMBER",
    r"\bsensor_driver_api\b": r"defined\(DEVICE_API\)",
}


def unguarded(text: str, name: str, guard: str) -> list[int]:
    """Lines with a name, none of whose conditions names the guard."""
    conditions, found = list[str](), []
    for number, line in enumerate(text.splitlines(), 1):
        if re.match(r"\s*#\s*if", line):
            conditions.append(line)
        elif re.match(r"\s*#\s*endif", line):
            conditions.pop()
        elif re.search(name, line) and not any(re.search(guard, one) for one in conditions):
            found.append(number)
    return found


def test_removed_names_are_found() -> None:
    guard = r"KERNEL_VERSION_NUMBER"
    text = "old\n#if KERNEL_VERSION_NUMBER < 1\nold\n#if A\nold\n#endif\n#endif\n#if A\nold\n#endif"
    assert unguarded(text, "old", guard) == [1, 9]


@pytest.mark.parametrize("name", REMOVED)
def test_removed_names_are_guarded_and_on_the_page(name: str) -> None:
    page = (ROOT / "doc" / "zephyr.md").read_text()
    assert re.search(name, page)
    files = [
        path
        for folder in ("lib", "samples", "tests")
        for path in (ROOT / folder).rglob("*.[ch]")
        if re.search(name, path.read_text())
    ]
    found = {str(path): unguarded(path.read_text(), name, REMOVED[name]) for path in files}
    assert files and not any(found.values()), found
