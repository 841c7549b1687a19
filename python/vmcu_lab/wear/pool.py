# SPDX-License-Identifier: Apache-2.0
"""Writes to each byte of a model's pool, from the virtual MCU, and the effect of rotating the
pool."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from vmcu_tools.graph import Tensor
from vmcu_tools.machine.events import Event
from vmcu_tools.machine.mcu import VirtualMcu
from vmcu_tools.machine.rotation import RotatedMcu
from vmcu_tools.ops import Layer
from vmcu_tools.plan.plan import PROGRESS_BYTES, SCRATCH_ALIGN, Plan
from vmcu_tools.plan.rotation import rotation_step

SECONDS_PER_YEAR = 365.25 * 24 * 3600


@dataclass(frozen=True)
class Wear:
    """Writes after a number of inferences. The ideal maximum is the mean."""

    max_writes: int
    max_writes_over_ideal: float
    relative_std: float


@dataclass(frozen=True, eq=False)
class PoolWear:
    """A model's pool with its origin fixed, and moved by `step` bytes after each inference.

    per_inference: int64 (pool_bytes), writes of one. origins: how many the walk visits in a lap.
    """

    pool_bytes: int
    per_inference: np.ndarray
    after_rotation: np.ndarray
    inferences: int
    step: int
    origins: int
    fixed: Wear
    rotated: Wear


class _WriteCounter(VirtualMcu):
    """A virtual MCU that counts the writes to each byte."""

    def __init__(self, plan: Plan):
        super().__init__(plan)
        self.writes = np.zeros(self.size, np.int64)

    def _write(
        self,
        tensor: Tensor,
        y: int,
        part: tuple[int, int],
        times: np.ndarray | int,
        values: np.ndarray | None,
        who: str,
    ) -> None:
        super()._write(tensor, y, part, times, values, who)
        self.writes[self._where(tensor, y, *part)] += 1

    def _compute(
        self,
        event: Event,
        layer: Layer[Any],
        seen: dict[str, np.ndarray],
        produced: dict[str, np.ndarray] | None,
    ) -> None:
        super()._compute(event, layer, seen, produced)
        assert event.step is not None
        scratch = event.step.scratch
        self.writes[scratch : scratch + event.step.scratch_bytes] += 1
        # Of a call that the end of a ring divides, the first part alone is counted.
        if not event.whole and event.x % layer.columns == 0:
            index = self.plan.stages[event.stage].index(event.step)
            progress = self.plan.progress[event.stage] + PROGRESS_BYTES * index
            self.writes[progress : progress + PROGRESS_BYTES] += 1


class _RotatedWriteCounter(_WriteCounter, RotatedMcu):
    """The same for a plan that rotates, its origin at the pool's start."""


def writes_of_inference(plan: Plan) -> np.ndarray:
    """Writes to each byte of the pool in one inference on the virtual MCU: int64 (pool_bytes). By
    the input, the layers' outputs, and once for each call the scratch and progress of the layer
    called."""
    machine = _WriteCounter(plan) if plan.rotation is None else _RotatedWriteCounter(plan)
    machine.prove()
    return folded(machine.writes, plan)


def folded(writes: np.ndarray, plan: Plan) -> np.ndarray:
    """Writes to the bytes of a plan's circle, those to its overhang included: (pool_bytes)."""
    circle = writes[: plan.pool_bytes].copy()
    circle[: writes.size - plan.pool_bytes] += writes[plan.pool_bytes :]
    return circle


def rotated_writes(per_inference: np.ndarray, step: int, inferences: int) -> np.ndarray:
    """Writes to each byte after so many inferences, the i-th with its origin at i * step."""
    size = per_inference.size
    origins = size // math.gcd(step, size)
    laps, rest = divmod(inferences, origins)
    visited = np.zeros(size)
    visited[np.arange(rest, dtype=np.int64) * step % size] = 1
    partial = np.fft.irfft(np.fft.rfft(visited) * np.fft.rfft(per_inference), size)
    unit = size // origins
    lap = np.tile(per_inference.reshape(-1, unit).sum(0), origins)
    return laps * lap + np.rint(partial).astype(np.int64)


def lifetime(per_inference: np.ndarray, step: int, endurance: int) -> int:
    """Inferences until a byte has been written `endurance` times; step 0: a fixed origin."""
    if step == 0:
        return endurance // int(per_inference.max())
    size = per_inference.size
    origins = size // math.gcd(step, size)
    lap = int(per_inference.reshape(-1, size // origins).sum(0).max())
    low = endurance // lap * origins
    high = low + origins
    while high - low > 1:
        middle = (low + high) // 2
        if rotated_writes(per_inference, step, middle).max() <= endurance:
            low = middle
        else:
            high = middle
    return low


def _wear(writes: np.ndarray) -> Wear:
    mean = float(writes.mean())
    return Wear(
        max_writes=int(writes.max()),
        max_writes_over_ideal=float(writes.max() / mean),
        relative_std=float(writes.std() / mean),
    )


def wear(writes: np.ndarray, inferences: int, align: int = SCRATCH_ALIGN) -> PoolWear:
    """The wear of a pool. writes: int64 (pool_bytes), of one inference."""
    step, origins = rotation_step(writes.size, align)
    after = rotated_writes(writes, step, inferences)
    return PoolWear(
        pool_bytes=writes.size,
        per_inference=writes,
        after_rotation=after,
        inferences=inferences,
        step=step,
        origins=origins,
        fixed=_wear(writes * inferences),
        rotated=_wear(after),
    )


def strips(result: PoolWear) -> Sequence[tuple[str, np.ndarray]]:
    """Returns the strips of a picture: writes by byte, fixed and rotated."""
    return (
        ("origin fixed", result.per_inference * result.inferences),
        ("origin rotated", result.after_rotation),
    )
