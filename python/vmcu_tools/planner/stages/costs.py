# SPDX-License-Identifier: Apache-2.0
"""Estimates the cycles of stages and tiles."""

from __future__ import annotations

import functools
from collections.abc import Sequence
from dataclasses import replace
from typing import Any

from ...boards.flash import Flash
from ...ops import Layer
from ...plan.plan import Plan
from ...plan.weights import constant_bytes
from ..places.widen import widened

# Cycles of the executor for each call of a kernel: in a fused stage, and in a layer alone.
FUSED_CALL, ROW_CALL = 190, 45
# Without a limit, a plan is taken instead of the smallest one if it needs at most so many times its
# bytes and its cycles.
MORE_BYTES, FEWER_CYCLES = 1.15, 0.9
# Bytes that a plan may have besides if constants are read from a serial flash.
FLASH_BYTES = 8192

# How many percent more cycles the default spends for a percent of RAM.
RAM_WEIGHT = 1.5


def trade_off(pool_bytes: float, cycles: float) -> float:
    """The product of bytes and cycles that the default planner minimises."""
    return float(pool_bytes**RAM_WEIGHT * cycles)


def bytes_of_trade_off(product: float, cycles: float) -> float:
    """The bytes that give this product with so many cycles."""
    return float((product / cycles) ** (1 / RAM_WEIGHT))


def cycles_of(plan: Plan) -> list[int]:
    """Cycles of each step, on a Cortex-M4 without wait states, those of the executor included."""
    cycles = []
    for steps in plan.stages:
        executor = FUSED_CALL if len(steps) > 1 else ROW_CALL
        for layer in (step.bind(plan.graph) for step in steps):
            calls = calls_of(layer)
            cycles.append(round(layer.cycles(calls) + executor * calls))
    return cycles


def fetched_bytes(plan: Plan, cache_bytes: int) -> int:
    """Bytes of constants that an inference reads past a cache of so many bytes. The constants of a
    stage stay in the cache if they fit. Otherwise each call of a layer reads its own, and a kernel
    whose constants do not fit reads them again for each block of pixels."""
    total = 0
    for steps in plan.stages:
        layers = [step.bind(plan.graph) for step in steps]
        sizes = [constant_bytes(plan.graph, layer) for layer in layers]
        if sum(sizes) <= cache_bytes:
            total += sum(sizes)
            continue
        for layer, size in zip(layers, sizes, strict=True):
            blocks = layer.height * layer.blocks(layer.sharing)
            total += size * (calls_of(layer) if size <= cache_bytes else blocks)
    return total


def waits_of(plan: Plan, flash: Flash) -> int:
    """Cycles of an inference in which it waits for constants in serial flash."""
    return -(-fetched_bytes(plan, flash.data_bytes) // flash.granule) * flash.waits


def reread_cycles(layers: Sequence[Layer[Any]], flash: Flash) -> int:
    """Cycles in which a stage reads constants again that its layers alone would read once."""
    sizes = [layer.weight_bytes for layer in layers]
    if len(layers) < 2 or sum(sizes) <= flash.data_bytes:
        return 0
    pairs = zip(layers, sizes, strict=True)
    again = sum(size * (calls_of(one) - 1) for one, size in pairs if size <= flash.data_bytes)
    return -(-again // flash.granule) * flash.waits


def time_of(plan: Plan, flash: Flash | None) -> int:
    """Cycles of an inference whose layers are wide where they find room, with those in which it
    waits for a serial flash."""
    plan = widened(plan)
    return sum(cycles_of(plan)) + (0 if flash is None else waits_of(plan, flash))


def most_bytes(pool_bytes: int, flash: Flash | None) -> int:
    """Bytes that a plan may have instead of the smallest one."""
    return int(MORE_BYTES * pool_bytes) + (0 if flash is None else FLASH_BYTES)


def preferred(plans: Sequence[Plan], ram: int | None, flash: Flash | None) -> Plan:
    """Returns the fastest of the plans that fit into `ram` bytes, the smallest if none does. None:
    the smallest plan, unless another is a bargain. A plan may be the choice among others."""
    smallest = min(plans, key=lambda plan: (plan.pool_bytes, plan.macs_extra))
    least = min(plan.smallest or plan.pool_bytes for plan in plans)
    most = most_bytes(least, flash) if ram is None else ram
    within = [plan for plan in plans if plan.pool_bytes <= most]
    if within in ([], [smallest]):
        return smallest
    timed = [(plan.macs_extra, time_of(plan, flash), plan.pool_bytes, plan) for plan in within]
    _, time, _, fastest = min(timed, key=lambda one: one[:3])
    if ram is None and time > FEWER_CYCLES * time_of(smallest, flash):
        return smallest
    return fastest if fastest.pool_bytes == least else replace(fastest, smallest=least)


def calls_of(layer: Layer[Any]) -> int:
    """The number of calls of a layer."""
    return layer.height * -(-layer.width // layer.columns)


@functools.lru_cache(maxsize=1 << 14)
def extra_cost(layer: Layer[Any]) -> int:
    """Cycles that a layer in tiles costs more than in rows, by estimate."""
    calls, cost = calls_of(layer) - layer.height, layer.cost
    wasted = idle(layer, layer.columns) - idle(layer, layer.width)
    per_mac = cost.per_idle * wasted + cost.per_mac
    return round(layer.target.costs.layer + calls * cost.per_call + per_mac * layer.macs)


def idle(layer: Layer[Any], columns: int) -> float:
    """The work that a kernel with blocks of columns wastes in calls of so many columns, as a part
    of the useful work."""
    return layer.blocks(layer.block, columns) * layer.block / layer.width - 1
