# SPDX-License-Identifier: Apache-2.0
"""Counts the stores of jobs on stacks that move and in a pool that rotates, under Zephyr on an
emulated board, beside the same jobs where nothing moves.

    python benchmarks/endurance/run.py [--jobs 10000] [--board mps2/an385] [--write]

--write puts the board's figures into python/vmcu_lab/wear/supervised.json, where
`vmcu bench --wear` looks up what a job costs besides its inference; tables.py puts them into
doc/endurance.md.
Needs a Zephyr tree (ZEPHYR_BASE, or ~/zephyrproject/zephyr), an Arm compiler and qemu-system-arm.
Every store that the emulated core makes is counted (python/vmcu_bench/runners/plugin), from the
first job to the last: those of inferences, of the kernel and of interrupts.
"""

from __future__ import annotations

import argparse
import json
import re
import subprocess
import sys
import tempfile
from dataclasses import asdict, dataclass
from pathlib import Path

import numpy as np

ROOT = Path(__file__).resolve().parents[2]
sys.path.insert(0, str(ROOT / "python"))

from vmcu_bench.image.elf import Elf, Symbol  # noqa: E402
from vmcu_bench.runners.counting import CountingRunner, Markers, trace_of  # noqa: E402
from vmcu_bench.runners.qemu import BOARDS, RAM_START  # noqa: E402
from vmcu_bench.runners.workspace import board_module, environment, zephyr_base  # noqa: E402
from vmcu_lab.wear.objects import SUPERVISED, PerJob  # noqa: E402
from vmcu_lab.wear.traces import Stored, variables  # noqa: E402

APPLICATION = Path(__file__).parent
# Zephyr's boards, and the emulated ones that they are.
MACHINES = {"mps2/an385": "qemu:m3", "qemu_mps2_m4": "qemu:m4", "qemu_mps2_m7": "qemu:m7"}
RAM_BYTES = 4 << 20
WORD = 4
COUNTED = "endurance_jobs"
# Variables of src/main.c: what moves, and the context, which `vmcu bench --wear` counts itself.
INFERENCE = ("heap_memory", "pool", "ctx")
# What a job writes besides, by what it is; everything else is the kernel's.
ROLES = {
    "z_main_stack": "supervisor's stack",
    "z_interrupt_stacks": "interrupts' stack",
    "worker": "struct vmcu_worker",
    "heap": "struct vmcu_stack_heap",
}


@dataclass(frozen=True)
class Memory:
    """Writes to a piece of memory, of the most written word (byte, for the pool). over_ideal: over
    those of the same writes spread evenly; over_mean: over the mean of all of the memory."""

    bytes: int
    writes: int
    max_writes: int
    over_ideal: float
    over_mean: float


@dataclass(frozen=True)
class Figures:
    """target: the board's core, as `vmcu bench --wear --on` has it. stack_bytes: from the lowest
    that a job writes to the highest. context_writes: to its most written byte, where everything
    moves. per_job: what else is written there, the most written byte of each, a job."""

    target: str
    jobs: int
    wrong: int
    instructions_staying: int
    instructions_moving: int
    added: float
    stack_bytes: int
    stack_staying: Memory
    stack_moving: Memory
    pool_staying: Memory
    pool_moving: Memory
    context_writes: float
    per_job: list[PerJob]


@dataclass(frozen=True, eq=False)
class Run:
    """stores: int64, by byte of RAM."""

    wrong: int
    instructions: int
    stores: np.ndarray
    elf: Elf

    def symbol(self, name: str) -> Symbol:
        found = self.elf.find(name)
        assert found is not None, f"the image has no {name}"
        return found

    def of(self, name: str) -> np.ndarray:
        """Stores to each byte of a variable."""
        symbol = self.symbol(name)
        start = symbol.address - RAM_START
        return self.stores[start : start + symbol.size]


def build(board: str, jobs: int, moving: bool, folder: Path) -> Path:
    zephyr = zephyr_base()
    variables = environment(zephyr)
    variables["PATH"] = f"{Path(sys.executable).parent}:{variables['PATH']}"
    options = {
        "BOARD": board,
        "JOBS": jobs,
        "EXTRA_ZEPHYR_MODULES": f"{ROOT};{board_module(zephyr)}",
        **({"EXTRA_CONF_FILE": "moving.conf"} if moving else {}),
    }
    defines = [f"-D{name}={value}" for name, value in options.items()]
    for command in (
        ["cmake", "-GNinja", "-S", str(APPLICATION), "-B", str(folder), *defines],
        ["ninja", "-C", str(folder)],
    ):
        done = subprocess.run(command, env=variables, capture_output=True, text=True, check=False)
        if done.returncode != 0:
            sys.exit(f"{command[0]} failed\n{done.stdout}{done.stderr}")
    return folder / "zephyr" / "zephyr.elf"


def count(board: str, jobs: int, moving: bool, seconds: float) -> Run:
    with tempfile.TemporaryDirectory(prefix="vmcu-") as text:
        folder = Path(text)
        image = build(board, jobs, moving, folder)
        elf = Elf(image)
        entry = elf.find(COUNTED)
        assert entry is not None
        machine = next(one for one in BOARDS if one.name == MACHINES[board])
        markers = Markers((entry.address & ~1,), trace_bytes=RAM_BYTES)
        target = CountingRunner.of(machine, markers)
        printed, counts = target.count(folder, lambda one: start(one, image, folder, seconds))
        found = re.search(rf"{jobs} jobs, wrong: (-?\d+)", printed)
        if found is None:
            sys.exit(f"{image.name} did not end as it should\n{printed}")
        return Run(int(found[1]), counts[0].instructions, trace_of(folder, RAM_BYTES), elf)


def start(target: CountingRunner, image: Path, folder: Path, seconds: float) -> str:
    """The image's console. Time is a count of instructions, so that every run is the same."""
    command = target.command(image)
    command[command.index("-serial") + 1] = "stdio"
    command += ["-icount", "shift=6,align=off,sleep=off", "-rtc", "clock=vm"]
    done = subprocess.run(
        command,
        cwd=folder,
        stdin=subprocess.DEVNULL,
        capture_output=True,
        text=True,
        errors="replace",
        timeout=seconds,
        check=False,
    )
    return done.stdout + done.stderr


def by_word(stores: np.ndarray) -> np.ndarray:
    """Stores to each word: as many as to its most written byte."""
    return stores[: stores.size // WORD * WORD].reshape(-1, WORD).max(1)


def memory(writes: np.ndarray, unit: int, ideal: float) -> Memory:
    most = int(writes.max())
    return Memory(
        bytes=writes.size * unit,
        writes=int(writes.sum()),
        max_writes=most,
        over_ideal=most / ideal,
        over_mean=most / float(writes.mean()),
    )


def per_job(run: Run, jobs: int) -> list[PerJob]:
    """What is written besides the inference, most first. Kernel objects of less than a write a job
    are one."""
    found, seldom = [], []
    for one in variables(run.stores, run.elf, [run.symbol(name) for name in INFERENCE]):
        if one.name in ROLES:
            found.append(PerJob(ROLES[one.name], one.bytes, one.stores / jobs))
        elif one.stores >= jobs:
            found.append(PerJob(f"kernel's {one.name}", one.bytes, one.stores / jobs))
        else:
            seldom.append(one)
    if seldom:
        found.append(together(seldom, jobs))
    return sorted(found, key=lambda one: -one.writes)


def together(parts: list[Stored], jobs: int) -> PerJob:
    most = max(one.stores for one in parts)
    return PerJob("kernel's others", sum(one.bytes for one in parts), most / jobs)


def figures(board: str, jobs: int, staying: Run, moving: Run) -> Figures:
    still, moved = by_word(staying.of("z_main_stack")), by_word(moving.of("heap_memory"))
    # From the lowest to the highest word; what is written less often is not a job's.
    used = np.flatnonzero(still >= jobs)
    words = int(used[-1] - used[0] + 1)
    # Each job at one of all places a word apart, all equally often, as doc/endurance.md has it.
    ideal = moved.sum() / (moved.size - words + 1)
    pools = staying.of("pool"), moving.of("pool")
    even = pools[0].sum() / pools[0].size
    return Figures(
        target=MACHINES[board],
        jobs=jobs,
        wrong=staying.wrong + moving.wrong,
        instructions_staying=staying.instructions,
        instructions_moving=moving.instructions,
        added=moving.instructions / staying.instructions - 1,
        stack_bytes=words * WORD,
        stack_staying=memory(still, WORD, ideal),
        stack_moving=memory(moved, WORD, ideal),
        pool_staying=memory(pools[0], 1, even),
        pool_moving=memory(pools[1], 1, even),
        context_writes=float(moving.of("ctx").max()) / jobs,
        per_job=per_job(moving, jobs),
    )


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.split("\n\n")[0])
    parser.add_argument("--jobs", type=int, default=10_000)
    parser.add_argument("--board", choices=MACHINES, default="mps2/an385")
    parser.add_argument("--seconds", type=float, default=3600.0, help="that a run may take")
    parser.add_argument("--write", action="store_true", help=f"into {SUPERVISED.name}")
    args = parser.parse_args()
    runs = [count(args.board, args.jobs, moving, args.seconds) for moving in (False, True)]
    found = figures(args.board, args.jobs, *runs)
    print(f"{found.jobs:,} jobs on {args.board}, wrong: {found.wrong}")
    print(f"instructions added: {100 * found.added:.3f} % of {found.instructions_staying:,}")
    print(f"a job takes {found.stack_bytes:,} bytes of stack")
    for name in ("stack_staying", "stack_moving", "pool_staying", "pool_moving"):
        one: Memory = getattr(found, name)
        print(
            f"{name.replace('_', ', ')}: {one.bytes:,} bytes, at most {one.max_writes:,} writes, "
            f"{one.over_ideal:.3f} of ideal, {one.over_mean:.3f} of the mean"
        )
    print(f"context: at most {found.context_writes:.2f} writes a job")
    for entry in found.per_job:
        print(f"{entry.name}: {entry.bytes:,} bytes, at most {entry.writes:.2f} writes a job")
    if args.write:
        boards = json.loads(SUPERVISED.read_text()) if SUPERVISED.exists() else {}
        boards[args.board] = asdict(found)
        SUPERVISED.write_text(json.dumps(boards, indent=2, sort_keys=True) + "\n")


if __name__ == "__main__":
    main()
