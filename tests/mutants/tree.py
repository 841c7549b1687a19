# SPDX-License-Identifier: Apache-2.0
"""A copy of the checkout in which mutants are made; the checkout itself is never changed."""

from __future__ import annotations

import compileall
import os
import py_compile
import re
import shutil
import signal
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path

HERE = Path(__file__).resolve().parent
ROOT = HERE.parents[1]
PYTEST = (sys.executable, "-m", "pytest", "-q", "-p", "no:cacheprovider", "-p", "no:xdist")
FLAGS = ("-std=c99", "-O2", "-Wall", "-Wextra", "-Werror")
# What is compiled only where it is asked for counts too, and what cores without an FPU compute.
OPTIONS = (
    (),
    ("-DVMCU_POOL_ROTATE",),
    ("-DVMCU_POOL_GUARD",),
    ("-DVMCU_SEVERAL_POOLS",),
    ("-DVMCU_STREAMS",),
    ("-DVMCU_PROBE",),
    ("-DVMCU_EXTERNAL_WEIGHTS", "-DVMCU_STREAMS"),
    ("-DVMCU_POOL_GUARD", "-DVMCU_POOL_ROTATE"),
    ("-DVMCU_POOL_GUARD", "-DVMCU_SEVERAL_POOLS"),
    ("-D__FAST_MATH__",),
)
CONTAINERS = ("-DVMCU_CONTAINERS",)
# Of the sources of containers, which do not compile without CONTAINERS.
LOADERS = (
    (),
    ("-DVMCU_ONLINE_PLANNER", "-DVMCU_CONTAINER_REPLAY"),
    ("-DVMCU_POOL_ROTATE",),
    ("-DVMCU_STREAMS",),
    ("-DVMCU_CONTAINER_REPLAY", "-DVMCU_STREAMS"),
    ("-DVMCU_EXTERNAL_WEIGHTS", "-DVMCU_CONTAINER_REPLAY", "-DVMCU_STREAMS"),
    ("-DVMCU_CONTAINER_SIGNED",),
)
# CPU seconds of a test without a mutant, its fixtures included.
ALONE = 600.0
# A program that waits for another one uses no CPU time.
WAITING = 20
GENERATED = "lib/vmcu/kernels/gen/"


def own_gcc() -> str:
    """gcc itself, "" where there is none. Not ccache in its place: it would call the first gcc on
    PATH, which is the stand-in that calls it."""
    folders = os.environ["PATH"].split(os.pathsep)
    found = filter(None, (shutil.which("gcc", path=folder) for folder in folders))
    return next((gcc for gcc in found if Path(gcc).resolve().name != "ccache"), "")


class Tree:
    def __init__(self, folder: Path):
        """folder: of the copy, which is brought to what the checkout is, uncommitted files too."""
        self.folder = folder
        command = ["git", "ls-files", "-z", "--cached", "--others", "--exclude-standard"]
        listed = subprocess.run(command, cwd=ROOT, capture_output=True, check=True).stdout
        if folder.exists():
            shutil.rmtree(folder)
        for name in filter(None, listed.decode().split("\0")):
            source, target = ROOT / name, folder / name
            if source.is_file():
                target.parent.mkdir(parents=True, exist_ok=True)
                shutil.copyfile(source, target, follow_symlinks=False)
                shutil.copymode(source, target, follow_symlinks=False)
        # Every run of tests loads them. By hash: a mutant may be as long as what it replaces, and
        # as old to the second.
        by_hash = py_compile.PycInvalidationMode.CHECKED_HASH
        compileall.compile_dir(folder / "python", quiet=2, invalidation_mode=by_hash)
        self.objects = folder.parent / f"{folder.name}-objects"
        self.bin = folder.parent / f"{folder.name}-bin"
        self.bin.mkdir(exist_ok=True)
        self.gcc = own_gcc()
        self.reads: list[tuple[list[str], set[Path]]] = []
        stand_in = self.bin / "gcc"
        stand_in.write_text(f'#!/bin/sh\nexec {sys.executable} {HERE / "compiler.py"} "$@"\n')
        stand_in.chmod(0o755)

    def product(self) -> list[str]:
        """Files that mutants are drawn from: Python, and C that is not generated."""
        names = self.files("python/vmcu*/**/*.py") + self.files("lib/vmcu/**/*.[ch]")
        return [name for name in names if not name.startswith(GENERATED)]

    def files(self, pattern: str) -> list[str]:
        """Names from the root."""
        return sorted(str(path.relative_to(self.folder)) for path in self.folder.glob(pattern))

    def environment(self) -> dict[str, str]:
        self.objects.mkdir(exist_ok=True)
        beside = ROOT.parent / "shared" / "models"
        values = {
            "PATH": f"{self.bin}{os.pathsep}{os.environ['PATH']}",
            "PYTHONPATH": os.pathsep.join((str(self.folder / "python"), str(HERE))),
            # None by time.
            "PYTHONDONTWRITEBYTECODE": "1",
            "TMPDIR": str(self.temporary()),
            "VMCU_MODELS": os.environ.get("VMCU_MODELS", str(beside)),
            "VMCU_MUTANTS_CC": str(self.objects),
            "VMCU_MUTANTS_GCC": self.gcc,
            "VMCU_MUTANTS_TREE": str(self.folder),
        }
        return {**os.environ, **values}

    def temporary(self) -> Path:
        """For archives of a mutant's runtime, which nobody needs again."""
        path = self.folder.parent / f"{self.folder.name}-tmp"
        path.mkdir(exist_ok=True)
        return path

    def tests_of(self, test_files: Sequence[str]) -> set[str]:
        """The names of all tests in some files but those on emulated boards."""
        command = [*PYTEST, "-p", "boards_plugin", "--collect-only", *test_files]
        environment = self.environment()
        done = subprocess.run(
            command, cwd=self.folder, env=environment, capture_output=True, text=True, check=True
        )
        return {line for line in done.stdout.splitlines() if "::" in line}

    def run(
        self, tests: Sequence[str], seconds: float, each: float = ALONE
    ) -> tuple[int | None, str]:
        """pytest's exit code for some tests, None if they take more CPU seconds, or one takes more
        than `each`; and which one failed."""
        with (
            tempfile.TemporaryFile("w+") as said,
            subprocess.Popen(
                [*PYTEST, "-p", "limit_plugin", "-x", "--tb=no", "-rfE", *tests],
                cwd=self.folder,
                env=self.environment() | {"VMCU_MUTANTS_SECONDS": str(each)},
                stdout=said,
                stderr=subprocess.DEVNULL,
                start_new_session=True,
            ) as process,
        ):
            try:
                code = _wait(process, seconds)
            finally:
                shutil.rmtree(self.temporary(), ignore_errors=True)
            if code in (None, -signal.SIGXCPU):
                return None, ""
            said.seek(0)
            failed = re.search(r"^(?:FAILED|ERROR) (\S+::.*?)(?: - |$)", said.read(), re.MULTILINE)
            return code, failed[1] if failed else ""

    def compiled(self, file: str) -> list[bytes] | None:
        """The objects that a C file goes into; None if one of them cannot be compiled."""
        target = self.folder.parent / f"{self.folder.name}.o"
        objects = []
        for command in self._readers(file):
            command = [*command, "-c", "-o", str(target)]
            if subprocess.run(command, capture_output=True, check=False).returncode:
                return None
            objects.append(target.read_bytes())
        return objects

    def _readers(self, file: str) -> list[list[str]]:
        """Compilations that look at a file. No mutant changes what is included."""
        if not self.reads:
            include = f"-I{self.folder / 'lib' / 'vmcu' / 'include'}"
            for source, options in self._compilations():
                command = [self.gcc, *FLAGS, *options, include, str(source)]
                self.reads.append((command, self._read_by(command)))
        return [command for command, files in self.reads if (self.folder / file).resolve() in files]

    def _compilations(self) -> Iterator[tuple[Path, tuple[str, ...]]]:
        """Files of the runtime and with which options."""
        runtime = self.folder / "lib" / "vmcu"
        folders = [runtime, runtime / "audio", runtime / "endurance", runtime / "link"]
        plain = [source for folder in folders for source in folder.glob("*.c")]
        for source in sorted([*plain, *(runtime / "kernels").rglob("*.c")]):
            yield from ((source, options) for options in (*OPTIONS, CONTAINERS))
        for source in sorted((runtime / "container").glob("*.c")):
            yield from ((source, CONTAINERS + options) for options in LOADERS)

    def _read_by(self, command: Sequence[str]) -> set[Path]:
        done = subprocess.run([*command, "-MM"], capture_output=True, text=True, check=False)
        words = done.stdout.replace("\\\n", " ").split()[1:]
        return {Path(word).resolve() for word in words}


def _wait(process: subprocess.Popen[str], seconds: float) -> int | None:
    """The exit code of a session's first process. The session is ended, which gives None, if it
    takes more CPU seconds: others may use the computer; or many times as many without using them.
    """
    end = time.monotonic() + WAITING * seconds
    while True:
        try:
            return process.wait(1)
        except subprocess.TimeoutExpired:
            if _spent(process.pid) > seconds or time.monotonic() > end:
                os.killpg(process.pid, signal.SIGKILL)
                return None


def _spent(session: int) -> float:
    """CPU seconds of a session's processes, and of those that they have waited for; 0 where there
    is no /proc."""
    ticks = 0
    for stat in Path("/proc").glob("[0-9]*/stat"):
        try:
            words = stat.read_text().rpartition(")")[2].split()
        except OSError:
            # It has ended.
            continue
        if int(words[3]) == session:
            ticks += sum(map(int, words[11:15]))
    return ticks / os.sysconf("SC_CLK_TCK")


def in_each(trees: Sequence[Tree], work: Callable[[Tree], None]) -> None:
    """Does something in all trees at the same time."""
    threads = [threading.Thread(target=work, args=(tree,)) for tree in trees]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
