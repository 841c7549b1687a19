# SPDX-License-Identifier: Apache-2.0
"""Sums of fully connected layers whose weights of 4 bits have a scale for each group of taps.

A block of four channels is, in the stream: where its sums start; group by group the weights of its
taps and four multipliers; the requantiser's constants. Each sum adds up the multiplier times the
sum of the group. Coarse multipliers have 8 bits, and sums are int32. Fine ones have 16 bits, and
sums are int64, of which the lowest FRACTION bits are cut off in the end.
"""

from __future__ import annotations

import numpy as np

from ...language.evaluate import Machine
from ...language.ir import Ram, Stream
from ...language.packing import Packing
from .blocks import take_weights
from .dense import SOURCE
from .registry import compound

FRACTION = 8
# A group is a multiple of so many taps: a turn of the loop of the fastest kernel.
TAPS = 16
GROUP = """
for (int32_t g = p->groups; g > 0; g--) {{
	int32_t sums[{channels}] = {{0}};

	for (int32_t i = p->steps; i > 0; i--, x += {lanes}) {{
		vmcu_dot_dense(sums, x, w);
	}}
	for (int32_t n = 0; n < {channels}; n++) {{
		{add}
	}}
	*w += {bytes};
}}
"""


def group_c(packing: Packing, add: str, size: int) -> str:
    """C that adds each group's sums times their multipliers of `size` bytes; nothing for packings
    without the kernel."""
    if not packing.has_groups:
        return ""
    channels = packing.dense
    text = GROUP.format(channels=channels, lanes=packing.lanes, add=add, bytes=size * channels)
    head = "const int8_t *x = vmcu_source_taps(in, row, pixel) + channel;"
    return f"{head}\n{text.strip()}"


def coarse_c(packing: Packing) -> str:
    text = group_c(packing, "acc[n] = vmcu_mac(acc[n], sums[n], (*w)[n]);", 1)
    head, loop = text.split("\n", 1) if text else ("", "")
    return text and f"{head}\n\nvmcu_bias_dense(acc, w);\n{loop}"


def fine_c(packing: Packing) -> str:
    text = group_c(
        packing, "total[n] += (uint64_t)((int64_t)sums[n] * ((const uint16_t *)*w)[n]);", 2
    )
    if not text:
        return ""
    head, loop = text.split("\n", 1)
    channels = packing.dense
    return f"""{head}
const uint32_t *start = (const uint32_t *)*w;
/* They wrap. */
uint64_t total[{channels}];

for (int32_t n = 0; n < {channels}; n++) {{
	total[n] = ((uint64_t)start[2 * n + 1] << 32) | start[2 * n];
}}
*w += {8 * channels};
{loop}
for (int32_t n = 0; n < {channels}; n++) {{
	acc[n] = (int32_t)((int64_t)total[n] >> {FRACTION});
}}
"""


PARAMETERS = f"const struct vmcu_mac_params *p, int32_t *acc, {SOURCE}, const uint8_t **w"


@compound("Dot", PARAMETERS, coarse_c)
def sums_coarse(m: Machine, p: int, acc: np.ndarray, ram: Ram, stream: Stream) -> None:
    """The sums of a block of channels with multipliers of 8 bits for groups of taps."""
    acc[:] = m.take(np.int32, len(acc))
    _add_groups(m, acc, ram, np.uint8)


@compound("Dot", PARAMETERS, fine_c)
def sums_fine(m: Machine, p: int, acc: np.ndarray, ram: Ram, stream: Stream) -> None:
    """The sums of a block of channels with multipliers of 16 bits for groups of taps."""
    acc[:] = m.take(np.int64, len(acc))
    _add_groups(m, acc, ram, np.uint16)
    acc >>= FRACTION


def _add_groups(m: Machine, acc: np.ndarray, ram: Ram, multiplier: type) -> None:
    for taps in np.split(m.load(ram).ravel(), m.names["p->groups"]):
        sums = take_weights(m, len(acc), len(taps) // m.packing.lanes) @ taps
        acc += sums * m.take(multiplier, len(acc))
