# SPDX-License-Identifier: Apache-2.0
"""Inputs whose next value is an output, at one address.

While the layer that updates an input runs, the input has its bytes for itself, and the layer writes
each byte behind its last read, at distance 0. So its output can have them, if no layer behind it
has placed something there.
"""

from __future__ import annotations

from dataclasses import replace

from ...plan.plan import Plan


def at_one_address(plan: Plan) -> Plan:
    """The plan with each output that updates an input in that input's place."""
    placements = dict(plan.placements)
    for before, after in plan.graph.state.updates:
        where = placements[before]
        placements[after] = replace(placements[after], base=where.base, ring=where.ring, phase=0)
    return replace(plan, placements=placements)
