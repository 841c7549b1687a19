# SPDX-License-Identifier: Apache-2.0
"""What stages and tiles cost in instructions, by estimate."""

from __future__ import annotations

from ...graph import Conv2D, DepthwiseConv2D
from ...ops import Form, Layer
from ...plan.schedule import block_of


def calls_of(layer: Layer) -> int:
    """How often a layer is called."""
    return layer.height * -(-layer.width // layer.columns)


def extra_cost(layer: Layer) -> int:
    """Instructions that a layer in tiles costs more than in rows, by estimate."""
    costs, block = layer.target.costs, block_of(layer)
    calls = calls_of(layer) - layer.height
    per_call, per_mac = costs.call, costs.mac / 2
    if isinstance(layer.op, DepthwiseConv2D):
        per_call = costs.call_strip + costs.call_strip_channel * layer.out.shape[2]
        per_mac = costs.mac_depthwise
    elif isinstance(layer.op, Conv2D) and layer.op.window.kernel != (1, 1):
        per_call = costs.call_window
    wasted = idle(layer, layer.columns, block) - idle(layer, layer.width, block)
    slower = costs.mac_direct if layer.form is Form.DIRECT else 0.0
    return round(costs.layer + calls * per_call + (per_mac * wasted + slower) * layer.macs)


def idle(layer: Layer, columns: int, block: int) -> float:
    """What a kernel that works in blocks computes for nothing in calls of so many columns, a part
    of what counts."""
    calls, rest = divmod(layer.width, columns)
    blocks = calls * -(-columns // block) + -(-rest // block)
    return blocks * block / layer.width - 1
