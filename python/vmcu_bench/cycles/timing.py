# SPDX-License-Identifier: Apache-2.0
"""Cycles by the written timing rules of the cores, evaluated on the instructions that ran.

A model: it knows instructions and branches, not the bus. A memory's share is modelled apart
(flash.py), so figures of one memory can be turned into another's.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace

from ..cores.dual_issue import DualIssue
from ..cores.instructions import DIVISION
from ..cores.single_issue import SingleIssue
from ..cores.timing import Timing
from ..runners.qemu import QemuRunner

FLOATS = {"vdiv": 14, "vsqrt": 14, "vmla": 3, "vmls": 3, "vfma": 3, "vfms": 3}
UPPER_BOUND = "an upper bound, modelled as a Cortex-M4"

M4 = SingleIssue(
    core="Cortex-M4",
    others={"udiv": DIVISION, "sdiv": DIVISION, **FLOATS},
)
# By the core's name in compilers.
TIMINGS: Mapping[str, Timing] = {
    "cortex-m0plus": SingleIssue(
        core="Cortex-M0+",
        pipelined=2,
        store=2,
        refill=1,
        returning=1,
        others={"bl": 2, "dmb": 3, "dsb": 3, "isb": 3, "mrs": 3, "msr": 3},
        # Others have one of 32 cycles.
        known="modelled with a multiplier of one cycle, not measured",
    ),
    "cortex-m3": SingleIssue(
        core="Cortex-M3",
        others={
            **{"udiv": DIVISION, "sdiv": DIVISION, "mla": 2, "mls": 2},
            # They end early, after 3 to 5 and 4 to 7 cycles.
            **{"smull": 4, "umull": 4, "smlal": 5.5, "umlal": 5.5},
        },
    ),
    "cortex-m4": M4,
    # Its cycles are not published; it issues some pairs of instructions together.
    "cortex-m33": replace(M4, core="Cortex-M33", known=UPPER_BOUND),
    "cortex-m7": DualIssue(core="Cortex-M7"),
}
# By core and operator, cycles that boards measured for each instruction of CMSIS-NN; "" for others.
PER_INSTRUCTION: Mapping[str, Mapping[str, float]] = {
    "cortex-m55": {"": 1.19, "DepthwiseConv2D": 1.56}
}


def timing_of(machine: QemuRunner) -> Timing | None:
    """The rules of an emulated board's core; None where only instructions are counted."""
    return TIMINGS.get(machine.core)


def said_of(machine: QemuRunner) -> str:
    """States the source of the cycles of an emulated board."""
    timing = timing_of(machine)
    return f"no model of {machine.core}, instructions only" if timing is None else timing.said
