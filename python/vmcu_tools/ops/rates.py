# SPDX-License-Identifier: Apache-2.0
"""The cost of layers in cycles, by estimate: no compiler and no emulator is needed."""

from __future__ import annotations

from dataclasses import dataclass

# Kernels with a float32 factor, as Op.requantisers names it.
FLOATING = "FLOAT"


@dataclass(frozen=True)
class Rates:
    """Cycles on a Cortex-M4, fitted to the counts of `vmcu bench` (doc/cycles.md has the error).

    call: of a call of the kernel; mac: of a multiply-accumulate; tap: of an input byte under the
    window of an output pixel; byte: of an output byte, and its additional cost: floating, where a
    float32 factor requantises it, slow, where no short form of a fixed-point factor is exact.
    block: pixels that the kernel computes together, needed or not."""

    call: float = 450
    mac: float = 0
    tap: float = 0
    byte: float = 12
    floating: float = 18
    slow: float = 105
    block: int = 1


# Convolutions that work on several pixels at once, in wide and narrow blocks, and those of 1 x 1.
TILED = Rates(call=1000, mac=0.85, tap=6.5, byte=18, floating=63, block=2)
TILED_NARROW = Rates(call=415, mac=0.9, tap=13.5, byte=20, floating=80, block=2)
POINTWISE = Rates(call=250, mac=0.95, tap=4, byte=14, floating=65, block=2)
# Products of one pixel; each further row of its window costs so much for an output byte, more if it
# is no whole number of lanes.
DENSE = Rates(call=900, mac=1.4, byte=7, floating=99)
# The same for each pixel of an image.
DIRECT = Rates(call=300, mac=1.4, tap=75, byte=20, floating=99)
DENSE_ROW = 10
DENSE_ROW_REST = 50
