# SPDX-License-Identifier: Apache-2.0
"""The simulation of stack_heap.c, which runs lib/vmcu/endurance, and the writes that its counts
of jobs mean."""

from __future__ import annotations

import ctypes
import functools
import math
import os
import subprocess
import tempfile
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, replace
from pathlib import Path

import numpy as np
from vmcu_bench.runners.compiled import find_program
from vmcu_tools import paths
from vmcu_tools.errors import Problem, UserError

from .tasks import (
    CYCLES,
    DEFAULT_PATTERN,
    HEADER_BYTES,
    HEAP_BYTES,
    TICK_CYCLES,
    VALID_BYTES,
    WORD,
    Task,
    total_ticks,
    writes_of_job,
)

SOURCE = Path(__file__).parent / "stack_heap.c"
POLICIES = ("stay", "circular", "walk")
FITS = ("first", "largest")
SEED = 0x9E3779B97F4A7C15


@dataclass(frozen=True)
class Setting:
    """The rules by which stacks move.

    policy: "stay", "circular" (the paper's) or "walk" (each task visits all aligned places of the
    heap in turn). threshold: ticks a task runs before it may move. stride_depth, depth: searches
    at most, for the stride and for the stack. stride_size: bytes at most; 0: no strides.
    fit: which free block is taken; merge: freed neighbours become one before they are converted;
    redraw: each search for a stride draws a new size. align: bytes between places.
    """

    policy: str = "circular"
    threshold: float = 1.0
    stride_depth: int = 2
    depth: int = 1
    stride_size: int = 1000
    fit: str = "largest"
    merge: bool = True
    redraw: bool = True
    align: int = WORD
    heap_bytes: int = HEAP_BYTES
    seed: int = SEED


class _CSetting(ctypes.Structure):
    _fields_ = [
        *(
            (name, ctypes.c_int32)
            for name in (
                *("policy", "fit", "merge", "redraw", "heap", "header", "align"),
                *("stride_depth", "depth", "stride_size", "tasks", "rounds"),
                *("random", "first", "search", "convert", "stride", "move"),
            )
        ),
        ("seed", ctypes.c_uint64),
    ]


class _CTally(ctypes.Structure):
    _fields_ = [
        (name, ctypes.c_int64)
        for name in (
            *("attempts", "moves", "stride_attempts", "strides"),
            *("conversions", "cycles", "worst"),
        )
    ]


@dataclass(frozen=True, eq=False)
class Run:
    """Counts of a simulation. jobs, arrivals: int32 (tasks, heap words), jobs by the word where
    the task's stack began, and moves by the word where they ended; headers: int32 (heap words).
    worst_cycles: of one migration, without time keeping."""

    setting: Setting
    tasks: tuple[Task, ...]
    rounds: int
    jobs: np.ndarray
    arrivals: np.ndarray
    headers: np.ndarray
    attempts: int
    moves: int
    stride_attempts: int
    strides: int
    conversions: int
    cycles: int
    worst_cycles: int

    @property
    def success_rate(self) -> float:
        return self.moves / self.attempts if self.attempts else 0.0

    @property
    def stride_success_rate(self) -> float:
        return self.strides / self.stride_attempts if self.stride_attempts else 0.0

    @property
    def overhead_per_tick(self) -> float:
        """Cycles for migration over all cycles, a fraction."""
        ticks = self.rounds * total_ticks(self.tasks)
        return (CYCLES.time_keeping + self.cycles / ticks) / TICK_CYCLES

    def writes(self, pattern: str = DEFAULT_PATTERN) -> np.ndarray:
        """Writes to each word of the heap, those of migration included: float64 (heap words)."""
        return _writes(self, pattern)

    def ideal(self, pattern: str = DEFAULT_PATTERN) -> np.ndarray:
        """The writes of as many jobs, spread evenly over all places 4 bytes apart."""
        return _ideal(self.tasks, self.headers.size, self.rounds, pattern)

    def over_ideal(self, pattern: str = DEFAULT_PATTERN) -> float:
        """The most written word's writes over the ideal's most written word's."""
        return float(self.writes(pattern).max() / self.ideal(pattern).max())

    def relative_std(self, pattern: str = DEFAULT_PATTERN) -> float:
        writes = self.writes(pattern)
        return float(writes.std() / writes.mean())


# Figures of a run ask for the same writes several times, one run after the other.
@functools.lru_cache(maxsize=8)
def _writes(run: Run, pattern: str) -> np.ndarray:
    words = run.headers.size
    total = np.zeros(words)
    for task, jobs, arrivals in zip(run.tasks, run.jobs, run.arrivals, strict=True):
        job = writes_of_job(task, pattern)
        copied = np.zeros(job.size)
        copied[job.size - math.ceil(VALID_BYTES / WORD) :] = 1
        total += np.convolve(jobs, job)[:words] + np.convolve(arrivals, copied)[:words]
    if run.setting.policy == "circular":
        total += np.convolve(run.headers, np.ones(HEADER_BYTES // WORD))[:words]
    total.flags.writeable = False
    return total


@functools.lru_cache(maxsize=64)
def _ideal(tasks: tuple[Task, ...], words: int, rounds: int, pattern: str) -> np.ndarray:
    total = np.zeros(words)
    for task in tasks:
        job = writes_of_job(task, pattern)
        places = words - job.size + 1
        total += np.convolve(np.full(places, rounds / places), job)
    total.flags.writeable = False
    return total


def arguments() -> list[str]:
    """Lists gcc's arguments: the simulation, and the allocator, which is the device's."""
    runtime = paths.runtime()
    sources = (SOURCE, *sorted((runtime / "endurance").glob("*.c")))
    return [f"-I{runtime / 'include'}", *map(str, sources)]


@functools.cache
def _library() -> ctypes.CDLL:
    gcc = find_program("gcc", "gcc")
    with tempfile.TemporaryDirectory(prefix="vmcu-") as folder:
        made = Path(folder) / "stack_heap.so"
        command = [gcc, "-std=c99", "-O2", "-shared", "-fPIC", *arguments(), "-o", str(made)]
        done = subprocess.run(command, capture_output=True, encoding="utf-8", check=False)
        if done.returncode != 0:
            raise UserError(
                Problem(f"gcc failed: {done.stderr}", "install gcc's C library", str(SOURCE))
            )
        return ctypes.CDLL(str(made))


def simulate(setting: Setting, tasks: Sequence[Task], rounds: int) -> Run:
    """Runs `rounds` jobs of each task, in turn. UserError where the stacks do not fit."""
    words = setting.heap_bytes // WORD
    jobs = np.zeros((len(tasks), words), np.int32)
    arrivals, headers = np.zeros_like(jobs), np.zeros(words, np.int32)
    tally = _CTally()
    given = _CSetting(
        policy=POLICIES.index(setting.policy),
        fit=FITS.index(setting.fit),
        merge=setting.merge,
        redraw=setting.redraw,
        heap=setting.heap_bytes,
        header=HEADER_BYTES,
        align=setting.align,
        stride_depth=setting.stride_depth,
        depth=setting.depth,
        stride_size=setting.stride_size,
        tasks=len(tasks),
        rounds=rounds,
        random=CYCLES.random,
        first=CYCLES.first_search,
        search=CYCLES.search,
        convert=CYCLES.conversion,
        stride=CYCLES.stride,
        move=CYCLES.move,
        seed=setting.seed,
    )
    stacks = np.array([task.stack_bytes for task in tasks], np.int32)
    ticks = np.array([task.ticks for task in tasks], np.float64)
    code = _library().wear_run(
        ctypes.byref(given),
        stacks.ctypes,
        ticks.ctypes,
        ctypes.c_double(setting.threshold),
        jobs.ctypes,
        arrivals.ctypes,
        headers.ctypes,
        ctypes.byref(tally),
    )
    if code == -2:
        raise ValueError(f"{setting.heap_bytes} bytes or {len(tasks)} tasks: too many to simulate")
    if code != 0:
        reason = f"a stack heap of {setting.heap_bytes} bytes does not hold {len(tasks)} stacks"
        raise UserError(Problem(reason, "give it more"))
    counts = (getattr(tally, name) for name, *_ in _CTally._fields_)
    return Run(setting, tuple(tasks), rounds, jobs, arrivals, headers, *counts)


def simulate_all(settings: Sequence[Setting], tasks: Sequence[Task], rounds: int) -> list[Run]:
    """One run for each setting, in order, on all processors."""
    if settings:
        _library()
    with ThreadPoolExecutor(os.cpu_count()) as pool:
        return list(pool.map(lambda setting: simulate(setting, tasks, rounds), settings))


def seeded(setting: Setting, seed: int) -> Setting:
    """The setting with other random numbers; the generator must not start at 0."""
    return replace(setting, seed=(SEED + 2 * seed) % (1 << 64) or 1)
