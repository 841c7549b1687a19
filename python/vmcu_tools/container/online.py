# SPDX-License-Identifier: Apache-2.0
"""The data of a container for planners on the device: of each layer its scratch, and how near
its output may come to its inputs."""

from __future__ import annotations

import struct
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from ..errors import Problem, UserError
from ..ops import Layer, bind
from ..ops.values import CStruct
from ..plan.plan import Plan, pool_scratch
from ..planner.places.overlap import Clearance, clearance
from .layout import DISTANCE, FORMATS, ONLINE, ONLINE_AT, STEP

Entry = dict[str, int]


@dataclass(frozen=True)
class Online:
    """Entries of the tables, members by name: steps by layer, distances by input of each layer."""

    steps: tuple[Entry, ...]
    distances: tuple[Entry, ...]


def online_of(plan: Plan) -> Online:
    """Collects the data from a plan of layers one by one. Raises UserError for another."""
    together = any(len(steps) > 1 or steps[0].columns is not None for steps in plan.stages)
    if together or plan.input_streamed or plan.rotation is not None:
        remedy = "build it with --online, without --stream-input and --rotate"
        raise UserError(Problem("devices plan layers one by one, with whole tensors", remedy))
    steps: list[Entry] = []
    distances: list[Entry] = []
    for step in plan.steps:
        ways = [bind(plan.graph, step.node)]
        ways += [bind(plan.graph, step.node, True)] if ways[0].can_descend else []
        scratch = pool_scratch(step.bind(plan.graph))
        entry = {"scratch": scratch, "distance": len(distances), "descends": len(ways) - 1}
        steps.append({**entry, "reserved": 0})
        for tensor in step.node.inputs:
            up, down = (_safe(way, tensor) for way in (ways[0], ways[-1]))
            distances.append(
                {
                    "below": up.below,
                    "below_descending": down.below,
                    "above": up.above,
                    "above_descending": down.above,
                }
            )
    return Online(tuple(steps), tuple(distances))


def _safe(layer: Layer[Any], tensor: str) -> Clearance:
    """The distances that are safe between the output and a tensor, which may be several inputs."""
    safe = [clearance(layer, n) for n, name in enumerate(layer.node.inputs) if name == tensor]
    return Clearance(max(one.below for one in safe), min(one.above for one in safe))


def packed(image: bytearray, online: Online) -> None:
    """Puts the tables behind the rest of a container, with their offsets."""
    places = []
    for kind, entries in ((STEP, online.steps), (DISTANCE, online.distances)):
        image += bytes(-len(image) % 8)
        places.append(len(image))
        for entry in entries:
            image += struct.pack(_form(kind), *(entry[label] for label in kind.members))
    struct.pack_into(_form(ONLINE), image, ONLINE_AT, *places, len(online.distances))


def unpacked(image: bytes, layers: int) -> Online | None:
    """Reads the tables of packed(), None if a container says that it has none. Raises
    struct.error for tables that are not within it."""
    steps, distances, count = struct.unpack_from(_form(ONLINE), image, ONLINE_AT)
    if steps == 0:
        return None
    return Online(_entries(image, STEP, steps, layers), _entries(image, DISTANCE, distances, count))


def _entries(image: bytes, kind: CStruct, at: int, count: int) -> tuple[Entry, ...]:
    if at + count * kind.size > len(image):
        raise struct.error(f"{count} entries of {kind.name} at {at}")
    rows = (struct.unpack_from(_form(kind), image, at + kind.size * n) for n in range(count))
    return tuple(dict(zip(kind.members, values, strict=True)) for values in rows)


def _form(kind: CStruct) -> str:
    """A struct without padding as Python's struct has it."""
    codes: Sequence[str] = [
        "I" if member.pointer else FORMATS[member.kind][1:] for member in kind.members.values()
    ]
    return "<" + "".join(codes)
