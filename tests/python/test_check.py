# SPDX-License-Identifier: Apache-2.0
"""Limits, differences and boards, and the action that runs them."""

from __future__ import annotations

import json
import os
import re
import stat
import subprocess
import sys
from dataclasses import replace
from pathlib import Path
from xml.etree import ElementTree

import pytest
from builders import onnx_models
from vmcu_tools.boards.flash import BOARDS
from vmcu_tools.boards.table import known, of_tree
from vmcu_tools.cli import main
from vmcu_tools.report.difference import difference
from vmcu_tools.report.sheet import Sheet, SheetLayer, of_json

ROOT = Path(__file__).resolve().parents[2]
ACTION = ROOT / ".github" / "actions" / "vmcu-check"
ZEPHYR = Path(os.environ.get("ZEPHYR_BASE", Path.home() / "zephyrproject" / "zephyr"))


@pytest.fixture(scope="module")
def files(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A network as a model, a report and a container."""
    folder = tmp_path_factory.mktemp("files")
    path = onnx_models.quantised_network(folder, "QDQ", "QInt8", True)
    words = ["--json", str(folder / "report.json"), "-o", str(folder), "--format", "container"]
    assert main(["build", str(path), "--name", "quantised", *words]) == 0
    return folder


def test_limits_are_held_or_not(files: Path, tmp_path: Path, capsys) -> None:
    path, figures = files / "quantised.onnx", json.loads((files / "report.json").read_text())
    pool = figures["pool_bytes"]
    xml, text = tmp_path / "j.xml", tmp_path / "c.md"
    words = ["--junit", str(xml), "--markdown", str(text), "--json", str(tmp_path / "r.json")]
    assert main(["check", str(path), "--max-ram", str(pool), *words]) == 0
    assert main(["check", str(path), "--max-ram", str(pool - 1), "--max-flash", "1M", *words]) == 1
    assert f"TOO LARGE: RAM, bytes: {pool:,} of {pool - 1:,} allowed: 1 too many" in (
        capsys.readouterr().out
    )
    suite = ElementTree.parse(xml).getroot()[0]
    assert (suite.get("tests"), suite.get("failures")) == ("2", "1")
    assert [case.find("failure") is not None for case in suite] == [True, False]
    assert "too large" in text.read_text()
    assert json.loads((tmp_path / "r.json").read_text())["pool_bytes"] == pool


def test_cycles(files: Path) -> None:
    figures = json.loads((files / "report.json").read_text())
    cycles = sum(step["cycles"] for step in figures["steps"])
    path = str(files / "quantised.onnx")
    assert main(["check", path, "--max-cycles", str(cycles)]) == 0
    assert main(["check", path, "--max-cycles", str(cycles - 1)]) == 1


@pytest.mark.parametrize("of", ("quantised.onnx", "report.json"))
def test_the_same_holds_its_own_baseline(files: Path, of: str, capsys) -> None:
    assert main(["check", str(files / "quantised.onnx"), "--baseline", str(files / of)]) == 0
    assert "No figure differs." in capsys.readouterr().out


def test_a_baseline_with_a_tolerance(files: Path, tmp_path: Path) -> None:
    figures = json.loads((files / "report.json").read_text())
    figures["pool_bytes"] = round(figures["pool_bytes"] / 1.03)
    baseline = tmp_path / "before.json"
    baseline.write_text(json.dumps(figures))
    words = ["check", str(files / "quantised.onnx"), "--baseline", str(baseline), "--tolerance"]
    assert main([*words, "2"]) == 1
    assert main([*words, "4%"]) == 0


def test_what_is_no_baseline(files: Path, tmp_path: Path, capsys) -> None:
    path = str(files / "quantised.onnx")
    infinite = '{"steps": [], "model": "m", "pool_bytes": 1e999}'
    nested, other = "[" * 100_000, '{"steps": ["conv"]}'
    for content in ("", "[]", '{"model": 1}', "\x00", '{"steps": 3}', infinite, nested, other):
        (tmp_path / "x.json").write_text(content)
        bundle = str(tmp_path / "x.json")
        assert main(["check", bundle, "--baseline", bundle]) == 1
        assert "it " in capsys.readouterr().err
        assert main(["check", path, "--baseline", bundle]) == 1
        assert "it is no report of a model" in capsys.readouterr().err
    assert main(["check", path]) == 1
    assert "no limit is given" in capsys.readouterr().err


def sheet(**layers: int) -> Sheet:
    found = tuple(
        SheetLayer(name, "Conv2D", size, 10 * size, size, 2 * size) for name, size in layers.items()
    )
    macs = sum(layer.macs for layer in found)
    return Sheet("net", max(layers.values()), sum(layers.values()), macs, None, found)


def test_a_difference_says_which_layer() -> None:
    found = difference(sheet(a=5, b=9, c=3), sheet(a=5, b=7, d=20))
    assert [(one.figure, one.by) for one in found.changes] == [
        ("pool_bytes", 11),
        ("flash_bytes", 15),
        ("macs", 150),
    ]
    states = [(one.state, one.name, one.pool_bytes) for one in found.layers]
    assert states == [("changed", "b", -2), ("new", "d", 20), ("gone", "c", -3)]
    assert "the peak moved from layer 'b' (9 bytes) to 'd' (20)" in found.why[0]
    assert "MACs: +150; most in 'd' (new): +200" in found.why
    other = sheet(a=5)
    op = replace(other, layers=(replace(other.layers[0], op="Add"),))
    assert difference(other, op).layers[0].op == "Conv2D to Add"


def test_diff_of_files(files: Path, tmp_path: Path, capsys) -> None:
    written = tmp_path / "d.json"
    words = [str(files / "report.json"), str(files / "quantised.vmcu"), "--json", str(written)]
    assert main(["compare", *words]) == 0
    found = json.loads(written.read_text())
    assert [one["figure"] for one in found["changes"]] == ["pool_bytes", "flash_bytes"]
    assert found["layers"] == []
    text = tmp_path / "d.md"
    words = [str(files / "report.json"), str(files / "quantised.onnx"), "--json", str(written)]
    assert main(["compare", *words, "--markdown", str(text), "--stream-input"]) == 0
    assert "| RAM, bytes |" in text.read_text()
    said = capsys.readouterr().out
    assert "changed" in said
    changes = json.loads(written.read_text())["changes"]
    assert all(
        f"{one['after'] - one['before']:+,}" in said
        for one in changes
        if one["before"] != one["after"]
    )


def test_old_reports(files: Path, tmp_path: Path) -> None:
    """Those from before there were cycles."""
    figures = json.loads((files / "report.json").read_text())
    for step in figures["steps"]:
        del step["cycles"], step["weights_bytes"]
    (tmp_path / "old.json").write_text(json.dumps(figures))
    assert of_json(tmp_path / "old.json").cycles is None


def test_boards(capsys, tmp_path: Path) -> None:
    assert set(BOARDS) <= set(known())
    assert main(["boards", "nucleo_f411*", "--json", str(tmp_path / "b.json")]) == 0
    [board] = json.loads((tmp_path / "b.json").read_text())
    assert (board["core"], board["ram"], board["megahertz"]) == ("cortex-m4", 128, 96)
    assert main(["boards", "--zephyr", str(tmp_path)]) == 1
    assert "it is no Zephyr tree" in capsys.readouterr().err


@pytest.mark.skipif(not (ZEPHYR / "boards").is_dir(), reason="there is no Zephyr tree")
def test_boards_of_a_tree() -> None:
    found = {board.name: board for board in of_tree(ZEPHYR)}
    assert len(found) > 300
    # Those that have a source of their own are not of every tree.
    names = {name for name in BOARDS if not known()[name].source}
    assert names <= set(found)
    for name in names:
        # Twister is told of one memory, or of several together.
        assert found[name].flash == known()[name].flash, name


@pytest.mark.skipif(not (ZEPHYR / "boards").is_dir(), reason="there is no Zephyr tree")
@pytest.mark.parametrize(
    "chip, board",
    (
        ("f4/stm32f411Xe", "nucleo_f411re"),
        ("l4/stm32l476Xg", "nucleo_l476rg"),
        ("u5/stm32u575Xi", "nucleo_u575zi_q"),
    ),
)
def test_ram_is_what_the_devicetree_has(chip: str, board: str) -> None:
    text = (ZEPHYR / "dts" / "arm" / "st" / f"{chip}.dtsi").read_text()
    [size] = re.findall(r"reg = <0x20000000 DT_SIZE_K\((\d+)\)>", text)
    assert int(size) == known()[board].ram


def run_script(name: str, tmp_path: Path, **variables: str) -> subprocess.CompletedProcess:
    path = f"{tmp_path / 'bin'}:{Path(sys.executable).parent}:{os.environ['PATH']}"
    package = str(ROOT / "python")
    known_ = {"RUNNER_TEMP": str(tmp_path), "PATH": path, "PYTHONPATH": package}
    known_ |= {"GITHUB_OUTPUT": str(tmp_path / "out"), "GITHUB_REPOSITORY": "o/r", "NUMBER": "7"}
    known_ |= {"GITHUB_STEP_SUMMARY": str(tmp_path / "summary")}
    environment = {**os.environ, **known_, **variables}
    return subprocess.run(
        [ACTION / name], env=environment, capture_output=True, text=True, check=False
    )


def test_the_action_checks(files: Path, tmp_path: Path) -> None:
    model = str(files / "quantised.onnx")
    found = run_script("check.sh", tmp_path, MODEL=model, MAX_RAM="1K", OPTIONS="--stream-input\n")
    assert found.returncode == 0, found.stderr
    outputs = dict(line.split("=", 1) for line in (tmp_path / "out").read_text().splitlines())
    assert json.loads(Path(outputs["report"]).read_text())["input_streamed"]
    assert ElementTree.parse(outputs["junit"]).getroot().get("failures") == "0"
    assert Path(outputs["comment"]).read_text() == (tmp_path / "summary").read_text()
    assert run_script("check.sh", tmp_path, MODEL=model, MAX_RAM="100").returncode == 1
    bad = run_script("check.sh", tmp_path, MODEL=str(tmp_path / "none.onnx"), MAX_RAM="1K")
    assert bad.returncode == 1 and "no answer" in Path(outputs["comment"]).read_text()


GH = """#!/usr/bin/env bash
printf '%s\\n' "$*" >>"$CALLS"
case "$*" in *--jq*) cat "$KNOWN" ;; esac
"""


def test_the_action_comments(tmp_path: Path) -> None:
    """With a `gh` that only notes down what it is asked."""
    (tmp_path / "bin").mkdir()
    fake, calls, earlier = (tmp_path / name for name in ("bin/gh", "calls", "known"))
    fake.write_text(GH)
    fake.chmod(fake.stat().st_mode | stat.S_IXUSR)
    text = tmp_path / "comment.md"
    text.write_text('### vmcu: `net`\n$(touch hacked) "quoted"\n')
    said = {"MODEL": "a model", "COMMENT": str(text), "CALLS": str(calls), "KNOWN": str(earlier)}
    for known_, wanted in (
        ("", "-X POST repos/o/r/issues/7/comments"),
        ("42\n43\n", "-X PATCH repos/o/r/issues/comments/42"),
    ):
        earlier.write_text(known_)
        calls.write_text("")
        found = run_script("comment.sh", tmp_path, **said)
        assert found.returncode == 0, found.stderr
        asked = calls.read_text()
        assert wanted in asked and text.read_text().strip() in asked
        assert "<!-- vmcu check " in asked
    assert not (tmp_path / "hacked").exists()
    calls.unlink()
    assert run_script("comment.sh", tmp_path, **{**said, "COMMENT": ""}).returncode == 0
    assert not calls.exists()
