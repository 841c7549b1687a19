# SPDX-License-Identifier: Apache-2.0
"""`vmcu run --on zephyr:BOARD`: a model in a Zephyr application, and what stops it."""

from __future__ import annotations

import importlib.util
import json
import os
import shutil
import subprocess
import sys
import threading
import time
import tty
import zlib
from contextlib import AbstractContextManager, nullcontext
from pathlib import Path
from types import SimpleNamespace

import numpy as np
import pytest
from vmcu_bench.probe.link import SerialLink, opened_port, started
from vmcu_bench.probe.session import Firmware
from vmcu_bench.runners import get
from vmcu_bench.runners.workspace import zephyr_base
from vmcu_bench.runners.zephyr import ZephyrRunner
from vmcu_tools import paths
from vmcu_tools.cli import main
from vmcu_tools.compiler import compile_model
from vmcu_tools.errors import UserError

GESTURE = paths.root() / "samples" / "gesture" / "gesture.onnx"
MODEL = paths.root() / "tests" / "runtime" / "tiny.onnx"


@pytest.fixture
def tree() -> Path:
    """A Zephyr tree that can build for an emulated Cortex-M3."""
    try:
        found = zephyr_base()
    except UserError:
        pytest.skip("no Zephyr tree")
    for program in ("cmake", "arm-none-eabi-gcc", "qemu-system-arm"):
        if shutil.which(program) is None:
            pytest.skip(f"not installed: {program}")
    if importlib.util.find_spec("pykwalify") is None:
        pytest.skip("Zephyr's Python packages are missing")
    return found


@pytest.fixture
def sample(tmp_path: Path) -> Path:
    path = tmp_path / "x.npy"
    np.save(path, np.random.default_rng(3).integers(-128, 128, (1, 3, 9, 8)).astype(np.int8))
    return path


def run(sample: Path, output: Path, *options: str) -> int:
    return main(["run", str(MODEL), "--input", str(sample), "--output", str(output), *options])


@pytest.mark.slow
@pytest.mark.parametrize("board", ["qemu_cortex_m3", "qemu_mps2_m7"])
def test_the_same_bytes(tree: Path, board: str, sample: Path, tmp_path: Path) -> None:
    there, here = tmp_path / "there.npy", tmp_path / "here.npy"
    assert run(sample, there, "--on", f"zephyr:{board}") == 0
    assert run(sample, here) == 0
    np.testing.assert_array_equal(np.load(there), np.load(here))


@pytest.mark.slow
def test_a_container_is_loaded_there(
    tree: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["build", str(MODEL), "--format", "container", "-o", str(tmp_path)]) == 0
    words = [str(tmp_path / "tiny.vmcu"), "--on", "zephyr:qemu_cortex_m3", "-n", "1"]
    assert main(["verify", *words]) == 0
    said = capsys.readouterr().out
    assert "matches the reference" in said and "on zephyr:qemu_cortex_m3+container: PASSED" in said


def test_hops_of_a_stream(tree: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """The one case of this file that compiles Zephyr without `slow`."""
    words = ["verify", str(GESTURE), "--hop", "4", "-n", "9", "--on", "zephyr:qemu_cortex_m3"]
    assert main(words) == 0
    said = capsys.readouterr().out
    assert "0 of 9 hops differ from the file's own runtime on whole windows (0 of 36 bytes" in said
    assert "on zephyr:qemu_cortex_m3, window 45 rows, hop 4: PASSED" in said


def test_a_board_that_does_not_exist(
    tree: Path, sample: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    output = tmp_path / "y.npy"
    assert run(sample, output, "--on", "zephyr:no_such_board") == 1
    assert "has no board 'no_such_board'. hint: `west boards`" in capsys.readouterr().err
    assert not output.exists()


@pytest.mark.slow
def test_a_measured_inference(tree: Path, tmp_path: Path) -> None:
    """On a board whose counter runs under QEMU: a timer's, as it has no other."""
    counted, modelled = tmp_path / "counted.json", tmp_path / "modelled.json"
    board = ["--on", "zephyr:qemu_mps2_m7", "--measure"]
    assert main(["bench", str(MODEL), *board, "--json", str(counted)]) == 0
    assert main(["bench", str(MODEL), "--on", "qemu:m7", "--json", str(modelled)]) == 0
    there, here = (json.loads(path.read_text()) for path in (counted, modelled))
    assert there.keys() == here.keys() and there["layers"][0].keys() == here["layers"][0].keys()
    for name in ("name", "op", "macs", "calls"):
        assert [row[name] for row in there["layers"]] == [row[name] for row in here["layers"]]
    assert all(row["cycles"] > 0 for row in there["layers"])
    assert there["cycles"] > 0 and there["time"]["known"] == "measured by its own counter"
    assert here["instructions"] > 0 and there["instructions"] is None


STILL = ["bench", str(MODEL), "--on", "zephyr:qemu_cortex_m3", "--measure"]


@pytest.mark.slow
def test_a_counter_that_stands_still(tree: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(STILL) == 1
    assert "cycle counter of 'qemu_cortex_m3' stands still" in capsys.readouterr().err


class Still:
    """Firmware that computes zeros in no time."""

    def __init__(self) -> None:
        self.plan = compile_model(MODEL)
        self.lines: list[str] = []

    def write(self, text: str) -> None:
        command = text.strip()
        sent = bytes.fromhex(command.rpartition(" ")[2]) if command[0] == "i" else b""
        size = sum(self.plan.graph.tensors[port.tensor].bytes for port in self.plan.graph.outputs)
        layers = range(len(self.plan.steps))
        self.lines += {
            "?": [f"= 1 {len(self.plan.steps):x} b71b00 image_model"],
            "i": [f"= {zlib.crc32(sent):x}"],
            "r": ["= 0 0"],
            "o": ["o " + "00" * size, "="],
            "v": [*(f"v {n:x} 9 0" for n in layers), "="],
        }.get(command[0], ["="])

    def read(self, seconds: float) -> str | None:
        return self.lines.pop(0) if self.lines else None


def test_a_console_whose_counter_stands_still(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """Answers as that board; test_a_measured_inference has an application that measures."""

    def firmware(*_: object) -> AbstractContextManager[Firmware]:
        return nullcontext(lambda: nullcontext(Still()))

    monkeypatch.setattr(ZephyrRunner, "firmware", firmware)
    assert main(STILL) == 1
    assert "cycle counter of 'qemu_cortex_m3' stands still" in capsys.readouterr().err


def test_lines_of_a_serial_port() -> None:
    """A pair of pseudo terminals stands for the board's cable."""
    pytest.importorskip("serial")
    board, ours = os.openpty()
    tty.setraw(ours)
    with opened_port(os.ttyname(ours)) as link:
        os.write(board, b"*** Booting\r\n= 1 4")
        assert link.read(20) == "*** Booting"
        threading.Timer(0.7, os.write, (board, b"56\r\nd 0 1\r\n")).start()
        assert [link.read(20), link.read(20)] == ["= 1 456", "d 0 1"]
        link.write("?\n")
        assert os.read(board, 9) == b"?\n"
        assert link.read(0.1) is None
    os.close(board)
    os.close(ours)


def test_a_silent_serial_port_ends_on_time(monkeypatch: pytest.MonkeyPatch) -> None:
    seconds = [0.0]

    class Silent:
        def readline(self) -> bytes:
            seconds[0] += 0.5
            return b""

    clock = SimpleNamespace(monotonic=lambda: seconds[0])
    monkeypatch.setattr("vmcu_bench.probe.link.time", clock)
    assert SerialLink(Silent()).read(3) is None
    assert 3 <= seconds[0] < 4


def test_a_serial_port_that_is_not_there(tmp_path: Path) -> None:
    pytest.importorskip("serial")
    with pytest.raises(UserError, match="list_ports"), opened_port(str(tmp_path / "tty")):
        pass


def test_no_tree(
    sample: Path,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    monkeypatch.setenv("ZEPHYR_BASE", str(tmp_path))
    assert run(sample, tmp_path / "y.npy", "--on", "zephyr:qemu_cortex_m3") == 1
    assert capsys.readouterr().err.startswith("error: no Zephyr tree found. hint: ")


def test_a_tree_is_found_from_within_its_workspace(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    inside = tmp_path / "mine" / "zephyr"
    (inside / "cmake" / "modules").mkdir(parents=True)
    (inside / "cmake" / "modules" / "zephyr_default.cmake").touch()
    (tmp_path / "application").mkdir()
    (tmp_path / ".west").mkdir()
    (tmp_path / ".west" / "config").write_text("[zephyr]\nbase = mine/zephyr\n")
    monkeypatch.delenv("ZEPHYR_BASE", raising=False)
    monkeypatch.chdir(tmp_path / "application")
    assert zephyr_base() == inside


@pytest.mark.parametrize(
    ("log", "said"),
    [
        ("ld: region `RAM' overflowed by 1234 bytes", "does not fit into b: 1234 bytes too many"),
        ("main.c:3: error: what\nninja: build stopped", "its last lines:\nmain.c:3: error: what"),
    ],
)
def test_a_build_that_fails(log: str, said: str) -> None:
    with pytest.raises(UserError, match="hint: ") as error:
        ZephyrRunner("b")._explain(log)
    assert said in str(error.value)


def test_not_the_name_of_a_board(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["run", str(MODEL), "--input", "x.npy", "--on", "zephyr:m3; true"]) == 2
    assert "is not the name of a machine" in capsys.readouterr().err


def test_targets_by_name() -> None:
    assert get("zephyr:native_sim") == ZephyrRunner("native_sim")
    loading = get("zephyr:native_sim+container")
    assert loading == ZephyrRunner("native_sim", container=True)
    assert loading.name == "zephyr:native_sim+container"


def test_nothing_goes_on_running() -> None:
    child = (
        "import subprocess, sys; p = subprocess.Popen(['sleep', '60']); print(p.pid, flush=True)"
    )
    with started([sys.executable, "-c", f"{child}; p.wait()"], 60) as link:
        line = link.read(20)
    assert line is not None
    deadline = time.monotonic() + 5
    while is_alive(int(line)) and time.monotonic() < deadline:
        time.sleep(0.05)
    assert not is_alive(int(line))


def test_a_run_ends_in_time() -> None:
    start = time.monotonic()
    with started(["sleep", "60"], 0.2) as link:
        assert link.read(20) is None
        link.write("nobody listens\n")
    assert time.monotonic() - start < 10


def is_alive(number: int) -> bool:
    done = subprocess.run(
        ["ps", "-o", "stat=", "-p", str(number)], capture_output=True, text=True, check=False
    )
    return done.stdout.strip() not in ("", "Z")
