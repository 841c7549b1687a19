# SPDX-License-Identifier: Apache-2.0
"""The order of access within an output row: how many stores precede the store of each output byte
and the last load of each input byte.

A loop's body loads and stores the same in each turn. So an access in loops is found for all of
their turns at once, and of a loop that its place does not depend on the last turn is enough.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np

from .access import Shape, bound_loops, is_store
from .expr import evaluate
from .ir import Do, Program, Ram, Stmt


@dataclass(frozen=True)
class Ticks:
    """The order of access within an output row. A tick is a store: loads between two stores
    share the tick of the second. reads: by input, (W, C) ticks of the last load of each pixel and
    channel, -1 where there is none; writes: (W, C)."""

    count: int
    reads: dict[int, np.ndarray]
    writes: np.ndarray


@dataclass(frozen=True)
class Turns:
    """A loop around an access: its variable is start + step * turn, and each turn has so many
    stores."""

    var: str
    start: int
    step: int
    turns: int
    stores: int


@dataclass(frozen=True)
class Place:
    """An access in a body: the loops there around it, outermost first, the stores of their first
    turns before it, and the terms of names that no loop changes."""

    ram: Ram
    loops: tuple[Turns, ...]
    stores: int
    names: Mapping[str, int]


def ticks(program: Program, names: Mapping[str, int], shapes: Mapping[int | str, Shape]) -> Ticks:
    """Those of one output row. The rows of a window are read together, so the order within a row of
    output is the same for each of them."""
    last: dict[Any, np.ndarray] = {t: np.full(s[1:], -1, np.int64) for t, s in shapes.items()}
    count, places = _places(program.body, {**names, "y": 0})
    for place in places:
        _touch(place, last[place.ram.tensor])
    writes = last.pop("output")
    return Ticks(count, last, writes)


def _places(body: tuple[Stmt, ...], names: Mapping[str, int]) -> tuple[int, list[Place]]:
    """The stores of a body, and its accesses in order."""
    count, accesses = 0, []
    for stmt in body:
        if isinstance(stmt, Do):
            for operand in stmt.operands:
                if isinstance(operand, Ram):
                    accesses.append(Place(operand, (), count, names))
                    count += is_store(stmt)
        for var, start, step, turns, inner, span in bound_loops(stmt, names):
            if turns <= 0:
                continue
            spans = {name: evaluate(term, names) for name, term in span.items()}
            stores, places = _places(inner, {**names, **spans} if spans else names)
            loop = Turns(var, start, step, turns, stores)
            for place in places:
                loops = (loop, *place.loops)
                accesses.append(Place(place.ram, loops, count + place.stores, place.names))
            count += turns * stores
    return count, accesses


def _touch(place: Place, ticks: np.ndarray) -> None:
    """Notes the last tick of each byte, (W, C), that an access touches."""
    ram, names = place.ram, dict[str, Any](place.names)
    axes = [axis for axis in ram.axes if axis.dimension]
    loops = [loop for loop in place.loops if loop.var in ram.moved_by]
    still = (loop for loop in place.loops if loop.var not in ram.moved_by)
    clock: Any = place.stores + sum((loop.turns - 1) * loop.stores for loop in still)
    rank = len(loops) + len(axes)
    for number, loop in enumerate(loops):
        turns = _along(loop.turns, number, rank)
        names[loop.var] = loop.start + loop.step * turns
        clock = clock + loop.stores * turns
    at: list[Any] = [0, evaluate(ram.pixel, names), evaluate(ram.channel, names)]
    for number, axis in enumerate(axes, len(loops)):
        count, step = evaluate(axis.count, names), evaluate(axis.step, names)
        at[axis.dimension] = at[axis.dimension] + step * _along(count, number, rank)
    _, pixel, channel = at
    width, depth = ticks.shape
    end: Any = depth if ram.limit is None else np.minimum(depth, evaluate(ram.limit, names))
    inside = (pixel >= 0) & (pixel < width) & (channel >= 0) & (channel < end)
    inside, places, clocks = np.broadcast_arrays(inside, pixel * depth + channel, clock)
    places, clocks = places[inside], clocks[inside]
    flat = ticks.reshape(-1)
    # The last touch of a byte that is touched in several turns stays.
    flat[places] = np.maximum(flat[places], clocks)


def _along(count: int, number: int, rank: int) -> np.ndarray:
    """0, 1, ... along one of `rank` dimensions."""
    shape = [1] * rank
    shape[number] = -1
    return np.arange(count).reshape(shape)
