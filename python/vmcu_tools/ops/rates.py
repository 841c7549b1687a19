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
