# SPDX-License-Identifier: Apache-2.0
"""Targets that a C compiler makes an image for: build it, run it, read it back.

The image is image/main.c with the runtime and one model. It reads all samples from one file and
writes all outputs to another, both in its working directory, so that a run is one process
whatever the number of samples.
"""

from __future__ import annotations

import re
import shlex
import shutil
import subprocess
import tempfile
from abc import ABC, abstractmethod
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TypeVar

import numpy as np
from vmcu_tools import container, paths
from vmcu_tools.container.opened import Opened
from vmcu_tools.emit import emit, write
from vmcu_tools.errors import Problem, UserError
from vmcu_tools.plan.plan import Plan

from . import image_values
from .archive import archive, objects_of
from .base import (
    RunnerError,
    refuse_stream,
    refuse_team,
    sample_bytes,
    split_answers,
    split_outputs,
)

IMAGE = Path(__file__).parent / "image"
INPUT_FILE, OUTPUT_FILE = "inputs.bin", "outputs.bin"
MODEL_NAME = "model"
# Behind the name of a target that loads models from containers.
LOADING = "+container"
# The message of a model's file on cores that it is not for, see emit/model.py.
OTHER_CORES = re.compile(r"#error \"model was built with (--target \w+)")
ROTATING, STREAMS = "-DVMCU_POOL_ROTATE", "-DVMCU_STREAMS"
# Two workers of image/team.h, which the runtime does not know of.
TEAM = "-DIMAGE_TEAM"

# -ffp-contract=off: the float requantiser is exact only if its product is rounded on its own.
COMMON_FLAGS = (
    *("-std=c99", "-O2", "-g", "-Wall", "-Wextra", "-Werror"),
    *("-ffp-contract=off", "-ffunction-sections", "-fdata-sections"),
)


# The files that emit() writes: C, and the weights file.
ModelFiles = Mapping[str, str] | Mapping[str, str | bytes]
RunnerT = TypeVar("RunnerT", bound="CompiledRunner")


@dataclass(frozen=True)
class Toolchain:
    """A compiler and its companions, whose names begin with `prefix`; `package` is their name in
    Debian and Ubuntu. clang: the compiler is Clang, which has no library of its own here."""

    prefix: str
    package: str
    clang: bool = False

    def tool(self, name: str) -> str:
        """The path of one of its programs, such as "gcc"; UserError says which package has it."""
        return find_program(f"{self.prefix}{name}", self.package)

    @property
    def compiler(self) -> str:
        """The path of the compiler."""
        return find_program("clang", self.package) if self.clang else self.tool("gcc")


def find_program(program: str, package: str) -> str:
    """The program's path; UserError says which package has it."""
    location = shutil.which(program)
    if location is None:
        raise UserError(Problem(f"{program} not found", f"apt-get install {package}"))
    return location


@dataclass(frozen=True)
class CompiledRunner(ABC):
    """`flags` go to every compilation and to the link; `seconds` bounds a run. `container`: images
    load their model from one. `family`: the target of kernels/targets that a plan is made for if
    nobody chooses one; None for the default."""

    name: str
    summary: str
    toolchain: Toolchain
    flags: tuple[str, ...] = ()
    seconds: float = 600.0
    container: bool = False
    family: str | None = None

    def programs(self) -> dict[str, str]:
        """Runner.programs()."""
        tools = self.toolchain
        return {"clang" if tools.clang else f"{tools.prefix}gcc": tools.package}

    @property
    def main(self) -> Path:
        """The C file that runs the model."""
        return IMAGE / "main.c"

    @abstractmethod
    def command(self, image: Path) -> list[str]:
        """Returns the command that runs the image."""

    @abstractmethod
    def sources(self) -> list[Path]:
        """C files that make the image's surroundings: files, console, startup."""

    def link_flags(self) -> list[str]:
        """Returns the arguments of a link besides the flags."""
        return []

    def include_flags(self) -> list[str]:
        """Returns the flags for the folders of headers."""
        return [f"-I{paths.runtime() / 'include'}", f"-I{IMAGE}"]

    def run(self, plan: Plan, samples: Sequence[Sequence[np.ndarray]]) -> list[list[np.ndarray]]:
        """Runner.run() on an image of its own. UserError if that does not fit, RunnerError if it
        fails."""
        refuse_stream(plan)
        with tempfile.TemporaryDirectory(prefix="vmcu-") as folder:
            target = self.suited(plan)
            image = target.build(emit(plan, MODEL_NAME).all_files, MODEL_NAME, Path(folder))
            return target.execute(image, plan, samples)

    def run_container(
        self, opened: Opened, samples: Sequence[Sequence[np.ndarray]]
    ) -> list[list[np.ndarray]]:
        """Runner.run() of a container: loaded from it, or, on a target that loads none, with its
        tables compiled in."""
        with tempfile.TemporaryDirectory(prefix="vmcu-") as folder:
            image = self.build_container(opened, Path(folder))
            return self.execute(image, opened.outline, samples)

    def run_container_stream(self, opened: Opened, rows: np.ndarray) -> np.ndarray:
        """run_stream() of a container that keeps rows; as run_container()."""
        with tempfile.TemporaryDirectory(prefix="vmcu-") as folder:
            image = self.build_container(opened, Path(folder))
            return self.stream(image, opened.outline, rows)

    def build_container(self, opened: Opened, folder: Path) -> Path:
        """The image of run_container(), in `folder`."""
        wanted = {ROTATING: opened.rotates, STREAMS: opened.outline.graph.state.step_rows}
        target = self._defining(wanted)
        files = container_files(opened, MODEL_NAME, target.container)
        return target.compile(files, MODEL_NAME, folder)

    def run_values(
        self, plan: Plan, samples: Sequence[Sequence[np.ndarray]]
    ) -> list[list[np.ndarray]]:
        """Every output as the file presents it, its type, shape and order of axes, for samples in
        the file's form as well: through vmcu/convert.h. An input that the pool does not hold whole
        is converted here, and the memory that values take is not the board's, see roomy()."""
        with tempfile.TemporaryDirectory(prefix="vmcu-") as folder:
            target = self.suited(plan).roomy()
            files = emit(plan, MODEL_NAME).all_files
            image = target.build(files, MODEL_NAME, Path(folder), image_values.most_bytes(plan))
            (image.parent / INPUT_FILE).write_bytes(image_values.packed(plan, samples))
            target._start(image)
            data = (image.parent / OUTPUT_FILE).read_bytes()
            return image_values.unpacked(data, plan, len(samples), self.name)

    def run_stream(self, plan: Plan, rows: np.ndarray) -> np.ndarray:
        """The answers to rows int8 (rows, W, C) that are pushed one by one to a plan that keeps its
        state from hop to hop: int8 (hops, bytes), outputs one behind the other."""
        with tempfile.TemporaryDirectory(prefix="vmcu-") as folder:
            target = self.suited(plan)
            image = target.build(emit(plan, MODEL_NAME).all_files, MODEL_NAME, Path(folder))
            return target.stream(image, plan, rows)

    def stream(self, image: Path, plan: Plan, rows: np.ndarray) -> np.ndarray:
        """run_stream() of an image that has been built."""
        (image.parent / INPUT_FILE).write_bytes(np.asarray(rows, np.int8).tobytes())
        self._start(image)
        data = (image.parent / OUTPUT_FILE).read_bytes()
        return split_answers(data, plan, len(rows), self.name)

    def roomy(self: RunnerT) -> RunnerT:
        """The target with all the memory that its emulator has."""
        return self

    def suited(self: RunnerT, plan: Plan) -> RunnerT:
        """The target with the runtime that a plan needs. Raises UserError if it cannot run it."""
        if self.container:
            refuse_team(plan, self.name)
        wanted = {
            ROTATING: plan.rotation,
            "-DVMCU_SEVERAL_POOLS": plan.regions,
            STREAMS: plan.graph.state.step_rows,
            "-DVMCU_EXTERNAL_WEIGHTS": plan.weights,
            TEAM: plan.team,
        }
        return self._defining(wanted)

    def _defining(self: RunnerT, wanted: Mapping[str, object]) -> RunnerT:
        """The target with those flags that are wanted."""
        defines = tuple(define for define, needed in wanted.items() if needed)
        return replace(self, flags=(*self.flags, *defines)) if defines else self

    def without(self: RunnerT, flags: Collection[str]) -> RunnerT:
        """The target without those of its flags."""
        return replace(self, flags=tuple(flag for flag in self.flags if flag not in flags))

    def loading(self: RunnerT) -> RunnerT:
        """The target that loads models from containers."""
        flags = (*self.flags, "-DVMCU_CONTAINERS")
        return replace(self, name=f"{self.name}{LOADING}", flags=flags, container=True)

    def build(self, files: ModelFiles, name: str, folder: Path, values: int | None = None) -> Path:
        """Compiles a model's emitted files in `folder` into an image there. values: bytes of the
        largest input or output, if the image is to take values in the file's form."""
        if self.container:
            files = loaded_files(files, name)
        return self.compile(files, name, folder, values)

    def compile(
        self, files: ModelFiles, name: str, folder: Path, values: int | None = None
    ) -> Path:
        """build() of files that have the model as the target takes it, a container where it loads
        one."""
        image = folder / f"{name}.elf"
        write(files, folder)
        model = [folder / file for file in files if file.endswith(".c")]
        loaded = ["-DIMAGE_CONTAINER"] if self.container else []
        defines = [f'-DIMAGE_HEADER="{name}.h"', f"-DIMAGE_NAME={name}", f"-I{folder}", *loaded]
        parts = [self.main, *self.sources(), *model]
        if values is not None:
            defines.append(f"-DIMAGE_VALUES={values}")
            parts.append(IMAGE / "values.c")
        parts.append(self.archive(parts))
        # What is the same in all images is compiled once.
        same = self.sources()
        objects = dict(zip(same, objects_of(self, same), strict=True))
        parts = [objects.get(part, part) for part in parts]
        self.gcc([*defines, *map(str, parts), *self.link_flags(), "-o", str(image)], folder)
        return image

    def archive(self, files: Iterable[Path] | None = None) -> Path:
        """The runtime, compiled once, or the part that C files refer to, see archive.py; a link
        takes from it the symbols that a model refers to."""
        return archive(self, files)

    @property
    def all_flags(self) -> tuple[str, ...]:
        """Returns the flags of every call of the compiler."""
        return (*COMMON_FLAGS, *self.flags)

    def gcc(self, arguments: Sequence[str], folder: Path) -> None:
        """Runs the compiler in `folder`."""
        command = [
            *(self.toolchain.compiler, *self.all_flags, *self.include_flags(), *arguments),
        ]
        done = subprocess.run(
            command,
            cwd=folder,
            capture_output=True,
            encoding="utf-8",
            errors="replace",
            check=False,
        )
        if done.returncode == 0:
            return
        if "overflowed by" in done.stderr or "will not fit in region" in done.stderr:
            raise UserError(
                Problem(f"the model does not fit into {self.name}", "try another target with --on")
            )
        if other_core := OTHER_CORES.search(done.stderr):
            reason = f"{self.name} is no core of this model, which was built with {other_core[1]}"
            raise UserError(Problem(reason, "leave out --target, or name such a machine with --on"))
        raise RunnerError(f"{self.name}: the compiler failed\n{done.stderr}")

    def execute(
        self, image: Path, plan: Plan, samples: Sequence[Sequence[np.ndarray]]
    ) -> list[list[np.ndarray]]:
        """Runs an image on all samples in one process."""
        (image.parent / INPUT_FILE).write_bytes(sample_bytes(plan, samples))
        self._start(image)
        data = (image.parent / OUTPUT_FILE).read_bytes()
        return split_outputs(data, plan, len(samples), self.name)

    def keep(self, image: Path, folder: Path, name: str) -> None:
        """Copies an image that has run into a folder, with its input files and a script that runs
        it there."""
        folder.mkdir(parents=True, exist_ok=True)
        kept = Path(f"{name}.elf")
        shutil.copyfile(image, folder / kept)
        shutil.copyfile(image.parent / INPUT_FILE, folder / INPUT_FILE)
        program, *arguments = self.command(kept)
        lines = (
            "#!/bin/sh",
            f"# Reads {INPUT_FILE}, writes {OUTPUT_FILE}.",
            'cd "$(dirname "$0")"',
        )
        call = f"exec {shlex.join([Path(program).name, *arguments])}"
        script = folder / "run.sh"
        script.write_text("\n".join((*lines, call, "")), encoding="utf-8")
        script.chmod(0o755)

    def _start(self, image: Path) -> None:
        try:
            done = subprocess.run(
                self.command(image),
                cwd=image.parent,
                stdin=subprocess.DEVNULL,
                capture_output=True,
                encoding="utf-8",
                errors="replace",
                timeout=self.seconds,
                check=False,
            )
        except subprocess.TimeoutExpired as error:
            raise RunnerError(f"{self.name}: still running after {self.seconds} s") from error
        if done.returncode != 0:
            raise RunnerError(
                f"{self.name}: the image ended with code {done.returncode}\n"
                f"{done.stdout}{done.stderr}"
            )


def loaded_files(files: ModelFiles, name: str) -> dict[str, str | bytes]:
    """A model's emitted files with a container in place of its tables. Of the C only the header is
    used, for the sizes of an image's own arrays."""
    text = {file: text for file, text in files.items() if isinstance(text, str)}
    header = {file: text for file, text in text.items() if file.endswith(".h")}
    outside = {file: data for file, data in files.items() if isinstance(data, bytes)}
    image = container.of_tables(text, name, weights=b"".join(outside.values()))
    return {**header, f"{name}.c": container.as_c(image), **outside}


def container_files(opened: Opened, name: str, loaded: bool) -> dict[str, str]:
    """Files of an image of a container: to be loaded, or with its tables compiled in. Raises
    UserError for one whose weights are elsewhere."""
    if opened.weights_bytes:
        reason = "the weights of this container are in a file of their own"
        hint = "give the model and the options that it was built with, and --on TARGET+container"
        raise UserError(Problem(reason, hint, opened.outline.graph.origin))
    text = container.as_c(opened.image) if loaded else container.source(opened, name)
    return {f"{name}.h": container.header(opened, name), f"{name}.c": text}
