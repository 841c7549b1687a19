# SPDX-License-Identifier: Apache-2.0
"""The setting of "Improving NVM Lifetime Using Task Stack Migration on Low-End MCU-Based
Devices" (Lee et al., IEEE Access 2022): tasks, cycles, and the figures that need no simulation."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass

import numpy as np

HEAP_BYTES = 12 * 1024
TICK_CYCLES = 20_000
VALID_BYTES = 66
HEADER_BYTES = 8
WORD = 4
THRESHOLDS = (1, 5, 10, 50, 100)
DEPTHS = (1, 2, 3, 4, 5, 6)
STRIDE_SIZES = (200, 400, 600, 800, 1000)
CNN_JOBS = 1_000_000
DSP_TICKS = 1_000_000
# One instruction in ten stores a word on the stack. The paper shows this in pictures only; here it
# weighs the writes of migration itself, and turns shares into lifetimes.
WRITES_PER_TICK = TICK_CYCLES / 10


@dataclass(frozen=True)
class Task:
    """ticks: running time of one job. writes: of one job to each word of the stack, lowest address
    first, where they were measured."""

    name: str
    stack_bytes: int
    ticks: float
    writes: tuple[float, ...] | None = None


# Table 3.
BAYESIAN = Task("Bayesian", 160, 0.22)
CNN = Task("CNN", 1088, 290.0)
CONVOLUTION = Task("Convolution", 300, 3.2)
FFT = Task("FFT", 456, 33.7)
MATRIX = Task("Matrix", 324, 0.57)
SVM = Task("SVM", 156, 0.14)
DSP = (BAYESIAN, CONVOLUTION, FFT, MATRIX, SVM)


@dataclass(frozen=True)
class Cycles:
    """Cost of each operation. Table 4; alloc and free: of a stride and of a stack alike."""

    time_keeping: int = 40
    random: int = 60
    first_search: int = 200
    search: int = 30
    conversion: int = 110
    allocate: int = 110
    free: int = 90
    copy: int = 200
    update: int = 50

    @property
    def stride(self) -> int:
        return self.allocate + self.free

    @property
    def move(self) -> int:
        return self.allocate + self.free + self.copy + self.update

    def worst_case(self, stride_depth: int, depth: int, numbers: int = 1) -> int:
        """Cycles of one tick in which stride and stack both succeed at the last search, and
        `numbers` random numbers are drawn: the paper's O_Total."""
        stride = numbers * self.random + self._searches(stride_depth) + self.stride
        return self.time_keeping + stride + self._searches(depth) + self.move

    def _searches(self, depth: int) -> int:
        return self.first_search + (self.search + self.conversion) * (depth - 1)


CYCLES = Cycles()


def migration_ratio(task: Task, threshold: float) -> float:
    """Migrations of a task for each one of SVM, all running in turn. Table 5."""
    return math.ceil(threshold / SVM.ticks) / math.ceil(threshold / task.ticks)


# The mean of a job's writes over the most written word's. Figure 18 gives it: without migration
# the maximum is 11 x 4 x 1.196 times the ideal one, which is the mean spread over the heap.
MEAN_OVER_MAX = 0.196


def _flat(words: int) -> np.ndarray:
    return np.ones(words)


def _spots(words: int) -> np.ndarray:
    """A twentieth of the words, far apart, from hottest to half as hot; the others even."""
    hot = max(1, round(words / 20))
    shape = np.zeros(words)
    for number in range(hot):
        shape[int((number + 0.5) * words * 0.6180339887) % words] = 1 - number / (2 * hot)
    cold = shape == 0
    shape[cold] = max(0.0, (MEAN_OVER_MAX * words - shape.sum()) / cold.sum())
    return shape


def _band(words: int) -> np.ndarray:
    """A sixth of the words in one piece, near the stack's low end, and little elsewhere."""
    shape = np.full(words, 0.05)
    start, count = words // 5, round(words * (MEAN_OVER_MAX - 0.05) / 0.95)
    shape[start : start + count] = 1
    return shape


def _decay(words: int) -> np.ndarray:
    return np.exp(-np.arange(words) / (words * MEAN_OVER_MAX))


PATTERNS: dict[str, Callable[[int], np.ndarray]] = {
    "spots": _spots,
    "band": _band,
    "decay": _decay,
    "flat": _flat,
}
DEFAULT_PATTERN = "spots"


def writes_of_job(task: Task, pattern: str = DEFAULT_PATTERN) -> np.ndarray:
    """Writes of one job to each word of its stack, lowest address first: (stack_bytes / 4).
    Measured writes go before any pattern."""
    if task.writes is not None:
        return np.array(task.writes)
    shape = PATTERNS[pattern](task.stack_bytes // WORD)
    words: np.ndarray = shape * (task.ticks * WRITES_PER_TICK / shape.sum())
    return words


def total_ticks(tasks: Sequence[Task]) -> float:
    return sum(task.ticks for task in tasks)
