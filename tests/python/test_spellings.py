# SPDX-License-Identifier: Apache-2.0
"""What is typed otherwise: options of version 0.2 do as the new ones, and others get a hint."""

from __future__ import annotations

import shlex
from pathlib import Path

import pytest
from builders import scratch
from vmcu_tools import cli
from vmcu_tools.commands import old_spellings


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return scratch.furnish(tmp_path_factory.mktemp("spellings"))


def called(words: str, capsys: pytest.CaptureFixture[str]) -> tuple[int, str, str]:
    capsys.readouterr()
    code = cli.main(shlex.split(words))
    return code, *capsys.readouterr()


@pytest.mark.parametrize(
    ("old", "new", "note"),
    [
        ("build m --flash qspi:1MB/s", "build m --flash-bus qspi:1MB/s", "--flash qspi:1MB/s"),
        ("bench m --flash=qspi:1MB/s", "bench m --flash-bus qspi:1MB/s", "--flash qspi:1MB/s"),
        ("fit m --flash 64K", "fit m --flash 64K", ""),
        ("run m --board qemu_cortex_m3", "run m --on zephyr:qemu_cortex_m3", "--board qemu_cor"),
        ("verify m --board native_sim", "verify m --on zephyr:native_sim", "--board native_sim"),
        ("bench m --board qemu_x86", "bench m --on zephyr:qemu_x86", "--board qemu_x86"),
        ("bench m --board frdm_k64f", "bench m --board frdm_k64f", ""),
        ("train-head m --rate 0.5", "train-head m --learning-rate 0.5", "--rate 0.5"),
        ("bench m --wear --rate 2", "bench m --wear --rate 2", ""),
        ("quantize m --layers 5 -q", "quantize m --all -q", "--layers 5"),
        ("inspect --markdown --operators", "inspect --markdown - --operators", "--markdown"),
        ("inspect --markdown f", "inspect --markdown f", ""),
        ("inspect --markdown -", "inspect --markdown -", ""),
        ("build m --solver-seconds 5", "build m", "'--solver-seconds 5' has no effect"),
        ("build m --plan-seconds 5 -q", "build m -q", "'--plan-seconds 5' has no effect"),
        ("fit m --tile-cost 900", "fit m --effort long", "--tile-cost 900"),
        ("fit m --tile-cost=8%", "fit m", "'--tile-cost 8%' has no effect"),
        ("place m --capacity 9K", "place m --ram 9K", "--capacity 9K"),
        ("place --graph g --limit 70%", "place --graph g --ram 70%", "--limit 70%"),
        ("build m --svg a.svg", "build m --picture a.svg", "--svg a.svg"),
        ("audio --upper-hz 3800 -q", "audio --set upper_hz=3800 -q", "--upper-hz 3800"),
        ("audio --no-log -o x", "audio --set log=off -o x", "--no-log"),
        ("run m -- --board b", "run m -- --board b", ""),
    ],
)
def test_an_old_option_is_read_as_the_new_one(old: str, new: str, note: str) -> None:
    words, notes = old_spellings.rewritten(old.split())
    assert words == new.split()
    assert len(notes) == bool(note) and all(note in one for one in notes)


def test_an_old_option_has_a_note(
    folder: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(folder)
    old = "inspect --operators --markdown"
    wanted, found = called(f"{old} -", capsys), called(old, capsys)
    assert found[:2] == wanted[:2] and found[0] == 0
    assert found[2] == "note: '--markdown' is now '--markdown -'\n" + wanted[2]
    assert called(f"{old} -q", capsys)[2] == wanted[2]


@pytest.mark.parametrize(
    ("words", "said"),
    [
        ("bild model.onnx", "unknown command 'bild'. hint: did you mean 'build'?"),
        ("help bild", "unknown command 'bild'. hint: did you mean 'build'?"),
        ("zzz", "unknown command 'zzz'. hint: `vmcu --help` lists them"),
        ("build x --streem-input", "unknown option '--streem-input'. hint: did you mean '--stream"),
        ("build x --format cc", "'cc' is not one of c, container"),
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
