# SPDX-License-Identifier: Apache-2.0
"""Boards of a Zephyr workspace: an application is built around the model and the samples, run, and
read back from its console. Emulated boards and this computer are started here, others are flashed
and read by their serial port."""

from __future__ import annotations

import os
import re
import shutil
import signal
import subprocess
import tempfile
import threading
import time
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, NoReturn

import numpy as np
from vmcu_tools.container import Opened
from vmcu_tools.emit import emit, write
from vmcu_tools.errors import Problem, UserError
from vmcu_tools.plan.plan import Plan

from . import workspace
from .base import RunnerError, refuse_stream, sample_bytes, split_answers, split_outputs
from .compiled import LOADING, ModelFiles, container_files, find_program, loaded_files
from .qemu import ARM

APPLICATION = Path(__file__).parent / "zephyr_app"
MODEL_NAME = "image_model"
PREFIX = "zephyr:"
LOG_LINES, LOG_COLUMNS = 20, 300
BYTES_A_LINE = 24
# How lines of the application start.
OUTPUTS, LAYER, INFERENCE, ENDED = "vmcu: ", "vmcu layer: ", "vmcu inference: ", "vmcu ended: "
BAUD = 115200
# A process that asks nothing and whose errors come among its output.
ONE_STREAM: dict[str, Any] = {
    "stdin": subprocess.DEVNULL,
    "stdout": subprocess.PIPE,
    "stderr": subprocess.STDOUT,
    "text": True,
    "errors": "replace",
}


@dataclass(frozen=True)
class Measured:
    """The figures of a board's own counter, of `hertz`, for one inference. layers: calls and cycles
    of each, taken in inferences of their own."""

    hertz: int
    cycles: int
    layers: tuple[tuple[int, int], ...]


@dataclass(frozen=True)
class _Image:
    """The files of an application for one model, and options for CMake."""

    files: ModelFiles
    kconfig: tuple[str, ...]


@dataclass(frozen=True)
class ZephyrRunner:
    """`seconds` bounds the run, not the build. `port`: the serial port of a board to flash,
    None for one that is emulated. `container`: images load their model from one."""

    board: str
    seconds: float = 600.0
    port: str | None = None
    container: bool = False

    @property
    def name(self) -> str:
        return PREFIX + self.board + (LOADING if self.container else "")

    @property
    def summary(self) -> str:
        return f"Zephyr on {self.board}"

    def programs(self) -> dict[str, str]:
        """Runner.programs(); Zephyr's SDK has compilers and emulators of its own."""
        needed = {"cmake": "cmake"}
        if self.board.startswith("native_sim"):
            needed |= {"gcc": "gcc"}
        elif self.board.startswith(("qemu_cortex_m", "mps")) and not workspace.has_toolchain():
            needed |= {"arm-none-eabi-gcc": ARM.package, "qemu-system-arm": "qemu-system-arm"}
        return needed

    def run(self, plan: Plan, samples: Sequence[Sequence[np.ndarray]]) -> list[list[np.ndarray]]:
        """Raises UserError where the workspace, the board or the model's size are in the way."""
        refuse_stream(plan)
        said = self._said(self._image(plan), samples_header(plan, samples))
        return self._outputs(said, plan, len(samples))

    def run_stream(self, plan: Plan, rows: np.ndarray) -> np.ndarray:
        """The answers to rows int8 (rows, W, C) that are pushed one by one to a plan that keeps its
        state from hop to hop: int8 (hops, W, C). UserError as of run()."""
        said = self._said(self._image(plan), header_of(np.asarray(rows, np.int8)))
        return split_answers(outputs_of(said), plan, len(rows), self.name)

    def run_container(
        self, opened: Opened, samples: Sequence[Sequence[np.ndarray]]
    ) -> list[list[np.ndarray]]:
        """run() of a container: loaded from it, or with its tables compiled in."""
        said = self._said(self._image_of(opened), samples_header(opened.outline, samples))
        return self._outputs(said, opened.outline, len(samples))

    def run_container_stream(self, opened: Opened, rows: np.ndarray) -> np.ndarray:
        """run_stream() of a container that keeps rows; as run_container()."""
        image = self._image_of(opened)
        said = self._said(image, header_of(np.asarray(rows, np.int8)))
        return split_answers(outputs_of(said), opened.outline, len(rows), self.name)

    def _image_of(self, opened: Opened) -> _Image:
        files = container_files(opened, MODEL_NAME, self.container)
        hop = opened.outline.graph.state.step_rows > 0
        return _Image(files, self._kconfig({"POOL_ROTATE": opened.rotates, "STREAMS": hop}))

    def loading(self) -> ZephyrRunner:
        """The board that loads models from containers."""
        return replace(self, container=True)

    def measure(
        self, plan: Plan, sample: Sequence[np.ndarray]
    ) -> tuple[list[np.ndarray], Measured]:
        """The outputs of one sample, and the board's counts. UserError as of run(), and where the
        board's counter stands still."""
        refuse_stream(plan)
        said = self._said(self._image(plan, PROFILE=True), samples_header(plan, [sample]))
        (outputs,) = self._outputs(said, plan, 1)
        layers = [tuple(map(int, text.split())) for text in after(LAYER, said)]
        ((cycles, hertz),) = (map(int, text.split()) for text in after(INFERENCE, said))
        if cycles == 0:
            raise UserError(
                Problem(
                    f"the cycle counter of '{self.board}' stands still",
                    "as under most emulators: count with --on, or flash a board with --serial",
                )
            )
        return outputs, Measured(hertz, cycles, tuple((calls, spent) for calls, spent in layers))

    def _outputs(self, said: Sequence[str], plan: Plan, samples: int) -> list[list[np.ndarray]]:
        return split_outputs(outputs_of(said), plan, samples, self.name)

    def _image(self, plan: Plan, **options: bool) -> _Image:
        """The application of a plan, with more options of vmcu's, without their prefix."""
        if plan.weights is not None:
            reason = "vmcu writes no Zephyr application that reads external weights"
            hint = "use --on host, or write one: `vmcu help memories.md`"
            raise UserError(Problem(reason, hint, plan.graph.origin))
        files: ModelFiles = emit(plan, MODEL_NAME).files
        if self.container:
            files = loaded_files(files, MODEL_NAME)
        wanted = {
            "POOL_ROTATE": plan.rotation,
            "SEVERAL_POOLS": plan.regions,
            "STREAMS": plan.graph.state.step_rows,
        }
        return _Image(files, self._kconfig({**wanted, **options}))

    def _kconfig(self, wanted: Mapping[str, object]) -> tuple[str, ...]:
        """Options for CMake. The application lists the kernels of its container."""
        chosen = [f"{name}=y" for name, needed in wanted.items() if needed]
        if self.container:
            chosen += ["CONTAINERS=y", "CONTAINER_ALL_KERNELS=n"]
        return tuple(f"-DCONFIG_VMCU_{option}" for option in chosen)

    def _said(self, image: _Image, samples: str) -> list[str]:
        """The application's lines. samples: the text of samples.h."""
        tree = workspace.zephyr_base()
        with tempfile.TemporaryDirectory(prefix="vmcu-zephyr-") as folder:
            application = Path(folder) / "application"
            shutil.copytree(APPLICATION, application)
            write(image.files, application)
            write({"samples.h": samples}, application)
            build = Path(folder) / "build"
            self._build(application, build, tree, image.kconfig)
            return self._console(build, tree)

    def _build(self, application: Path, build: Path, tree: Path, kconfig: Sequence[str]) -> None:
        environment = workspace.environment(tree)
        cmake = find_program("cmake", "cmake")
        generator = ["-GNinja"] if shutil.which("ninja") else []
        where = ["-S", str(application), "-B", str(build)]
        options = [*workspace.cmake_options(self.board, tree), *kconfig]
        for command in ([cmake, *generator, *where, *options], [cmake, "--build", str(build)]):
            done = subprocess.run(command, env=environment, check=False, **ONE_STREAM)
            if done.returncode != 0:
                self._explain(done.stdout)

    def _explain(self, log: str) -> NoReturn:
        """Explains a failed build to the user."""
        if re.search(r"No board named|Invalid BOARD|Board .* not found", log):
            problem = Problem(
                f"this Zephyr workspace has no board '{self.board}'", "`west boards` lists them"
            )
        elif overflow := re.search(r"region `(\w+)' overflowed by (\d+) bytes", log):
            problem = Problem(
                f"the model with its samples does not fit into {self.board}: {overflow[2]} bytes "
                f"too many in {overflow[1]}",
                "choose another board, fewer samples, or a smaller plan with --stream-input",
            )
        else:
            problem = Problem(
                f"Zephyr's build for {self.board} failed; its last lines:\n{last_lines(log)}",
                "see whether it builds samples/hello_world for this board; Arm boards without "
                f"Zephyr's SDK need {ARM.package}",
            )
        raise UserError(problem)

    def _console(self, build: Path, tree: Path) -> list[str]:
        """The lines of the application's console."""
        lines: list[str] = []
        with self._started(build, workspace.environment(tree)) as console:
            for line in console:
                lines.append(line)
                if line.startswith(ENDED):
                    if line.split()[-1] != "0":
                        raise RunnerError(f"{self.name}: inference ended with {line.split()[-1]}")
                    return lines
        log = "\n".join(lines)
        if re.search(r"unknown target 'run|No rule to make target 'run|not supported", log):
            raise UserError(
                Problem(
                    f"'{self.board}' is not emulated, so that nothing can be run here",
                    "choose an emulated board or native_sim; for hardware, `vmcu bench --measure "
                    "--serial PORT` flashes and reads it, `vmcu new` writes an application",
                )
            )
        raise RunnerError(f"{self.name}: the image said no more after\n{last_lines(log)}")

    @contextmanager
    def _started(self, build: Path, environment: dict[str, str]) -> Iterator[Iterator[str]]:
        """The console of the application, which starts."""
        make = [find_program("cmake", "cmake"), "--build", str(build), "--target"]
        if self.port is None:
            with running([*make, "run"], environment, self.seconds) as console:
                yield console
            return
        # Opened first: the board begins to talk as soon as it is flashed.
        with serial_lines(self.port, self.seconds) as console:
            done = subprocess.run([*make, "flash"], env=environment, check=False, **ONE_STREAM)
            if done.returncode != 0:
                raise UserError(
                    Problem(
                        f"'{self.board}' could not be flashed; the last lines:\n"
                        f"{last_lines(done.stdout)}",
                        "see whether `west flash` works for samples/hello_world",
                    )
                )
            yield console


def after(start: str, lines: Sequence[str]) -> list[str]:
    """Returns the rest of the lines that begin with `start`."""
    return [line.removeprefix(start) for line in lines if line.startswith(start)]


def outputs_of(said: Sequence[str]) -> bytes:
    """The outputs in an application's lines."""
    return bytes.fromhex("".join(after(OUTPUTS, said)))


def last_lines(log: str) -> str:
    """The end of a build's log, without lines that are only long."""
    lines = [line for line in log.splitlines() if line.strip() and len(line) < LOG_COLUMNS]
    return "\n".join(lines[-LOG_LINES:])


def samples_header(plan: Plan, samples: Sequence[Sequence[np.ndarray]]) -> str:
    """The inputs of every sample, one after the other, as C."""
    data = [np.frombuffer(sample_bytes(plan, [sample]), np.int8) for sample in samples]
    return header_of(np.stack(data))


def header_of(samples: np.ndarray) -> str:
    """Writes samples.h for int8 (samples, ...): single inputs, or rows of a stream."""
    rows = []
    data = samples.reshape(len(samples), -1)
    for values in data.tolist():
        lines = (values[at : at + BYTES_A_LINE] for at in range(0, len(values), BYTES_A_LINE))
        rows.append("\t{\n" + "".join(f"\t\t{', '.join(map(str, n))},\n" for n in lines) + "\t},\n")
    return (
        f"#define SAMPLES {len(data)}\n\n"
        f"static const int8_t samples[SAMPLES][{data.shape[1]}] = {{\n{''.join(rows)}}};\n"
    )


@contextmanager
def serial_lines(port: str, seconds: float) -> Iterator[Iterator[str]]:
    """Lines that arrive at a serial port, as they come, for so long from the first time that one is
    asked for."""
    import serial

    try:
        device = serial.Serial(port, BAUD, timeout=0.5)
    except serial.SerialException as error:
        raise UserError(
            Problem(
                f"serial port {port} cannot be opened: {error}",
                "`python -m serial.tools.list_ports` lists those that there are",
            )
        ) from error

    def lines() -> Iterator[str]:
        end, begun = time.monotonic() + seconds, b""
        while time.monotonic() < end:
            begun += device.readline()
            if begun.endswith(b"\n"):
                yield begun.decode("utf-8", "replace").strip()
                begun = b""

    with device:
        yield lines()


@contextmanager
def running(
    command: Sequence[str], environment: dict[str, str], seconds: float
) -> Iterator[Iterator[str]]:
    """A process whose lines are read as they come; it and all that it started end with the block,
    or after `seconds`."""
    process = subprocess.Popen(
        command,
        env=environment,
        start_new_session=True,
        **ONE_STREAM,
    )

    def stop() -> None:
        with suppress(ProcessLookupError):
            os.killpg(process.pid, signal.SIGTERM)

    clock = threading.Timer(seconds, stop)
    clock.start()
    try:
        assert process.stdout is not None
        yield (line.rstrip() for line in process.stdout)
    finally:
        clock.cancel()
        stop()
        process.communicate()
