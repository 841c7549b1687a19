# SPDX-License-Identifier: Apache-2.0
"""How close a layer's output may come to an input that dies in it (vMCU paper, section 4)."""

from __future__ import annotations

import numpy as np

from ..kernels import Layer


def min_distance(layer: Layer, index: int) -> int:
    """The smallest b_in - b_out, in bytes, from which on every distance is safe for input `index`.

    Equation 1 of the paper at the grain of single bytes: an output byte k may lie on an input
    byte j if k is written no earlier than j is read for the last time; so the distance has to
    exceed k - j for every pair where it is written earlier. -(input bytes) if nothing conflicts.
    """
    reads = layer.last_reads(index).ravel()
    writes = layer.writes().ravel()
    order = np.argsort(writes, kind="stable")
    highest = np.maximum.accumulate(order)
    earlier = np.searchsorted(writes[order], reads, side="left")
    conflicts = earlier > 0
    if not conflicts.any():
        return -layer.ins[index].bytes
    return int((highest[earlier[conflicts] - 1] - np.flatnonzero(conflicts)).max()) + 1
