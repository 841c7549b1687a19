# SPDX-License-Identifier: Apache-2.0
"""Emulated boards that count instructions, through plugin/count.c."""

from __future__ import annotations

import atexit
import functools
import re
import shutil
import subprocess
import tempfile
from collections.abc import Callable
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import TypeVar

import numpy as np
from vmcu_tools import container
from vmcu_tools.boards.counts import Caches, Counts
from vmcu_tools.emit.structs import LAYER
from vmcu_tools.errors import Problem, UserError

from ..image.elf import Elf, Symbol
from .base import RunnerError
from .host import NATIVE
from .qemu import RAM_START, QemuRunner

SOURCE = Path(__file__).parent / "plugin" / "count.c"
COUNTS_FILE = "counts.txt"
TRACE_FILE = "trace.txt"
BLOCKS_FILE = "blocks.txt"
POOLS_FILE = "pools.txt"
CALLS_FILE = "calls.txt"
# The arrays of image/main.c that pools are in, of several by their number, and their guards.
ARENA, GUARD_BYTES = "arena", 64
# The container that image/main.c loads a model from, if it does.
CONTAINER = "image_container"
OLDEST_API = 1
# The calls that an inference is made of.
ENTRIES = ("vmcu_invoke", "vmcu_push_row", "vmcu_team_step")

# Messages of QEMU.
NO_PLUGINS = re.compile(r"plugin interface not enabled|-plugin: invalid option")
NEWER_API = re.compile(r"supports only a minimum version of (\d+)")

Result = TypeVar("Result")


@dataclass(frozen=True)
class Block:
    """A run of instructions from address `start` to `stop` within a row of the counts (0 the
    executor's): how often it ran, and how often a branch that was taken ended it."""

    row: int
    start: int
    stop: int
    executed: int
    taken: int


@dataclass(frozen=True)
class Markers:
    """Addresses that tell the plugin where it is, see plugin/count.c. trace_bytes: of RAM, from its
    start, whose stores are counted one by one, see `trace_of`. pools: where each begins and
    ends."""

    entries: tuple[int, ...]
    kernels: tuple[int, ...] = ()
    table: int = 0
    stride: int = 1
    layers: int = 0
    stack: int | None = None
    trace_bytes: int = 0
    caches: Caches | None = None
    pools: tuple[tuple[int, int], ...] = ()

    def arguments(self) -> list[str]:
        """Them as the plugin takes them."""
        return [
            *(f"entry={address:#x}" for address in self.entries),
            *(f"kernel={address:#x}" for address in self.kernels),
            f"table={self.table:#x}",
            f"stride={self.stride}",
            f"layers={self.layers}",
            *([] if self.stack is None else [f"stack={self.stack:#x}"]),
            *([f"span={self.trace_bytes}", f"trace={TRACE_FILE}"] if self.trace_bytes else []),
            *([] if self.caches is None else [f"{n}={v}" for n, v in vars(self.caches).items()]),
            *(f"pool={start:#x},end={stop:#x}" for start, stop in self.pools),
            f"blocks={BLOCKS_FILE}",
            f"pools={POOLS_FILE}",
            f"each={CALLS_FILE}",
        ]


def markers_of(image: Path, model: str) -> Markers:
    """Finds an image's inference call and its table of layers."""
    elf = Elf(image)
    entry_symbols = [elf.find(name) for name in ENTRIES]
    entries = tuple(symbol.address for symbol in entry_symbols if symbol is not None)
    table = elf.find(f"{model}_layers")
    held = elf.find(CONTAINER)
    if not entries:
        raise RunnerError(f"{image.name} has neither of {', '.join(ENTRIES)}")
    # Behind everything that has a name in RAM, which no board has further down.
    stack = max((s.address + s.size for s in elf.symbols if s.address >= RAM_START), default=None)
    if held is not None:
        return _markers_in(elf, held, entries, stack)
    if table is None:
        return Markers(entries, stack=stack)
    stride = LAYER.size
    functions = {symbol.address for symbol in elf.symbols if symbol.kind == "STT_FUNC"}
    # The kernel pointer is the first member of struct vmcu_layer.
    kernels = {word & ~1 for word in elf.words(table)[:: stride // 4]}
    if table.size % stride or not kernels <= functions:
        raise RunnerError(f"{table.name} is no table of struct vmcu_layer")
    count = table.size // stride
    return Markers(entries, tuple(sorted(kernels)), table.address, stride, count, stack)


def _markers_in(elf: Elf, held: Symbol, entries: tuple[int, ...], stack: int | None) -> Markers:
    """The same of a container, whose layers name kernels by number."""
    image = np.array(elf.words(held), "<u4").tobytes()
    start, count = container.layers_of(image)
    kernels = [elf.find(name) for name in container.kernels_of(image)]
    addresses = tuple(sorted(kernel.address & ~1 for kernel in kernels if kernel is not None))
    return Markers(entries, addresses, held.address + start, LAYER.size, count, stack)


@dataclass(frozen=True)
class CountingRunner(QemuRunner):
    """A board with the plugin loaded. Images are those of the board itself."""

    markers: Markers = field(default_factory=lambda: Markers(()))
    api: int = OLDEST_API

    @staticmethod
    def of(board: QemuRunner, markers: Markers) -> CountingRunner:
        """A board that counts."""
        return CountingRunner(**vars(board), markers=markers)

    def command(self, image: Path) -> list[str]:
        own = f"out={COUNTS_FILE}", f"ram={self.ram_start:#x}"
        arguments = [str(_plugin(self.api)), *own, *self.markers.arguments()]
        return [*super().command(image), "-plugin", ",".join(arguments)]

    def count(
        self, folder: Path, run: Callable[[CountingRunner], Result]
    ) -> tuple[Result, list[Counts]]:
        """Returns the result of `run`, and the executor's counts followed by every layer's.

        `run` starts an image in `folder` on the target it is given.
        """
        try:
            result = run(self)
        except RunnerError as error:
            if NO_PLUGINS.search(str(error)):
                raise UserError(
                    Problem(
                        f"this {self.emulator} loads no plugins",
                        "install one configured with --enable-plugins, such as Debian's",
                    )
                ) from error
            wanted = NEWER_API.search(str(error))
            if wanted is None or int(wanted[1]) == self.api:
                raise
            return replace(self, api=int(wanted[1])).count(folder, run)
        lines = (folder / COUNTS_FILE).read_text(encoding="utf-8").splitlines()
        return result, [Counts(*map(int, line.split())) for line in lines]


def trace_of(folder: Path, trace_bytes: int) -> np.ndarray:
    """Stores to each byte of RAM that the image which ran in `folder` made during its inference:
    int64 (trace_bytes), from where the board's RAM starts."""
    stores = np.zeros(trace_bytes, np.int64)
    written = np.loadtxt(folder / TRACE_FILE, np.int64, ndmin=2).reshape(-1, 2)
    stores[written[:, 0]] = written[:, 1]
    return stores


@dataclass(frozen=True)
class PoolCounts:
    """Bus accesses to a pool in an inference."""

    loads: int
    stores: int


def pools_in(image: Path, count: int) -> tuple[tuple[int, int], ...]:
    """Finds the start and end of each of several pools of an image."""
    elf, pools = Elf(image), []
    for number in range(count):
        arena = elf.find(f"{ARENA}_{number}")
        if arena is None:
            raise RunnerError(f"{image.name} has no pool number {number}")
        start = arena.address + GUARD_BYTES
        pools.append((start, start + arena.size - 2 * GUARD_BYTES))
    return tuple(pools)


def pool_counts(folder: Path) -> list[PoolCounts]:
    """Accesses to each of the pools that markers named, by the image which ran in `folder`."""
    lines = (folder / POOLS_FILE).read_text(encoding="utf-8").splitlines()
    return [PoolCounts(*map(int, line.split())) for line in lines]


def calls_in(folder: Path) -> np.ndarray:
    """Instructions of each call of an entry that the image which ran in `folder` made: int64
    (calls, rows), of the executor and of each layer."""
    return np.loadtxt(folder / CALLS_FILE, np.int64, ndmin=2)


def blocks_of(folder: Path) -> list[Block]:
    """Reads the blocks that the image in `folder` executed during its inference."""
    lines = (folder / BLOCKS_FILE).read_text(encoding="utf-8").splitlines()
    return [Block(*map(int, line.split())) for line in lines]


@functools.cache
def _plugin(api: int) -> Path:
    """The plugin, compiled once per process."""
    folder = Path(tempfile.mkdtemp(prefix="vmcu-plugin-"))
    atexit.register(shutil.rmtree, folder, ignore_errors=True)
    library = folder / "libcount.so"
    flags = ["-std=gnu99", "-O2", "-Wall", "-Wextra", "-Werror", "-shared", "-fPIC"]
    command = [NATIVE.tool("gcc"), *flags, f"-DAPI_VERSION={api}", str(SOURCE), "-o", str(library)]
    done = subprocess.run(command, capture_output=True, encoding="utf-8", check=False)
    if done.returncode != 0:
        raise RunnerError(f"the counting plugin does not compile\n{done.stderr}")
    return library
