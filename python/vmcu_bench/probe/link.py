# SPDX-License-Identifier: Apache-2.0
"""Lines to and from firmware: over a serial port, or the console of an emulator."""

from __future__ import annotations

import queue
import subprocess
import threading
import time
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from typing import Any, Protocol

from vmcu_tools import child
from vmcu_tools.errors import Problem, UserError, missing_package

BAUD = 115200


class Connection(Protocol):
    """Lines to and from firmware."""

    def write(self, text: str) -> None:
        """Sends text. Does nothing if the firmware has ended."""
        ...

    def read(self, seconds: float) -> str | None:
        """Returns the next line, without its end; None if none comes in time, or ever again."""
        ...


class ProcessLink:
    """The console of a process that has started."""

    def __init__(self, process: subprocess.Popen[bytes]):
        self.process = process
        self.lines: queue.Queue[str | None] = queue.Queue()
        self.collector = threading.Thread(target=self._collect, daemon=True)
        self.collector.start()

    def _collect(self) -> None:
        assert self.process.stdout is not None
        for line in self.process.stdout:
            self.lines.put(line.decode("utf-8", "replace").strip())
        self.lines.put(None)

    def write(self, text: str) -> None:
        assert self.process.stdin is not None
        with suppress(BrokenPipeError):
            self.process.stdin.write(text.encode())
            self.process.stdin.flush()

    def read(self, seconds: float) -> str | None:
        try:
            line = self.lines.get(timeout=seconds)
        except queue.Empty:
            return None
        if line is None:
            self.lines.put(None)
        return line


class SerialLink:
    """A serial port that is open; `device` is pyserial's."""

    def __init__(self, device: Any):
        self.device = device
        self.begun = b""

    def write(self, text: str) -> None:
        self.device.write(text.encode())

    def read(self, seconds: float) -> str | None:
        end = time.monotonic() + seconds
        while time.monotonic() < end:
            self.begun += self.device.readline()
            if self.begun.endswith(b"\n"):
                line, self.begun = self.begun, b""
                return line.decode("utf-8", "replace").strip()
        return None


@contextmanager
def opened_port(port: str) -> Iterator[SerialLink]:
    """Opens a serial port. Raises UserError if it cannot."""
    try:
        import serial
    except ImportError as error:
        raise missing_package("pyserial", "open a serial port", "serial") from error
    try:
        device = serial.Serial(port, BAUD, timeout=0.5)
    except serial.SerialException as error:
        raise UserError(
            Problem(
                f"serial port {port} cannot be opened: {error}",
                "`python -m serial.tools.list_ports` lists those that there are",
            )
        ) from error
    with device:
        yield SerialLink(device)


@contextmanager
def started(
    command: Sequence[str],
    seconds: float,
    environment: Mapping[str, str] | None = None,
    folder: str | None = None,
) -> Iterator[ProcessLink]:
    """A process with its console. It and all that it started end with the block, or after
    `seconds`."""
    process = subprocess.Popen(
        command,
        env=environment,
        cwd=folder,
        start_new_session=True,
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
    )

    clock = threading.Timer(seconds, child.stop, [process])
    clock.start()
    link = ProcessLink(process)
    try:
        yield link
    finally:
        clock.cancel()
        child.stop(process)
        process.wait()
        link.collector.join()
        for pipe in (process.stdin, process.stdout):
            assert pipe is not None
            with suppress(BrokenPipeError):
                pipe.close()
