# SPDX-License-Identifier: Apache-2.0
"""Boards of a Zephyr workspace: an application is built around the model, and a probe in it runs
samples that arrive at its console. Emulated boards and this computer are started here, others are
flashed and reached by their serial port."""

from __future__ import annotations

import re
import shutil
import subprocess
import tempfile
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, NoReturn

import numpy as np
from vmcu_tools.container import Opened
from vmcu_tools.emit import emit, write
from vmcu_tools.errors import Problem, UserError
from vmcu_tools.plan.plan import Plan

from ..probe.link import Connection, opened_port, started
from ..probe.session import Firmware, Session, StoppedError, outputs_of
from . import workspace
from .base import refuse_stream, refuse_team, split_answers, split_outputs
from .compiled import LOADING, ModelFiles, container_files, find_program, loaded_files
from .qemu import ARM

APPLICATION = Path(__file__).parent / "zephyr_app"
MODEL_NAME = "image_model"
PREFIX = "zephyr:"
LOG_LINES, LOG_COLUMNS = 20, 300
NOT_EMULATED = re.compile(r"unknown target 'run|No rule to make target 'run|not supported")
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
        return self._run(self._image(plan), plan, samples)

    def run_stream(self, plan: Plan, rows: np.ndarray) -> np.ndarray:
        """The answers to rows int8 (rows, W, C) that are pushed one by one to a plan that keeps its
        state from hop to hop: int8 (hops, W, C). UserError as of run()."""
        return self._stream(self._image(plan), plan, rows)

    def run_container(
        self, opened: Opened, samples: Sequence[Sequence[np.ndarray]]
    ) -> list[list[np.ndarray]]:
        """run() of a container: loaded from it, or with its tables compiled in."""
        return self._run(self._image_of(opened), opened.outline, samples)

    def run_container_stream(self, opened: Opened, rows: np.ndarray) -> np.ndarray:
        """run_stream() of a container that keeps rows; as run_container()."""
        return self._stream(self._image_of(opened), opened.outline, rows)

    def _run(
        self, image: _Image, plan: Plan, samples: Sequence[Sequence[np.ndarray]]
    ) -> list[list[np.ndarray]]:
        with self._firmware(image) as firmware, firmware() as link:
            session = Session(link, plan)
            data = b"".join(outputs_of(session, sample) for sample in samples)
        return split_outputs(data, plan, len(samples), self.name)

    def _stream(self, image: _Image, plan: Plan, rows: np.ndarray) -> np.ndarray:
        with self._firmware(image) as firmware, firmware() as link:
            data = outputs_of(Session(link, plan), [rows])
        return split_answers(data, plan, len(rows), self.name)

    @contextmanager
    def firmware(self, plan: Plan) -> Iterator[Firmware]:
        """Firmware that serves a probe of a plan. UserError as of run()."""
        with self._firmware(self._image(plan)) as firmware:
            yield firmware

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
        with self.firmware(plan) as firmware, firmware() as link:
            session = Session(link, plan)
            session.set_mode("t")
            outputs = outputs_of(session, sample)
            layers = session.layer_values()
            session.set_mode("n")
            cycles = sum(ran.cycles for ran in session.runs(sample))
        if cycles == 0:
            raise UserError(
                Problem(
                    f"the cycle counter of '{self.board}' stands still",
                    "as under most emulators: count with --on, or flash a board with --serial",
                )
            )
        (values,) = split_outputs(outputs, plan, 1, self.name)
        return values, Measured(session.hertz, cycles, tuple(layers))

    def _image(self, plan: Plan) -> _Image:
        """The application of a plan."""
        if plan.weights is not None:
            reason = "vmcu writes no Zephyr application that reads external weights"
            hint = "use --on host, or write one: `vmcu help memories.md`"
            raise UserError(Problem(reason, hint, plan.graph.origin))
        refuse_team(plan, self.name)
        files: ModelFiles = emit(plan, MODEL_NAME).files
        if self.container:
            files = loaded_files(files, MODEL_NAME)
        wanted = {
            "POOL_ROTATE": plan.rotation,
            "SEVERAL_POOLS": plan.regions,
            "STREAMS": plan.graph.state.step_rows,
        }
        return _Image(files, self._kconfig(wanted))

    def _kconfig(self, wanted: Mapping[str, object]) -> tuple[str, ...]:
        """Options for CMake. The application lists the kernels of its container."""
        chosen = [f"{name}=y" for name, needed in wanted.items() if needed]
        if self.container:
            chosen += ["CONTAINERS=y", "CONTAINER_ALL_KERNELS=n"]
        return tuple(f"-DCONFIG_VMCU_{option}" for option in chosen)

    @contextmanager
    def _firmware(self, image: _Image) -> Iterator[Firmware]:
        """Builds the application. Each call of its Firmware starts it."""
        tree = workspace.zephyr_base()
        with tempfile.TemporaryDirectory(prefix="vmcu-zephyr-") as folder:
            application = Path(folder) / "application"
            shutil.copytree(APPLICATION, application)
            write(image.files, application)
            build = Path(folder) / "build"
            kconfig = [*image.kconfig, *workspace.console_options(self.board, tree)]
            self.build(application, build, tree, kconfig)
            yield lambda: self.started(build, workspace.environment(tree))

    def build(self, application: Path, build: Path, tree: Path, kconfig: Sequence[str]) -> None:
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

    @contextmanager
    def started(self, build: Path, environment: dict[str, str]) -> Iterator[Connection]:
        """The application's console. Raises UserError if it cannot start."""
        make = [find_program("cmake", "cmake"), "--build", str(build), "--target"]
        if self.port is None:
            with started([*make, "run"], self.seconds, environment) as console:
                try:
                    yield console
                except StoppedError as stopped:
                    self._explain_start(stopped)
                    raise
            return
        # Opened first: the board begins to talk as soon as it is flashed.
        with opened_port(self.port) as port:
            done = subprocess.run([*make, "flash"], env=environment, check=False, **ONE_STREAM)
            if done.returncode != 0:
                raise UserError(
                    Problem(
                        f"'{self.board}' could not be flashed; the last lines:\n"
                        f"{last_lines(done.stdout)}",
                        "see whether `west flash` works for samples/hello_world",
                    )
                )
            yield port

    def _explain_start(self, stopped: StoppedError) -> None:
        """Raises UserError if there is no emulator for the board."""
        if NOT_EMULATED.search("\n".join(stopped.log)):
            raise UserError(
                Problem(
                    f"'{self.board}' is not emulated, so that nothing can be run here",
                    "choose an emulated board or native_sim; for hardware, `vmcu bench --measure "
                    "--serial PORT` flashes and reads it, `vmcu new` writes an application",
                )
            )


def last_lines(log: str) -> str:
    """The end of a build's log, without lines that are only long."""
    lines = [line for line in log.splitlines() if line.strip() and len(line) < LOG_COLUMNS]
    return "\n".join(lines[-LOG_LINES:])
