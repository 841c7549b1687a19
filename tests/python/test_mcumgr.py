# SPDX-License-Identifier: Apache-2.0
"""Updates that come over a serial line: a client of MCUmgr's protocol sends files to
samples/model_update on native_sim, through a pseudo terminal."""

from __future__ import annotations

import asyncio
import os
import pty
import shutil
import subprocess
import threading
import time
import tty
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import pytest
from vmcu_bench.runners import workspace
from vmcu_tools import paths
from vmcu_tools.errors import UserError

smpclient = pytest.importorskip("smpclient", reason="no smpclient: pip install smpclient[serial]")
serial = pytest.importorskip("smpclient.transport.serial", reason="no pyserial")

SAMPLE = paths.root() / "samples" / "model_update"
FILE = "/models/incoming.update"
OPTIONS = ("EXTRA_CONF_FILE=mcumgr.conf", "EXTRA_DTC_OVERLAY_FILE=mcumgr_native_sim.overlay")
# What the sample needs to see that a file has come, and to run its vector, with time to spare.
PATIENCE = 60.0


@pytest.fixture(scope="module")
def built(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The folder of the sample's build with MCUmgr's file group."""
    try:
        tree = workspace.zephyr_base()
    except UserError:
        pytest.skip("no Zephyr tree")
    zcbor = tree.parent / "modules" / "lib" / "zcbor"
    if not (zcbor / "zephyr").is_dir():
        pytest.skip(f"the workspace has no module zcbor at {zcbor}")
    for program in ("cmake", "ninja", "gcc"):
        if shutil.which(program) is None:
            pytest.skip(f"not installed: {program}")
    pytest.importorskip("pykwalify", reason="Zephyr's Python packages are missing")
    folder = tmp_path_factory.mktemp("model_update")
    if not narrow(folder):
        pytest.skip("gcc makes no programs of 32 bit, as native_sim is")
    found = [o for o in workspace.cmake_options("native_sim", tree) if "MODULES" not in o]
    modules = f"-DEXTRA_ZEPHYR_MODULES={paths.root()};{zcbor}"
    options = [*found, modules, *(f"-D{option}" for option in OPTIONS)]
    configure = ["cmake", "-GNinja", "-S", str(SAMPLE), "-B", str(folder), *options]
    for command in (configure, ["cmake", "--build", str(folder)]):
        done = subprocess.run(
            command,
            env=workspace.environment(tree),
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
        )
        assert done.returncode == 0, done.stdout[-3000:]
    return folder


def narrow(folder: Path) -> bool:
    source = folder / "narrow.c"
    source.write_text("#include <stdio.h>\nint main(void) { return 0; }\n")
    command = ["gcc", "-m32", str(source), "-o", str(folder / "narrow")]
    return subprocess.run(command, capture_output=True).returncode == 0


@dataclass
class Device:
    """The sample as it runs, and the end of its serial line that a client opens."""

    log: Path
    line: str
    read: int = 0

    def says(self, text: str) -> str:
        """Waits for a text in what has not been read yet, and reads up to the end of its line."""
        end = time.monotonic() + PATIENCE
        while time.monotonic() < end:
            fresh = self.log.read_text(errors="replace")[self.read :]
            at = fresh.find(text)
            if at >= 0 and "\n" in fresh[at:]:
                line = fresh[at : fresh.index("\n", at)]
                self.read += at + len(line)
                return line
            time.sleep(0.1)
        raise AssertionError(f"no '{text}' in {self.log.read_text()[self.read :]!r}")

    def send(self, data: bytes) -> None:
        """Sends a file, as `mcumgr fs upload` does."""

        async def upload() -> None:
            transport = serial.SMPSerialTransport()
            async with smpclient.SMPClient(transport, self.line) as client:
                async for _ in client.upload_file(data, FILE, timeout_s=10):
                    pass

        asyncio.run(upload())


def pump(source: int, to: int) -> None:
    """All that one end says to the other, until either is closed."""
    try:
        while data := os.read(source, 4096):
            os.write(to, data)
    except OSError:
        return


@pytest.fixture
def device(built: Path, tmp_path: Path) -> Iterator[Device]:
    ends = [end for _ in range(2) for end in pty.openpty()]
    for end in ends:
        tty.setraw(end)
    ours, theirs, clients, line = ends
    for source, to in ((ours, clients), (clients, ours)):
        threading.Thread(target=pump, args=(source, to), daemon=True).start()
    log = tmp_path / "console.txt"
    command = [str(built / "zephyr" / "zephyr.exe"), f"--uart_1_port={os.ttyname(theirs)}"]
    with log.open("wb") as console:
        process = subprocess.Popen(
            command, stdin=subprocess.DEVNULL, stdout=console, stderr=console, cwd=tmp_path
        )
        try:
            yield Device(log, os.ttyname(line))
        finally:
            process.terminate()
            process.wait()
            for end in ends:
                os.close(end)


def test_updates_over_a_serial_line(built: Path, device: Device) -> None:
    first, second = (
        (built / "updates" / f"{name}.update").read_bytes() for name in ("digits", "digits_2")
    )
    damaged = bytearray(second)
    damaged[len(second) // 2] ^= 1
    device.says("model_update: PASS")
    assert first != second
    for data, said, runs in (
        (first, "accepted", "  digits, "),
        (second[:5000], "refused, error -74", "  digits, "),
        (bytes(damaged), "refused, error -74: digest", "  digits, "),
        (second, "accepted", "  digits_2, "),
    ):
        device.send(data)
        assert device.says(f"{FILE}: ").startswith(f"{FILE}: {said}")
        assert device.says("  ").startswith(runs)
        assert device.log.read_text().rstrip().endswith("12 of 12 right")
