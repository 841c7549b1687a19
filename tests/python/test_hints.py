# SPDX-License-Identifier: Apache-2.0
"""Messages have one form, and their hints work: each call below fails, and the call that its hint
asks for succeeds."""

from __future__ import annotations

import ast
import re
import shlex
from collections.abc import Iterator
from pathlib import Path
from typing import cast

import pytest
from builders import scratch
from vmcu_tools import cli
from vmcu_tools.commands.parser import Parser
from vmcu_tools.errors import Problem

SOURCES = sorted((scratch.ROOT / "python" / "vmcu_tools").rglob("*.py"))
# error: FILE: NODE (OP): what is wrong. hint: what to do
FORM = re.compile(r"^error: (?P<text>\S.*?)(?:[.?!]? hint: (?P<hint>\S.*))?$")
QUOTED = re.compile(r"`(?:west )?vmcu ([^`]+)`")

# A call, what its hint contains, and a call that follows the hint; {1} is a group of the pattern.
FOLLOWED = (
    ("build net.onnx", "--calibration FILE", "build net.onnx --calibration data.npz"),
    ("build modle.onnx", r"did you mean (\S+) or", "build {1}"),
    ("builds model.onnx", r"did you mean '(\w+)'\?", "{1} model.onnx"),
    ("build model.onnx --tarrget dsp", "did you mean '(--target)'", "build model.onnx {1} dsp"),
    ("build x.npy", "--input", "run model.onnx --input x.npy"),
    ("build kws.vmcu", "run, verify, bench and container", "container show kws.vmcu"),
    ("build after.json", "`vmcu place --graph`", "place --graph G.json"),
    ("build model.onnx --ram 1K", "`vmcu build --pareto`", "build model.onnx --pareto"),
    ("build model.onnx --ram 1K", "allow more with (--ram)", "build model.onnx {1} 64K"),
    ("build model.onnx --ram 64KiBB", "(64K)", "build model.onnx --ram {1}"),
    ("build model.onnx --name 9", "", "build model.onnx --name nine"),
    (
        "build model.onnx --external-input --stream-input",
        "leave out one",
        "build model.onnx --stream-input",
    ),
    ("build model.onnx --online", "add (--format container)", "build model.onnx --online {1}"),
    (
        "build model.onnx --product 7",
        "add (--format container)",
        "build model.onnx --product 7 {1}",
    ),
    ("build model.onnx --pareto --ram 9K", "leave out one", "build model.onnx --pareto"),
    ("build kws.tflite --hop 99", "choose a hop from 1 to (15)", "build kws.tflite --hop {1}"),
    ("build model.onnx --time w", "leave out --time", "build model.onnx"),
    ("build okay_nabu.tflite --rotate", "leave out that option", "build okay_nabu.tflite"),
    ("build model.onnx --json model.onnx", "name another file", "build model.onnx --json new.json"),
    (
        "build enhancer.onnx --state a:b",
        "INPUT:OUTPUT",
        "build enhancer.onnx --state in_cache.1:out_cache.1 --state in_cache.2:out_cache.2",
    ),
    ("check model.onnx", "name (--max-ram)", "check model.onnx {1} 64K"),
    ("fit model.onnx", "give (--ram)", "fit model.onnx {1} 64K"),
    ("inspect model.onnx --markdown m.md", "leave it out", "inspect model.onnx"),
    ("inspect", "give (--operators)", "inspect {1}"),
    ("place PROBLEM.csv --memory a=1K --ram 9", "leave out one", "place PROBLEM.csv --ram 1M"),
    ("quantize kws.tflite --calibration data.npz -o q.onnx", "as it is", "build kws.tflite"),
    ("verify model.onnx -n 0", "with (-n)", "verify model.onnx {1} 1"),
    ("verify model.onnx --on qemu:z80", r"choose one of: (\w+)", "verify model.onnx -n 1 --on {1}"),
    ("boards --zephyr /nowhere", "boards/", "boards"),
)


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    made = scratch.furnish(tmp_path_factory.mktemp("hints"))
    (made / "G.json").write_text(scratch.GRAPH)
    return made


def called(words: str, capsys: pytest.CaptureFixture[str]) -> tuple[int, str]:
    capsys.readouterr()
    code = cli.main(shlex.split(words))
    return code, capsys.readouterr().err


def rows() -> Iterator[object]:
    """The rows of FOLLOWED; where a plan within few bytes is searched for, for `./test slow`."""
    for number, row in enumerate(FOLLOWED):
        marks = [pytest.mark.slow] if "--ram 1K" in row[0] or "--pareto" in row[0] else []
        yield pytest.param(*row, id=f"{number} {row[0]}", marks=marks)


@pytest.mark.parametrize(("call", "hint", "follow"), list(rows()))
def test_a_hint_that_is_followed_works(
    call: str,
    hint: str,
    follow: str,
    folder: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    monkeypatch.chdir(folder)
    code, said = called(call, capsys)
    message = FORM.match(next(line for line in said.splitlines() if line.startswith("error: ")))
    assert code in (1, 2) and message is not None, said
    advised = re.search(hint, message["hint"] or message["text"])
    assert advised, said
    code, said = called(follow.format(advised[0], *advised.groups()), capsys)
    assert code == 0, said


def strings() -> Iterator[tuple[Path, str]]:
    """Texts of the program, pieces of formatted ones apart, without docstrings."""
    for path in SOURCES:
        tree = ast.parse(path.read_text(encoding="utf-8"))
        docs = {
            id(node.body[0].value)
            for node in ast.walk(tree)
            if isinstance(node, ast.Module | ast.ClassDef | ast.FunctionDef)
            and isinstance(node.body[0], ast.Expr)
        }
        for node in ast.walk(tree):
            if (
                isinstance(node, ast.Constant)
                and isinstance(node.value, str)
                and id(node) not in docs
            ):
                yield path, node.value


def test_commands_in_messages_exist() -> None:
    """Each `vmcu ...` of a text names a command and options of today, none by an old spelling."""
    top, seen, pages = cli.parser(), 0, 0
    for path, text in strings():
        for words in QUOTED.findall(text):
            found: Parser = top
            first, *rest = re.split(r"[\s,]+", words.replace("...", "").strip())
            if first == "help" and rest[0].endswith(".md"):
                assert (scratch.ROOT / "doc" / rest[0]).is_file(), (path, words)
                pages += 1
            if first.startswith(("-", "{", "COMMAND", "help")):
                continue
            assert first in cli.parser().visible(), (path, words)
            found = top.commands()[first]
            while rest and rest[0] in found.commands():
                found = found.commands()[rest.pop(0)]
            options = [word for word in rest if re.match(r"--?\w", word)]
            assert set(options) <= set(found._option_string_actions), (path, words)
            seen += 1
    assert seen > 20 and pages >= 10
    assert not [text for _, text in strings() if re.search(r"\(doc/|see doc/", text)]


def test_the_form_of_a_message() -> None:
    problem = Problem("weights are float", "quantise them", "m.onnx", "conv1", "Conv")
    assert str(problem) == "m.onnx: conv1 (Conv): weights are float. hint: quantise them"
    assert str(Problem("no such file", file="m.onnx")) == "m.onnx: no such file"
    assert "m.onnx: b'\\xff': no" in str(Problem("no", file="m.onnx", node=cast(str, b"\xff")))
    assert str(Problem("it failed:\nlast line", "look")) == "it failed:\nlast line\nhint: look"
