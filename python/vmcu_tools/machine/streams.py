# SPDX-License-Identifier: Apache-2.0
"""The proof of an unbounded stage, besides the replay of its hops.

A replay ends after some hops, a stream does not. That it goes on as it began follows from four
things, which are checked here: every hop makes the same calls; a layer begins to count its calls
anew only where all rings that it touches are as they were when it had made as many; a ring that
holds rows from one hop to the next shares no byte with a ring of another length; and the replay is
long enough for each layer to have begun anew. Each ring by itself then has been seen in all of its
positions, and no two of them meet.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any

import numpy as np

from ..ops import Layer
from ..plan.plan import MOST_CALLS, Placement, Plan
from ..plan.schedule import Call
from .tables import Address, Objects, expect


def stream_of(objects: Objects, name: str, model: dict[str, Any]) -> dict[str, Any] | None:
    """The struct vmcu_stream of model `name`; None if it has none."""
    value = model.get("stream")
    if value is None:
        return None
    stream = objects.values.get(f"{name}_stream")
    known = value == Address(f"{name}_stream") and isinstance(stream, dict)
    expect(known, f"what it keeps is in '{value}'")
    assert isinstance(stream, dict)
    return stream


def saved(stream: dict[str, Any] | None, pool: int) -> tuple[int, int] | None:
    """Returns the saved part of a pool of so many bytes: its start and its size; None of no
    stream."""
    if stream is None:
        return None
    at, size = stream.get("state", 0), stream.get("state_bytes", 0)
    expect(at + size <= pool, "more is saved than the pool has")
    return at, size


def check_turns(
    objects: Objects, name: str, stream: dict[str, Any], plan: Plan, layers: Sequence[Layer[Any]]
) -> None:
    """Counts start over where rings do, and the replay has seen it."""
    ends, starts = (_counts(objects, name, stream, member) for member in ("calls", "again"))
    expect(len(ends) == len(starts) == len(layers), "counts of calls are missing")
    for number, (layer, *counts) in enumerate(zip(layers, ends, starts, strict=True)):
        (last, rest), (first, more) = (
            divmod(int(count), -(-layer.width // layer.columns)) for count in counts
        )
        rows = last - first
        expect(rows > 0 and rest == more == 0, f"layer {number} starts over within a row")
        reaches = [layer.reach(index) for index in range(len(layer.ins))]
        below = all(first * reach.stride[0] >= reach.before[0] for reach in reaches)
        below = below and first >= layer.startup_rows
        expect(below, f"layer {number} starts over in front of its first row")
        moved = [(layer.out.name, rows * layer.out.row_bytes)]
        for index, tensor in enumerate(layer.ins):
            moved.append((tensor.name, rows * layer.reach(index).stride[0] * tensor.row_bytes))
        around = all(length % plan.placements[one].ring == 0 for one, length in moved)
        expect(around, f"layer {number} starts over where a ring does not")
        expect(last < layer.height, f"layer {number} does not start over in the replay")
    _check_states(stream, plan)
    if plan.graph.state.unbounded_nodes:
        hop = layers[-1].out
        there = plan.placements[hop.name]
        one_place = (there.ring, there.phase) == (hop.row_bytes, 0)
        expect(one_place, "the number of a hop is not where those behind look for it")
    source = plan.graph.tensors[plan.graph.inputs[0].tensor]
    rows, ring = stream.get("rows", 0), plan.placements[source.name].ring
    expect(
        0 < rows < MOST_CALLS and rows * source.row_bytes % ring == 0,
        "rows of the input start over where its ring does not",
    )
    expect(rows < source.shape[0], "rows of the input do not start over in the replay")


def _check_states(stream: dict[str, Any], plan: Plan) -> None:
    """Checks that the layers that keep states come last, each on its own: all of a hop's are
    kept, or none."""
    kept, states = plan.graph.stored_states.values(), stream.get("states", 0)
    stages = plan.stages[max(len(plan.stages) - states, 0) :]
    last = [step.node.outputs[0] for steps in stages for step in steps]
    expect(states == len(last) and set(last) == set(kept), "others than its states are kept last")


def _counts(objects: Objects, name: str, stream: dict[str, Any], member: str) -> np.ndarray:
    """Counts by layer; none where they are not where they should be."""
    label = f"{name}_{member}"
    counts = objects.values.get(label)
    named = stream.get(member) == label and isinstance(counts, np.ndarray)
    return counts if named and isinstance(counts, np.ndarray) else np.zeros(0, np.uint16)


def check_parts(parts: Sequence[dict[str, Any]]) -> None:
    """One part that leads to the first answer, one for each further hop."""
    once = len(parts) == 2 and parts[0].get("times", 0) == 1
    expect(once, "a stream has other parts than its beginning and a hop")


def check_hop(
    plan: Plan, last: Layer[Any], hop: int, made: Call | None, taken: int, first: int
) -> None:
    """At the end of hop number `hop` that row of the stage's `last` layer is the last call, and as
    many rows are taken as a hop has more than at the end of the first, where they were `first`: of
    the window's last rows there may be some that no layer reads."""
    out, source = last.out, plan.graph.tensors[plan.graph.inputs[0].tensor]
    answered = made is not None and made.y == hop and made.x + made.columns == out.shape[1]
    expect(answered, f"hop {hop} ends without its answer")
    within = source.shape[0] - (out.shape[0] - 1 - hop) * plan.graph.state.step_rows
    further = taken - first == hop * plan.graph.state.step_rows
    expect(further and taken <= within, f"hop {hop} takes another number of rows")


def meeting(placements: Sequence[Placement], plan: Plan) -> Iterator[tuple[str, str]]:
    """Yields the pairs of rings, of which the first is of these tensors, that share bytes
    without being the same ring."""
    for one in placements:
        for other in plan.placements.values():
            size = plan.pool_bytes
            near = (other.base - one.base) % size < one.ring or (
                one.base - other.base
            ) % size < other.ring
            if near and (one.base, one.ring) != (other.base, other.ring):
                yield one.tensor, other.tensor
