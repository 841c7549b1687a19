# SPDX-License-Identifier: Apache-2.0
"""What layers cost in cycles, by estimate: no compiler and no emulator is needed."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True)
class Rates:
    """Cycles on a Cortex-M4, fitted to what `vmcu bench` counts (doc/cycles.md has the error).

    call: of a call of the kernel; mac: of a multiply-accumulate; tap: of an input byte under the
    window of an output pixel; byte: of an output byte, and floating: what it costs more where a
    float32 factor requantises it."""

    call: float = 450
    mac: float = 0
    tap: float = 0
    byte: float = 12
    floating: float = 18


# Convolutions that work on several pixels at once, and products of one pixel; each further row of
# its window costs so much for an output byte, more if it is no whole number of lanes.
TILED = Rates(call=700, mac=1.15, tap=4, byte=10, floating=63)
DENSE = Rates(call=900, mac=1.4, byte=7, floating=99)
DENSE_ROW = 10
DENSE_ROW_REST = 50
