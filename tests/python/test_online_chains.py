# SPDX-License-Identifier: Apache-2.0
"""Plans in segments of chains are the smallest that there are: no other places, of all, fit into a
byte less."""

from __future__ import annotations

import ctypes
from collections.abc import Iterator

import numpy as np
import online_device as device
from drawn import some
from hypothesis import assume, given
from hypothesis import strategies as st
from random_builder import Builder
from random_graphs import convolution, depthwise_of
from vmcu_tools import container
from vmcu_tools.container.online import Entry, Online
from vmcu_tools.emit.model import write_tables
from vmcu_tools.graph import Graph, Window
from vmcu_tools.machine.mcu import VirtualMcu
from vmcu_tools.planner.options import CompileOptions
from vmcu_tools.planner.registry import make_plan

MOST_BYTES = 400


def chain(seed: int, layers: int) -> Graph:
    """Layers that each read what the one before has made, in tensors of up to MOST_BYTES."""
    b = Builder(np.random.default_rng(seed))
    x = b.input((b.pick(2, 5, 7), b.pick(1, 3, 6), b.pick(1, 2, 5)))
    while len(b.nodes) < layers:
        window, height, width = b.window(x.shape)
        kind = b.pick(0, 1, 2)
        channels = b.pick(*(n for n in (1, 2, 3, 5, 8, 16) if n * height * width <= MOST_BYTES))
        if kind == 0:
            x = depthwise_of(b, x, window, height, width, 1)
        elif kind == 1:
            x = convolution(b, x, window, height, width, channels)
        elif 8 * x.shape[0] * x.shape[1] <= MOST_BYTES:
            x = convolution(b, x, Window(), *x.shape[:2], b.pick(1, 4, 8))
    return b.graph([x.name])


def ways(online: Online, layer: int) -> Iterator[tuple[int, int]]:
    """Of each direction, the distances of input from output in between which a layer is wrong."""
    step: Entry = online.steps[layer]
    apart = online.distances[step["distance"]]
    yield apart["above"], apart["below"]
    if step["descends"]:
        yield apart["above_descending"], apart["below_descending"]


def has_room(pool: int, scratch: int, pieces: list[tuple[int, int]]) -> bool:
    """Whether scratch, at a multiple of 4, lies beside tensors at (start, size)."""
    return any(
        all(at + scratch <= start or start + size <= at for start, size in pieces)
        for at in range(0, pool - scratch + 1, 4)
    )


def fits(pool: int, sizes: list[int], online: Online) -> bool:
    """Whether any bases of a chain's tensors let each layer run: every one is tried."""
    if max(sizes) > pool:
        return False
    possible = set(range(pool - sizes[0] + 1))
    for layer, size in enumerate(sizes[1:]):
        scratch, before = online.steps[layer]["scratch"], sizes[layer]
        safe = {
            distance
            for above, below in ways(online, layer)
            for distance in range(-pool, pool + 1)
            if distance <= above or distance >= below
        }
        possible = {
            base
            for base in range(pool - size + 1)
            if any(
                at - base in safe
                and (scratch == 0 or has_room(pool, scratch, [(base, size), (at, before)]))
                for at in possible
            )
        }
    return bool(possible)


@given(st.integers(0, 1 << 32), st.integers(1, 5))
@some()
def test_no_chain_fits_into_less(loader: ctypes.CDLL, seed: int, layers: int) -> None:
    plan = make_plan(chain(seed, layers), CompileOptions(online=True), prove=False)
    online = container.online_of(plan)
    image = container.of_tables(write_tables(plan, "m").files, "m", online)
    made = device.load(loader, image, device.SEGMENTS)
    # A chain in thousands gets stuck on its way, and has the greedy plan, as the answer says.
    assert made.result >= 0, made.refusal
    assume(made.result == 0)
    found = device.plan_of(made, plan)
    VirtualMcu(found).prove()
    sizes = [tensor.bytes for tensor in plan.graph.tensors.values()]
    assert fits(made.pool_bytes, sizes, online)
    assert not fits(made.pool_bytes - 1, sizes, online)
