# SPDX-License-Identifier: Apache-2.0
"""Each command shows examples in its help; they parse, and those that can run here do."""

from __future__ import annotations

import shlex
from pathlib import Path

import pytest
from builders import scratch
from vmcu_tools import cli

EXAMPLES = {
    command.__name__.rpartition(".")[2].replace("_", "-"): getattr(command, "EXAMPLES", ())
    for group in cli.GROUPS.values()
    for command in group
}
COMMANDS = [(name, words) for name, examples in EXAMPLES.items() for words, _ in examples]
# By how they begin. "": not here.
NEEDS = {
    "verify model.onnx": "onnxruntime",
    "verify model.tflite": "qemu-system-arm arm-none-eabi-gcc tflite_micro",
    "run": "onnxruntime",
    "container sign": "cryptography openssl",
    "place IN.tflite": "tflite_micro",
    # tests/python/test_size.py has images.
    "inspect build": "an-image",
}
# These take long, and pages run their like: see test_docs_commands.py.
SLOW = ("bench", "fit model.onnx", "verify kws")


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return scratch.furnish(tmp_path_factory.mktemp("examples"))


def test_every_command_has_some() -> None:
    assert list(EXAMPLES) == list(cli.parser().visible())
    assert len(EXAMPLES) == 15
    assert [name for name, examples in EXAMPLES.items() if not examples] == []


def test_a_command_without_examples_has_help(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.delattr(cli.build, "EXAMPLES")
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


@pytest.mark.parametrize(
    ("name", "words"),
    [one for one in COMMANDS if not " ".join(one).startswith(SLOW)],
    ids=lambda one: one,
)
def test_they_run(name: str, words: str, folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    line = f"{name} {words}"
    scratch.skip_without(next((n for head, n in NEEDS.items() if line.startswith(head)), ""))
    monkeypatch.chdir(folder)
    assert cli.main(shlex.split(scratch.stood_for(line))) == 0
