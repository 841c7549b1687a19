# SPDX-License-Identifier: Apache-2.0
"""The tables of a container whose model keeps rows from one answer to the next."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from ..emit.schedule import TAKE
from ..machine.tables import Address, Objects


@dataclass(frozen=True)
class Hops:
    """Rows of the input up to the first answer, and from each answer to the next; bytes of the pool
    that are saved. streams: the output is a streamed row, not that of a whole window."""

    first: int
    rows: int
    state_bytes: int
    streams: bool


def hops_of(objects: Objects, name: str) -> Hops | None:
    """Reads them from the objects of a container; None if its model keeps no rows."""
    stream, model = objects.values.get(f"{name}_stream"), objects.values.get(f"{name}_model")
    if not isinstance(stream, dict) or not isinstance(model, dict):
        return None
    first, further = (_rows(objects, name, number) for number in (0, 1))
    return Hops(first, further, stream.get("state_bytes", 0), model.get("stage_count") == 1)


def _rows(objects: Objects, name: str, number: int) -> int:
    """Rows of the input that a part of the first stage takes; 0 where there is none."""
    tables = [objects.values.get(f"{name}_{label}") for label in ("stages", "parts", "schedule")]
    stages, parts, schedule = tables
    if not isinstance(stages, list) or not isinstance(parts, list):
        return 0
    at, start = stages[0].get("parts"), stages[0].get("schedule")
    known = isinstance(at, Address) and isinstance(start, Address)
    if not known or not isinstance(schedule, np.ndarray) or at.index + number >= len(parts):
        return 0
    part = parts[at.index + number]
    begin = start.index + part.get("start", 0)
    # Of a model that keeps rows a stage takes whole ones.
    return int(np.count_nonzero(schedule[begin : begin + part.get("length", 0)] == TAKE))
