# SPDX-License-Identifier: Apache-2.0
"""Calls that are awkward: interrupts, terminals of any encoding, pipes that close, full disks,
names that would hide a header. One line, an exit code, and no traceback."""

from __future__ import annotations

import json
import os
import shutil
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest
from vmcu_tools import cli, entry

DIGITS = Path(__file__).resolve().parents[2] / "samples" / "digits" / "digits.onnx"
VMCU = [sys.executable, "-m", "vmcu_tools"]


def called(
    *words: str, environment: dict[str, str] | None = None, out: int | None = subprocess.PIPE
) -> subprocess.CompletedProcess[bytes]:
    return subprocess.run(
        [*VMCU, *words],
        env=os.environ | (environment or {}),
        stdin=subprocess.DEVNULL,
        stdout=out,
        stderr=subprocess.PIPE,
        check=False,
    )


def test_ctrl_c_outside_of_a_command(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    def interrupted(*_: object) -> int:
        raise KeyboardInterrupt

    # The handler of this process stays.
    monkeypatch.setattr(signal, "signal", lambda *_: None)
    monkeypatch.setattr(cli, "main", interrupted)
    assert entry.main(["build"]) == 130
    assert capsys.readouterr().err == "vmcu: interrupted\n"


@pytest.mark.skipif(not Path("/proc/self/maps").exists(), reason="no /proc tells what is loaded")
@pytest.mark.parametrize("loaded", ["numpy", "onnx"])
@pytest.mark.parametrize("later", [0.0, 0.05, 0.4])
def test_ctrl_c_is_one_line(loaded: str, later: float) -> None:
    """While modules are imported, those in C++ among them, and after."""
    # coverage.py, interrupted, waits for its own lock for ever.
    variables = {name: it for name, it in os.environ.items() if not name.startswith("COVERAGE_")}
    process = subprocess.Popen(
        [*VMCU, "verify", str(DIGITS), "--on", "virtual", "-n", "3"],
        env=variables,
        stdout=subprocess.DEVNULL,
        stderr=subprocess.PIPE,
        text=True,
        preexec_fn=lambda: signal.signal(signal.SIGINT, signal.default_int_handler),
    )
    while process.poll() is None and loaded not in Path(f"/proc/{process.pid}/maps").read_text():
        time.sleep(0.002)
    time.sleep(later)
    process.send_signal(signal.SIGINT)
    said = process.communicate(timeout=120)[1]
    # Ended before, or so late that the interpreter itself is ending.
    if process.returncode not in (0, -signal.SIGINT):
        assert process.returncode == 130, said
        assert said in ("vmcu: interrupted\n", "vmcu verify: interrupted\n")


@pytest.mark.parametrize("encoding", ["ascii", "latin-1", "cp437", "utf-8", "utf-16"])
def test_a_terminal_of_any_encoding(tmp_path: Path, encoding: str) -> None:
    model = shutil.copy(DIGITS, tmp_path / "mödel 名.onnx")
    environment = {"PYTHONIOENCODING": encoding}
    done = called("build", str(model), "-o", str(tmp_path / "o ü"), environment=environment)
    assert done.returncode == 0, done.stderr
    assert "2,604 bytes" in done.stdout.decode(encoding, "replace")
    missing = called("build", str(tmp_path / "ß名.onnx"), environment=environment)
    assert missing.returncode == 1
    assert "no such file" in missing.stderr.decode(encoding, "replace")


def test_a_name_is_the_same_in_every_locale(tmp_path: Path) -> None:
    model = shutil.copy(DIGITS, tmp_path / "mödel.onnx")
    for locale in ({"LC_ALL": "C", "PYTHONUTF8": "0"}, {"PYTHONUTF8": "1"}):
        done = called("build", str(model), "-o", str(tmp_path / "out"), environment=locale)
        assert done.returncode == 0, done.stderr
    assert sorted(path.name for path in (tmp_path / "out").iterdir()) == ["m_del.c", "m_del.h"]


@pytest.mark.parametrize(
    "words", [("inspect", "--operators"), ("build", str(DIGITS)), ("build", "--help")]
)
def test_a_reader_that_goes_away(words: tuple[str, ...]) -> None:
    there, here = os.pipe()
    os.close(there)
    try:
        done = called(*words, out=here)
    finally:
        os.close(here)
    assert b"Traceback" not in done.stderr
    assert b"Exception" not in done.stderr


@pytest.mark.skipif(not Path("/dev/full").exists(), reason="no /dev/full")
@pytest.mark.parametrize("words", [("inspect", "--operators"), ("build", str(DIGITS))])
def test_a_full_disk(words: tuple[str, ...]) -> None:
    with Path("/dev/full").open("wb") as full:
        done = called(*words, out=full.fileno())
    assert done.returncode == 1
    assert done.stderr.decode().count("\n") == 1
    assert b"no space left" in done.stderr.lower()


@pytest.mark.parametrize("name", ["stdio", "string", "vmcu", "Math", "pthread"])
def test_a_model_hides_no_header(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], name: str
) -> None:
    model = shutil.copy(DIGITS, tmp_path / f"{name}.onnx")
    for command in (("build", str(model)), ("new", str(tmp_path / "app"), "--model", str(model))):
        assert cli.main([*command, "--name", name]) == 1
        assert "hides another of that name" in capsys.readouterr().err
    assert cli.main(["build", str(model), "-o", str(tmp_path / "out")]) == 0
    assert (tmp_path / "out" / f"model_{name.lower()}.h").is_file()
    assert cli.main(["audio", "--name", name, "-o", str(tmp_path / "app")]) == 1
    assert not (tmp_path / "app").exists()


@pytest.mark.parametrize("shell", ["bash", "zsh", "fish"])
def test_completion(shell: str, capsys: pytest.CaptureFixture[str]) -> None:
    pytest.importorskip("argcomplete")
    assert cli.main(["--completion", shell]) == 0
    script = capsys.readouterr().out
    assert "vmcu" in script
    if shutil.which(shell):
        subprocess.run([shell, "-n"], input=script, text=True, check=True)


@pytest.mark.parametrize(
    ("line", "expected"),
    [
        ("vmcu ver", "verify"),
        ("vmcu build --stre", "--stream-input"),
        ("vmcu build --format c", "container"),
    ],
)
def test_what_a_shell_is_told(tmp_path: Path, line: str, expected: str) -> None:
    pytest.importorskip("argcomplete")
    found = tmp_path / "found"
    told = {"COMP_LINE": line, "COMP_POINT": str(len(line)), "_ARGCOMPLETE": "1"}
    called(environment=told | {"_ARGCOMPLETE_STDOUT_FILENAME": str(found)})
    assert expected in found.read_text()


def test_json_has_standard_output_to_itself() -> None:
    done = called("build", str(DIGITS), "--json", "-")
    assert json.loads(done.stdout)["model"] == "digits"
    assert b"2,604 bytes" in done.stderr
    assert json.loads(called("build", str(DIGITS), "--json", "-", "--quiet").stdout)
    assert not Path("-").exists()


def test_quiet_says_nothing_but_what_is_wrong(tmp_path: Path) -> None:
    done = called("build", str(DIGITS), "-o", str(tmp_path), "--quiet")
    assert (done.returncode, done.stdout, done.stderr) == (0, b"", b"")
    assert (tmp_path / "digits.c").is_file()
    done = called("build", str(tmp_path / "none.onnx"), "--quiet")
    assert done.returncode == 1
    assert b"no such file" in done.stderr


def test_no_colour_where_it_is_not_wanted() -> None:
    plain = called("build", str(DIGITS), environment={"NO_COLOR": "1", "FORCE_COLOR": "1"})
    assert b"\x1b[3" not in plain.stdout


@pytest.mark.parametrize("command", ["verify", "run", "bench", "check", "compare"])
def test_options_of_planning_are_those_of_build(command: str) -> None:
    offered = called(command, "--help").stdout.decode()
    for option in ("--ram", "--stream-input", "--memory", "--target", "--calibration", "--hop"):
        assert option in offered, option
