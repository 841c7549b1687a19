# SPDX-License-Identifier: Apache-2.0
"""What stages and tiles cost in instructions, by estimate."""

from __future__ import annotations

from ...graph import Conv2D, DepthwiseConv2D
from ...ops import Form, Layer
from ...plan.schedule import block_of

# Estimates in instructions on a Cortex-M4, measured by `vmcu bench`: of a multiply-accumulate, of
# a call of a kernel beyond one for each row, and what joining a stage costs a layer.
PER_MAC = 1.9
PER_MAC_DIRECT = 0.4
PER_CALL = 240
PER_WINDOW = 700
PER_STRIP, PER_STRIP_CHANNEL = 900, 36
PER_LAYER = 100


def calls_of(layer: Layer) -> int:
    """How often a layer is called."""
    return layer.height * -(-layer.width // layer.columns)


def extra_cost(layer: Layer) -> int:
    """Instructions that a layer in tiles costs more than in rows, by estimate."""
    calls = calls_of(layer) - layer.height
    per_call, per_mac, block = PER_CALL, PER_MAC / 2, block_of(layer)
    if isinstance(layer.op, DepthwiseConv2D):
        per_call, per_mac = PER_STRIP + PER_STRIP_CHANNEL * layer.out.shape[2], 3.0
    elif isinstance(layer.op, Conv2D) and layer.op.window.kernel != (1, 1):
        per_call = PER_WINDOW
    wasted = idle(layer, layer.columns, block) - idle(layer, layer.width, block)
    slower = PER_MAC_DIRECT if layer.form is Form.DIRECT else 0.0
    return round(PER_LAYER + calls * per_call + (per_mac * wasted + slower) * layer.macs)


def idle(layer: Layer, columns: int, block: int) -> float:
    """What a kernel that works in blocks computes for nothing in calls of so many columns, a part
    of what counts."""
    calls, rest = divmod(layer.width, columns)
    blocks = calls * -(-columns // block) + -(-rest // block)
    return blocks * block / layer.width - 1
