# SPDX-License-Identifier: Apache-2.0
"""Cycles of layers by estimate, from the costs of a target that planners weigh; `vmcu bench` counts
them."""

from __future__ import annotations

from typing import Any

from ..ops import Layer
from ..plan.plan import Plan
from ..planner.stages.costs import extra_cost


def layer_cycles(layer: Layer[Any], joined: bool) -> int:
    """Of one layer; joined: it runs together with others."""
    costs = layer.target.costs
    each = costs.mac_depthwise if layer.op.channelwise else costs.mac
    alone = layer.height * costs.call + each * layer.macs + layer.out.bytes
    return round(alone) + (extra_cost(layer) if joined else 0)


def cycles_of(plan: Plan) -> list[int]:
    """By step."""
    return [
        layer_cycles(step.bind(plan.graph), len(stage) > 1)
        for stage in plan.stages
        for step in stage
    ]
