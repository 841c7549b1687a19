# SPDX-License-Identifier: Apache-2.0
"""Estimates the cycles of stages and tiles."""

from __future__ import annotations

import functools
from typing import Any

from ...ops import Layer

# How many percent more cycles the default spends for a percent of RAM.
RAM_WEIGHT = 1.5


def trade_off(pool_bytes: float, cycles: float) -> float:
    """The product of bytes and cycles that the default planner minimises."""
    return float(pool_bytes**RAM_WEIGHT * cycles)


def bytes_of_trade_off(product: float, cycles: float) -> float:
    """The bytes that give this product with so many cycles."""
    return float((product / cycles) ** (1 / RAM_WEIGHT))


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
    block, (calls, rest) = layer.block, divmod(layer.width, columns)
    blocks = calls * -(-columns // block) + -(-rest // block)
    return blocks * block / layer.width - 1
