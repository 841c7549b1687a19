# SPDX-License-Identifier: Apache-2.0
"""The largest values of the members of emitted structs."""

from __future__ import annotations

from typing import Any

from .tables import expect

UINT8, UINT16, UINT32 = 2**8 - 1, 2**16 - 1, 2**32 - 1
LIMITS = {
    "vmcu_model": {
        **dict.fromkeys(("pool_bytes", "circle", "step"), UINT32),
        **{"streamed": 1, "elsewhere": 1, "pool_count": UINT8},
    },
    "vmcu_tensor": {
        **dict.fromkeys(("base", "ring", "phase"), UINT32),
        **dict.fromkeys(("height", "width", "channels"), UINT16),
    },
    "vmcu_layer": {
        **dict.fromkeys(("input_count", "descending", "splits"), UINT8),
        **dict.fromkeys(("output", "rows", "width", "columns"), UINT16),
    },
    "vmcu_stage": {
        "progress": UINT32,
        **dict.fromkeys(("part_count", "first", "count", "taken"), UINT16),
    },
    "vmcu_io": {"tensor": UINT16},
    "vmcu_stream": {
        **dict.fromkeys(("model", "state", "state_bytes"), UINT32),
        **dict.fromkeys(("rows", "states"), UINT16),
    },
    "vmcu_team": {"scratch_bytes": UINT32},
    "vmcu_part": {"start": UINT32, "length": UINT16, "times": UINT16},
}


def check_members(entry: dict[str, Any], kind: str) -> None:
    """The members of a struct are numbers that it can hold."""
    for member, most in LIMITS[kind].items():
        value = entry.get(member, 0)
        fits = isinstance(value, int) and 0 <= value <= most
        expect(fits, f"{kind}.{member} is {value}")
