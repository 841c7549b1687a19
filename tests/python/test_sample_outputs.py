# SPDX-License-Identifier: Apache-2.0
"""scripts/sample_outputs.py: READMEs of samples show what their samples print."""

from __future__ import annotations

import sys
from pathlib import Path

import pytest

from scripts import script

outputs = script("sample_outputs", "scripts/sample_outputs.py")

PAGE = """# lamp

    vmcu_add_model(app NAME lamp MODEL lamp.onnx)

    > lamp on
    lamp: ... bytes of RAM
      digits: 3
    ...
    lamp: PASS

    west build -b board samples/lamp

    none: 5 of 7
"""
LOG = (
    "*** Booting ***\n\x1b[1;32muart:~$ \x1b[m> lamp on\r\nlamp: 12 bytes of RAM\n  digits: 3\n"
    "first\nsecond\nlamp: PASS\n"
)


@pytest.fixture
def samples(tmp_path: Path) -> Path:
    """Two samples, of which the README of one shows no output."""
    for name, page in {"lamp": PAGE, "quiet": "# quiet\n\n    west build samples/quiet\n"}.items():
        (tmp_path / "samples" / name).mkdir(parents=True)
        (tmp_path / "samples" / name / "README.md").write_text(page)
        (tmp_path / "samples" / name / "sample.yaml").write_text("common: {tags: vmcu}\n")
    return tmp_path / "samples"


def compare(samples: Path, monkeypatch: pytest.MonkeyPatch, log: str | None) -> int:
    """The exit code, with the log in the second of two folders of twister."""
    folders = [samples.parent / "emulated", samples.parent / "native"]
    run = folders[1] / "board" / "samples" / "lamp" / "sample.vmcu.lamp"
    run.mkdir(parents=True, exist_ok=True)
    if log is not None:
        (run / "handler.log").write_text(log)
    command = ["sample_outputs.py", *map(str, folders), "--samples", str(samples)]
    monkeypatch.setattr(sys, "argv", command)
    return outputs.main()


def test_a_log_with_all_lines_in_order(samples: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    assert compare(samples, monkeypatch, LOG) == 0


@pytest.mark.parametrize(
    ("log", "line"),
    [
        (LOG.replace("digits: 3", "digits: 31"), "digits: 3"),
        (LOG.replace("lamp: PASS\n", ""), "lamp: PASS"),
        (LOG.replace("> lamp on", "lamp on"), "> lamp on"),
        ("lamp: PASS\n" + LOG.replace("\nlamp: PASS", ""), "lamp: PASS"),
    ],
    ids=["another figure", "no end", "no command", "another order"],
)
def test_a_missing_line_is_named(
    log: str,
    line: str,
    samples: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    assert compare(samples, monkeypatch, log) == 1
    said = capsys.readouterr().err
    assert f"lamp/README.md: the sample does not print '{line}'. hint: see " in said
    assert said.count("error: ") == 1 and said.endswith("sample.vmcu.lamp/handler.log\n")


def test_a_sample_that_did_not_run_is_named(
    samples: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    assert compare(samples, monkeypatch, None) == 1
    said = capsys.readouterr().err
    assert "lamp/README.md: sample.vmcu.lamp did not run in " in said and "quiet" not in said


def test_a_sample_that_is_only_built_has_no_log(
    samples: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (samples / "lamp" / "sample.yaml").write_text("common: {build_only: true}\n")
    assert compare(samples, monkeypatch, None) == 0
    assert compare(samples, monkeypatch, LOG.replace("digits: 3", "digits: 31")) == 1


def test_the_page_of_every_sample_shows_output() -> None:
    """A sample whose README shows none would not be compared."""
    folders = sorted(path.parent for path in outputs.SAMPLES.glob("*/sample.yaml"))
    assert len(folders) > 10
    assert [f.name for f in folders if not outputs.shown_lines((f / "README.md").read_text())] == []
