# SPDX-License-Identifier: Apache-2.0
"""Calls as people make them by mistake, or on systems that are not like ours: a line or a few on
stderr, the exit code that goes with it, no traceback, and nothing half-written.

Interrupts, and what else needs a process to be watched, are in test_entry.py."""

from __future__ import annotations

import os
import re
import shlex
import subprocess
from pathlib import Path

import pytest
from builders import scratch
from vmcu_tools import cli

DONE, PROBLEM, USAGE, PIPE = 0, 1, 2, 141
OVER = "would overwrite this file, which it reads"
# Of what is said: a message and its remedy, or argparse's usage before it.
MOST_LINES = 40

ENCODINGS = [
    ("LC_ALL=C PYTHONUTF8=0 vmcu build model.onnx", DONE, ""),
    ("LC_ALL=C PYTHONUTF8=0 PYTHONIOENCODING=ascii vmcu compare model.onnx", DONE, ""),
    ("PYTHONIOENCODING=latin-1 vmcu inspect model.onnx", DONE, ""),
    ("PYTHONIOENCODING=cp1252 vmcu fit model.onnx --ram 64K", DONE, ""),
    ("PYTHONIOENCODING=ascii vmcu build café.onnx", PROBLEM, "no such file"),
    ("LC_ALL=C vmcu build $'\\xff\\xfe.onnx'", PROBLEM, "no such file"),
    ("COLUMNS=1 vmcu build model.onnx", DONE, ""),
    ("COLUMNS=20 vmcu build --help", DONE, ""),
    ("TERM=dumb vmcu build model.onnx", DONE, ""),
    ("TERM= NO_COLOR= vmcu build model.onnx", DONE, ""),
    ("HOME=/nowhere vmcu build model.onnx", DONE, ""),
    ("TZ=Nowhere/None vmcu build model.onnx", DONE, ""),
]
NAMES = [
    ("cp model.onnx 'a b.onnx' && vmcu build 'a b.onnx' -o 'an out'", DONE, ""),
    ("cp model.onnx ünï.onnx && vmcu build ünï.onnx -o o", DONE, ""),
    ("cp model.onnx 9.onnx && vmcu build 9.onnx -o o", DONE, "model_9.c"),
    ("cp model.onnx -- -x.onnx && vmcu build ./-x.onnx", DONE, ""),
    ("cp model.onnx -- -x.onnx && vmcu build -- -x.onnx", DONE, ""),
    ("cp model.onnx -- -x.onnx && vmcu build -x.onnx", USAGE, "MODEL"),
    ("cp model.onnx $'new\\nline.onnx' && vmcu build $'new\\nline.onnx' -o o", DONE, ""),
    ("cp model.onnx string.onnx && vmcu build string.onnx -o o", DONE, "model_string.c"),
    ("cp model.onnx model && vmcu build model", PROBLEM, "neither .tflite nor .onnx"),
    ("cp model.onnx wrong.tflite && vmcu build wrong.tflite", (DONE, PROBLEM), ""),
    ("cp model.tflite wrong.onnx && vmcu build wrong.onnx", (DONE, PROBLEM), ""),
    ("ln -s nowhere.onnx link.onnx && vmcu build link.onnx", PROBLEM, "no such file"),
    ("ln -s loop.onnx loop.onnx && vmcu build loop.onnx", PROBLEM, "loop.onnx"),
    ("vmcu build model.onnx --name string -o o", PROBLEM, "string"),
    ("vmcu build model.onnx --name for -o o", DONE, "for.c"),
    ("vmcu build model.onnx --name 9 -o o", USAGE, "not a C identifier"),
    ("vmcu build model.onnx --name ''", USAGE, "not a C identifier"),
    (f"vmcu build {'x' * 300}.onnx", PROBLEM, ""),
]
FILES = [
    ("vmcu build .", PROBLEM, "folder"),
    ("vmcu build ''", PROBLEM, ""),
    ("vmcu build /dev/null", PROBLEM, ""),
    ("touch empty.onnx && vmcu build empty.onnx", PROBLEM, "empty.onnx"),
    ("touch empty.tflite && vmcu build empty.tflite", PROBLEM, "empty.tflite"),
    ("head -c 1000 model.onnx > cut.onnx && vmcu build cut.onnx", PROBLEM, "cut.onnx"),
    ("head -c 1000 model.tflite > cut.tflite && vmcu build cut.tflite", PROBLEM, "cut.tflite"),
    ("head -c 5000 /dev/zero > zero.onnx && vmcu build zero.onnx", PROBLEM, "zero.onnx"),
    ("vmcu build kws.vmcu", PROBLEM, "kws.vmcu"),
    ("vmcu build before.json", PROBLEM, "before.json"),
    ("vmcu build x.npy", PROBLEM, "x.npy"),
    ("vmcu compare model.tflite none.json", PROBLEM, "none.json"),
    ("echo '{' > bad.json && vmcu check model.onnx --baseline bad.json", PROBLEM, "bad.json"),
    ("vmcu container show model.onnx", PROBLEM, "model.onnx"),
    ("vmcu container verify /dev/null", PROBLEM, ""),
    ("vmcu run model.onnx --input model.tflite", PROBLEM, "model.tflite"),
    ("vmcu run model.onnx --input none.npy", PROBLEM, "none.npy"),
    ("vmcu run model.onnx --input rows.npy", PROBLEM, "rows.npy"),
    ("vmcu inspect x.npy", PROBLEM, "x.npy"),
    ("vmcu place model.onnx", PROBLEM, "model.onnx"),
    ("vmcu place --graph PROBLEM.csv", PROBLEM, "PROBLEM.csv"),
    ("vmcu quantize net.onnx --calibration x.npy -o q.onnx; test ! -e q.onnx", DONE, "x.npy"),
    ("vmcu audio --wav model.onnx -o o", PROBLEM, "model.onnx"),
    ("vmcu place x.tflite --output o.tflite; test ! -e o.tflite", DONE, "x.tflite"),
]
PLACES = [
    ("vmcu build model.onnx -o /proc/none", PROBLEM, "/proc/none"),
    ("vmcu build model.onnx -o model.tflite", PROBLEM, "model.tflite"),
    ("vmcu build model.onnx -o /dev/full", PROBLEM, "/dev/full"),
    ("vmcu build model.onnx --json /proc/none.json", PROBLEM, "/proc/none.json"),
    ("vmcu build model.onnx --json /dev/full", PROBLEM, "no space left"),
    ("vmcu build model.onnx --json none/there.json", PROBLEM, "none/there.json"),
    ("vmcu build model.onnx --html samples", PROBLEM, "samples"),
    ("vmcu build model.onnx --html /dev/full", PROBLEM, "no space left"),
    ("vmcu new model.tflite --model model.tflite", PROBLEM, "model.tflite"),
    ("mkdir full && touch full/a && vmcu new full --model model.tflite", PROBLEM, "full"),
    ("vmcu new /proc/none --model model.tflite", PROBLEM, "/proc/none"),
    ("cd / && vmcu build none.onnx", PROBLEM, "none.onnx"),
    ("mkdir gone && cd gone && rmdir ../gone && vmcu build ../model.onnx", PROBLEM, "No such"),
]
PIPES = [
    ("vmcu build model.onnx > /dev/full", PROBLEM, "no space left"),
    ("vmcu inspect --operators > /dev/full", PROBLEM, "no space left"),
    ("vmcu inspect --operators --json - > /dev/full", PROBLEM, "no space left"),
    ("vmcu inspect --operators | head -1; exit ${PIPESTATUS[0]}", (DONE, PIPE), ""),
    ("vmcu inspect --operators --markdown - | true; exit ${PIPESTATUS[0]}", (DONE, PIPE), ""),
    ("vmcu build model.onnx <&-", DONE, ""),
    ("vmcu build none.onnx 2>&-", PROBLEM, None),
    ("vmcu build model.onnx >&-", (DONE, PROBLEM), None),
    ("vmcu build none.onnx 2> /dev/full", PROBLEM, None),
    ("vmcu build - < model.onnx", PROBLEM, ""),
    (
        "cp model.onnx m.onnx; vmcu build m.onnx --json m.onnx; cmp m.onnx model.onnx && exit 1",
        PROBLEM,
        OVER,
    ),
    ("vmcu compare model.onnx model.onnx --markdown ./model.onnx", PROBLEM, OVER),
    ("vmcu run model.onnx --input a.npy --output $PWD/a.npy", PROBLEM, OVER),
    ("vmcu build model.onnx --json a --html $PWD/a", PROBLEM, "would write this file twice"),
]
OPTIONS = [
    ("vmcu", USAGE, "COMMAND"),
    ("vmcu nonsense", USAGE, "nonsense"),
    ("vmcu build", USAGE, "MODEL"),
    ("vmcu build model.onnx model.tflite", USAGE, "model.tflite"),
    ("vmcu build model.onnx --ram", USAGE, "--ram"),
    ("vmcu build model.onnx --ram=", USAGE, "is not a size"),
    ("vmcu build model.onnx --ram -1", USAGE, "--ram"),
    ("vmcu build model.onnx --ram 1e3", USAGE, "is not a size"),
    ("vmcu build model.onnx --ram 99999999999999999999", DONE, ""),
    ("vmcu build model.onnx --ram ٣K", (DONE, PROBLEM, USAGE), ""),
    ("vmcu build model.onnx --effort nan", USAGE, "not one of quick, normal, long"),
    ("vmcu build model.onnx --extra-macs inf", USAGE, "inf"),
    ("vmcu build model.onnx --hop 99999", PROBLEM, ""),
    ("vmcu verify model.onnx --on qemu:z80", PROBLEM, "qemu:z80"),
    ("vmcu verify model.onnx -n 0", PROBLEM, "no input to compare"),
    ("vmcu build model.onnx --picture a.pdf", USAGE, "is not a .svg or .png file"),
    ("vmcu verify model.onnx -n -1", USAGE, "-n"),
    ("vmcu bench model.onnx --board none", USAGE, "none"),
    ("vmcu boards 'none*'", (DONE, PROBLEM), ""),
    ("vmcu boards --zephyr /nowhere", PROBLEM, "/nowhere"),
    ("vmcu --completion tcsh", USAGE, "tcsh"),
]
# What makes a call one for a shell.
SHELL = set("$&;|<>*")
CALLS = [*ENCODINGS, *NAMES, *FILES, *PLACES, *PIPES, *OPTIONS]


@pytest.fixture(scope="session")
def furnished(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return scratch.furnish(tmp_path_factory.mktemp("furnished"))


@pytest.mark.parametrize(("script", "code", "said"), CALLS, ids=[call[0][:60] for call in CALLS])
def test_an_awkward_call(
    script: str,
    code: int | tuple[int, ...],
    said: str | None,
    furnished: Path,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capfd: pytest.CaptureFixture[str],
) -> None:
    """said: a part of the output; None where there is nobody to say it to."""
    folder = scratch.copy(furnished, tmp_path / "here")
    before = {path.name for path in folder.iterdir()}
    # What prepares the call is for a shell; the call itself is, too, where it uses one.
    before_it, and_then, call = script.rpartition(" && ")
    if call.startswith("vmcu ") and not set(call) & SHELL and "cd " not in before_it:
        if and_then:
            subprocess.run(["bash", "-c", before_it], cwd=folder, check=True)
        monkeypatch.chdir(folder)
        done = called_here(call, capfd)
    else:
        done = called(script, folder)
    everything = done.stdout + done.stderr
    assert done.returncode in (code if isinstance(code, tuple) else (code,)), everything
    for sign in ("Traceback", "Exception ignored", "Fatal Python", "Errno", "object at 0x"):
        assert sign not in everything
    assert said is None or said in everything
    if done.returncode in (PROBLEM, USAGE) and said is not None:
        assert 0 < len(done.stderr.splitlines()) <= MOST_LINES
        assert re.search(r"^(error: |vmcu: interrupted)", done.stderr, re.M)
        made = {path.name for path in folder.iterdir()} - before
        assert [name for name in made if name.endswith((".c", ".h", ".html", ".json~"))] == []


def called_here(script: str, capfd: pytest.CaptureFixture[str]) -> subprocess.CompletedProcess[str]:
    """In this process, which spares a call without anything of a shell's the interpreter's start;
    what ends it otherwise than main() does is raised."""
    words = shlex.split(script)
    code = cli.main(words[1:])
    said = capfd.readouterr()
    return subprocess.CompletedProcess(words, code, said.out, said.err)


def called(script: str, folder: Path) -> subprocess.CompletedProcess[str]:
    own = f"{folder / '.venv' / 'bin'}{os.pathsep}{os.environ['PATH']}"
    return subprocess.run(
        ["bash", "-uc", script],
        cwd=folder,
        env=os.environ | {"PYTHONPATH": str(scratch.ROOT / "python"), "PATH": own},
        stdin=subprocess.DEVNULL,
        capture_output=True,
        text=True,
        errors="replace",
        check=False,
    )


def test_there_are_many() -> None:
    assert len({script for script, *_ in CALLS}) == len(CALLS) >= 60
