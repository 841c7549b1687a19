# SPDX-License-Identifier: Apache-2.0
"""The bytes that each call of a kernel computes, by the reference semantics."""

from __future__ import annotations

import zlib
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from vmcu_tools.machine.events import Event
from vmcu_tools.machine.mcu import VirtualMcu
from vmcu_tools.plan.plan import Plan
from vmcu_tools.planner.stages.unbounded import over_rows


@dataclass(frozen=True, eq=False)
class Computed:
    """One call: the layer's number, and columns [x, x + columns) of row y of its output. `data`:
    their bytes; empty if the layer has no output yet."""

    layer: int
    y: int
    x: int
    data: bytes

    @property
    def digest(self) -> int:
        return zlib.crc32(self.data)


@dataclass(frozen=True, eq=False)
class Expected:
    """All calls of a run, in order. `unknown`: layers whose bytes a probe does not find."""

    calls: tuple[Computed, ...]
    unknown: frozenset[int]

    def digests(self) -> dict[int, int]:
        """The digest of all bytes that a layer computes, by layer."""
        digests: dict[int, int] = {}
        for call in self.calls:
            digests[call.layer] = zlib.crc32(call.data, digests.get(call.layer, 0))
        return digests


def expected_of(plan: Plan, sample: Sequence[np.ndarray]) -> Expected:
    """Runs a sample on the virtual MCU; of a plan with a hop, the rows of a stream."""
    if plan.graph.state.step_rows:
        plan, rows = over_rows(plan, sample[0])
        sample = [rows]
    machine = VirtualMcu(plan)
    values = machine.run(sample)
    numbers = _numbers(plan, machine)
    rows_of = _rows(machine, values)
    calls = []
    unknown = set()
    for event in machine.events:
        if event.step is None or event.layer is None:
            continue
        number, layer = numbers[id(event.step)], event.layer
        # As lib/vmcu/probe.c decides.
        if layer.sums == ((layer.height, layer.width) == layer.out.shape[:2]):
            unknown.add(number)
        calls.append(Computed(number, event.y, event.x, _bytes_of(event, rows_of)))
    return Expected(tuple(calls), frozenset(unknown))


def _bytes_of(event: Event, rows_of: dict[str, np.ndarray]) -> bytes:
    assert event.layer is not None
    layer, values = event.layer, rows_of[event.layer.out.name]
    if not layer.sums:
        return np.asarray(values[event.y, event.x : event.x + event.columns]).tobytes()
    last = event.y == (0 if event.step and event.step.descending else layer.height - 1)
    whole = last and event.x + event.columns == layer.width
    return np.asarray(values[0]).tobytes() if whole else b""


def _numbers(plan: Plan, machine: VirtualMcu) -> dict[int, int]:
    """The layer's number of each replayed step. Steps behind an unbounded stage are replayed as
    copies, one for each hop."""
    stages = machine.played.plan.stages
    behind = len(plan.stages) - 1
    firsts = np.cumsum([0, *(len(stage) for stage in plan.stages)])
    numbers = {}
    for place, stage in enumerate(stages):
        number = place if place == 0 else 1 + (place - 1) % behind
        for position, step in enumerate(stage):
            numbers[id(step)] = int(firsts[number]) + position
    return numbers


def _rows(machine: VirtualMcu, values: dict[str, np.ndarray]) -> dict[str, np.ndarray]:
    """Values by replayed tensor. Those that each hop has are one after the other in `values`."""
    rows = dict(values)
    for name, names in machine.played.hops.items():
        rows |= dict(zip(names, np.split(values[name], len(names)), strict=True))
    return rows
