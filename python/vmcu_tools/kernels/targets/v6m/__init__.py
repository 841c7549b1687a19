# SPDX-License-Identifier: Apache-2.0
"""ARMv6-M and the baseline of ARMv8-M: 32 bits of a product, eight registers that multiply."""

from __future__ import annotations

from ...language.packing import PAIRS
from ...language.target import Costs, Target
from .. import pairs
from ..portable.blocks import NARROW
from ..portable.blocks_paired import RUN_PAIRED
from ..portable.dense import whole_dense
from ..portable.strips import STRIP
from ..thumb import prototypes
from . import blocks, single, square

# `vmcu bench --on qemu:m0`, requantisers left out of what a multiply-accumulate takes. Calls are
# those of a Cortex-M3 times 1.25, which is not measured.
COSTS = Costs(
    mac=3.1,
    mac_direct=1.5,
    mac_depthwise=10,
    call=700,
    call_window=1600,
    call_strip=1750,
    call_strip_channel=62,
    layer=400,
    block=4,
    strip=6,
)
# What assembly functions are called with.
FROM = "const uint8_t *stream, const {type} *taps, int32_t steps, int8_t *out, int32_t channels, "
PAIRED = prototypes(
    [*blocks.FUNCTIONS.values()],
    "const uint8_t *",
    FROM.format(type="vmcu_lane_t") + "int32_t half, int32_t pitch, int32_t code",
)
TILED = prototypes(
    [single.TILED], "const uint8_t *", FROM.format(type="vmcu_lane_t") + "int32_t half"
)
DENSE = prototypes([single.DENSE], "const uint8_t *", FROM.format(type="int8_t") + "int32_t half")
RUN = "*w = {name}(*w, tile, p->steps, out, channels, vmcu_half(p){more});"
RUN_SINGLE = RUN.format(name=single.TILED.name, more="") + "\n(void)pitch;\n(void)code;"
# As rv32 has it: code is small rather than without calls.
ONCE = """
/* Of what several kernels have in common: calls. */
#define VMCU_ONCE VMCU_APART
"""
V6M = Target(
    "v6m",
    "ARMv6-M and ARMv8-M Baseline",
    "(defined(__ARM_ARCH_6M__) || defined(__ARM_ARCH_8M_BASE__)) && !defined(VMCU_PORTABLE)",
    PAIRS,
    COSTS,
    {
        **{
            RUN_PAIRED[shape]: RUN.format(name=made.name, more=", pitch, code")
            for shape, made in blocks.FUNCTIONS.items()
        },
        RUN_PAIRED[NARROW[1]]: RUN_SINGLE,
        **{STRIP[taps, 1]: text for taps, text in square.STRIPS.items()},
    },
    {
        **pairs.HELPERS,
        "once": ONCE,
        "blocks": f"/* In blocks_v6m.S. */\n{PAIRED}{TILED}{DENSE}",
        "interleave": square.INTERLEAVE,
        "square": square.STRUCT,
        "dense_whole": whole_dense(single.DENSE.name),
    },
    {
        "strips": [*square.FUNCTIONS.values()],
        "blocks": [*blocks.FUNCTIONS.values(), single.TILED, single.DENSE],
    },
)
