# SPDX-License-Identifier: Apache-2.0
"""Each command shows examples in its help; they parse, and those that can run here do."""

from __future__ import annotations

import functools
import importlib.util
import json
import os
import re
import shlex
import shutil
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest
from builders import scratch
from vmcu_tools import cli

EXAMPLES = {
    cli.name_of(command.__name__): getattr(command, "EXAMPLES", ())
    for group in cli.GROUPS
    for command in cli.commands_of(group)
}
COMMANDS = [(name, words) for name, examples in EXAMPLES.items() for words, _ in examples]
# These take long or need a board, as does `vmcu fit` with little RAM; pages run their like.
SLOW = ("bench", "verify kws", "verify model.tflite --board", "evidence kws")
LINES = [line for one in COMMANDS if not (line := " ".join(one)).startswith("fit model.onnx")]
# The tests of these commands have images, and plans of other tools.
ELSEWHERE = ("inspect build", "check-image", "check-plan model_vela.tflite", "check-plan program")
# error: FILE: not installed: NAME, NAME. hint: COMMAND
LACKING = re.compile(r"error: (?:\S+: )?not installed: (.+)\. hint: ((?:pip|apt-get) install .+)\n")
# gcc's package brings them.
COMPILER = ("/usr/bin/gcc", "/usr/bin/as", "/usr/bin/ld")
DRIVER = """
import contextlib, io, json, shlex, sys, traceback
from vmcu_tools import cli
found = {}
for line in json.load(sys.stdin):
    said = io.StringIO()
    with contextlib.redirect_stdout(io.StringIO()), contextlib.redirect_stderr(said):
        try:
            code = cli.main(shlex.split(line))
        except Exception:
            code = said.write(traceback.format_exc())
    found[line] = code, said.getvalue()
print(json.dumps(found))
"""


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return scratch.furnish(tmp_path_factory.mktemp("examples"))


def test_every_command_has_some() -> None:
    assert list(EXAMPLES) == list(cli.parser().visible())
    assert len(EXAMPLES) == 19
    assert [name for name, examples in EXAMPLES.items() if not examples] == []


def test_a_command_without_examples_has_help(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.delattr("vmcu_tools.commands.build.EXAMPLES")
    assert cli.main(["build", "--help"]) == 0
    assert "examples" not in capsys.readouterr().out


@pytest.mark.parametrize("prog", ("vmcu", "west vmcu"))
@pytest.mark.parametrize("name", EXAMPLES)
def test_help_shows_them(name: str, prog: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert cli.main([name, "--help"], prog) == 0
    said = capsys.readouterr().out
    assert f"usage: {prog} {name}" in said
    for words, what in EXAMPLES[name]:
        line = f"  {prog} {name} {words}".rstrip()
        assert f"{line}\n      {what}\n" in said
        assert len(line) <= 80


@pytest.mark.parametrize(("name", "words"), COMMANDS, ids=lambda one: one)
def test_they_parse(name: str, words: str) -> None:
    cli.parser().parse_args([name, *shlex.split(words)])


def without(folder: Path, lines: list[str], path: str = "", also: tuple[str, ...] = ()) -> dict:
    """Exit code and messages of commands, with the core installation and `also` only."""
    core = scratch.core(folder / ".core", also)
    environment = os.environ | {"PATH": path, "PYTHONPATH": f"{core}:{scratch.ROOT / 'python'}"}
    done = subprocess.run(
        [sys.executable, "-c", DRIVER],
        cwd=folder,
        env=environment,
        input=json.dumps([scratch.stood_for(line) for line in lines]),
        capture_output=True,
        text=True,
        check=True,
    )
    return json.loads(done.stdout.splitlines()[-1])


@pytest.fixture(scope="module")
def bare(folder: Path) -> Callable[[str], dict]:
    """The examples of a command, in one process."""
    return functools.cache(
        lambda name: without(folder, [line for line in LINES if line.split()[0] == name])
    )


def lacking(said: str) -> list[str]:
    """What a message asks for; fails if it asks for nothing."""
    message = LACKING.fullmatch(said)
    assert message, said
    return message[1].split(", ")


def program(name: str) -> str | None:
    """Its path. Not ccache in its place, which would need the program as well."""
    folders = os.environ["PATH"].split(os.pathsep)
    paths = filter(None, (shutil.which(name, path=folder) for folder in folders))
    return next((path for path in paths if Path(path).resolve().name != "ccache"), None)


def is_here(name: str) -> bool:
    return bool(shutil.which(name) or importlib.util.find_spec(name.replace("-", "_")))


@pytest.mark.parametrize("line", LINES)
def test_they_run(
    line: str, folder: Path, bare: Callable[[str], dict], monkeypatch: pytest.MonkeyPatch
) -> None:
    """With the core installation and without any program, or the hint names what they need."""
    line = scratch.stood_for(line)
    code, said = bare(line.split()[0])[line]
    if line.startswith(ELSEWHERE):
        assert (code, LACKING.search(said)) == (1, None)
        return
    if code == 0:
        return
    if absent := [name for name in lacking(said) if not is_here(name)]:
        pytest.skip(f"needs {', '.join(absent)}")
    if not line.startswith(SLOW):
        monkeypatch.chdir(folder)
        assert cli.main(shlex.split(line)) == 0


def test_a_board_of_a_workspace_has_its_compiler_named(folder: Path) -> None:
    line = "bench kws.tflite --measure --on zephyr:native_sim"
    assert lacking(without(folder, [line])[line][1]) == ["cmake", "gcc"]


@pytest.mark.parametrize("line", ("verify model.onnx --on qemu:m4 -n 1", "bench kws.tflite"))
def test_a_hint_names_everything(line: str, folder: Path, tmp_path: Path) -> None:
    """With what it names and nothing else, the command runs."""
    needed = lacking(without(folder, [line])[line][1])
    if absent := [name for name in needed if not is_here(name)]:
        pytest.skip(f"needs {', '.join(absent)}")
    for name in needed:
        if found := program(name):
            stem = name.removesuffix("gcc")
            tools = Path(found).parent.glob(f"{stem}*") if stem else map(Path, COMPILER)
            for tool in tools:
                (tmp_path / tool.name).symlink_to(tool)
    packages = tuple(name for name in needed if not shutil.which(name))
    assert without(folder, [line], str(tmp_path), packages)[line] == [0, ""]
