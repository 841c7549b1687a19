# SPDX-License-Identifier: Apache-2.0
"""What is typed otherwise: spellings of version 0.1 do as the new ones, and others get a hint."""

from __future__ import annotations

import argparse
import json
import shlex
from pathlib import Path

import pytest
from builders import scratch
from vmcu_tools import cli
from vmcu_tools.commands import old_spellings

# An old call, the one that it is now, and what the note names.
PAIRS = (
    ("diff before.tflite after.tflite", "compare before.tflite after.tflite", "compare"),
    (
        "compare-runs before.json after.json --max-ram 1",
        "check after.json --baseline before.json --tolerance ram=1",
        "check AFTER --baseline BEFORE",
    ),
    ("ops", "inspect --operators", "inspect --operators"),
    ("size nothing.elf", "inspect nothing.elf", "inspect"),
    ("wear nothing.onnx", "bench --wear nothing.onnx", "bench --wear"),
    (
        "plan-tflite nothing.tflite o.tflite",
        "place nothing.tflite --output o.tflite",
        "place IN.tflite --output OUT.tflite",
    ),
    ("completion fish", "--completion fish", "--completion SHELL"),
)


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return scratch.furnish(tmp_path_factory.mktemp("spellings"))


def called(words: str, capsys: pytest.CaptureFixture[str]) -> tuple[int, str, str]:
    capsys.readouterr()
    code = cli.main(shlex.split(words))
    return code, *capsys.readouterr()


def test_every_old_command_has_a_pair() -> None:
    assert sorted(old.split()[0] for old, _, _ in PAIRS) == sorted(old_spellings.NAMES)


@pytest.mark.parametrize(("old", "new", "now"), PAIRS, ids=[old.split()[0] for old, _, _ in PAIRS])
def test_an_old_command_does_as_the_new_one(
    old: str,
    new: str,
    now: str,
    folder: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    monkeypatch.chdir(folder)
    name = old.split()[0]
    wanted, found = called(new, capsys), called(old, capsys)
    assert found[:2] == wanted[:2]
    note = f"note: 'vmcu {name}' is now 'vmcu {now}'\n"
    assert found[2].startswith(note) and note not in wanted[2]
    assert "note:" not in called(f"{old} --quiet", capsys)[2]
    assert name not in cli.parser().visible()


def test_an_input_elsewhere_is_an_external_one(
    folder: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(folder)
    calls = ("--input elsewhere", "--external-input", "")
    told, figures = [], []
    for words in calls:
        told.append(called(f"build model.onnx {words} --json figures.json", capsys)[2])
        found = json.loads(Path("figures.json").read_text())
        figures.append({name: found[name] for name in found if name != "solve_seconds"})
    assert figures[0] == figures[1] != figures[2]
    note = "note: '--input elsewhere' is now '--external-input'\n"
    assert [note in text for text in told] == [True, False, False]


def test_seconds_of_a_solver_have_no_effect(
    folder: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(folder)
    wanted = called("build model.onnx", capsys)
    found = called("build model.onnx --solver-seconds 5", capsys)
    assert found[0] == wanted[0] == 0
    note = "note: '--solver-seconds' has no effect: no plan needs a solver\n"
    assert note in found[2] and note not in wanted[2]


def test_elsewhere_among_files_is_an_external_input() -> None:
    args = argparse.Namespace(command="run", input=[Path("x.npy"), Path("elsewhere")])
    assert old_spellings.notes(args) == ["'--input elsewhere' is now '--external-input'"]
    assert args.external_input and args.input == [Path("x.npy")]


@pytest.mark.parametrize(
    ("words", "said"),
    [
        ("bild model.onnx", "unknown command 'bild'. hint: did you mean 'build'?"),
        ("help bild", "unknown command 'bild'. hint: did you mean 'build'?"),
        ("zzz", "unknown command 'zzz'. hint: `vmcu --help` lists them"),
        ("build x --streem-input", "unknown option '--streem-input'. hint: did you mean '--stream"),
        ("build x --planner tflmm", "'tflmm' is not one of vmcu, single, "),
        ("build x y", "unexpected argument 'y'"),
        ("check x --tolerance rom=1", "there is no metric 'rom', choose from ram, flash, "),
        ("check x --tolerance rom=1", "did you mean 'ram'?"),
        ("build x --target dps", "there is no target 'dps', choose from "),
        ("build x --product 4294967296", "'4294967296' is more than 4294967295"),
    ],
)
def test_a_mistyped_word_gets_a_hint(
    words: str, said: str, capsys: pytest.CaptureFixture[str]
) -> None:
    code, _, complaint = called(words, capsys)
    assert code == 2
    assert said in complaint


def test_help_lists_groups_and_options_in_order(capsys: pytest.CaptureFixture[str]) -> None:
    text = called("help check", capsys)[1]
    assert text == called("check --help", capsys)[1]
    titles = ("positional", "model:", "limits:", "plan:", "streaming:", "quantisation:", "output:")
    places = [text.index(f"\n{title}") for title in (*titles, "other options:", "examples:")]
    assert places == sorted(places)
