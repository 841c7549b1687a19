# SPDX-License-Identifier: Apache-2.0
"""Sums of fully connected layers whose weights of 4 bits have a scale for each group of taps.

A block of four channels is, in the stream: where its sums start; group by group the weights of its
taps and four multipliers; the requantiser's constants. Each sum adds up the multiplier times the
sum of the group. Coarse multipliers are uint8, and sums are int32. Fine ones are int16, and sums
are int64, of which the lowest FRACTION bits are cut off in the end.

Weights with zero points are in one or two parts, one behind the other: of weights of 8 bits the
upper four and the lower four. Behind the start of the sums are four factors of 32 bits for each
group, of the sum of its taps.
"""

from __future__ import annotations

import textwrap

import numpy as np

from ...language.evaluate import Machine
from ...language.ir import Ram, Stream
from ...language.packing import Packing
from .blocks import take_weights
from .dense import SOURCE
from .registry import compound

FRACTION = 7
# A group is a multiple of so many taps: a turn of the loop of the fastest kernel.
TAPS = 16
# A block has four channels in each packing with these kernels.
CHANNELS = 4
TAPS_AT = "const int8_t *x = vmcu_source_taps(in, row, pixel) + channel;"


def groups_c(packing: Packing, add: str, size: int) -> str:
    """C that adds the sums of each group times their multipliers, which have `size` bytes."""
    return f"""for (int32_t g = p->groups; g > 0; g--) {{
	int32_t sums[{CHANNELS}] = {{0}};

	for (int32_t i = p->steps; i > 0; i--, x += {packing.lanes}) {{
		vmcu_dot_dense(sums, x, w);
	}}
	for (int32_t n = 0; n < {CHANNELS}; n++) {{
		{add}
	}}
	*w += {size * CHANNELS};
}}"""


def coarse_c(packing: Packing) -> str:
    if not packing.has_groups:
        return ""
    add = "acc[n] = vmcu_mac(acc[n], sums[n], (*w)[n]);"
    return f"{TAPS_AT}\n\nvmcu_bias_dense(acc, w);\n{groups_c(packing, add, 1)}"


ADD_FINE = """total[n] +=
			(uint64_t)vmcu_product(sums[n], ((const int16_t *)*w)[n]);"""
STARTS = f"""const uint32_t *start = (const uint32_t *)*w;
/* They wrap. */
uint64_t total[{CHANNELS}];

for (int32_t n = 0; n < {CHANNELS}; n++) {{
	total[n] = ((uint64_t)start[2 * n + 1] << 32) | start[2 * n];
}}
*w += {8 * CHANNELS};"""
CUT = f"""for (int32_t n = 0; n < {CHANNELS}; n++) {{
	acc[n] = (int32_t)((int64_t)total[n] >> {FRACTION});
}}
"""


def fine_c(packing: Packing) -> str:
    if not packing.has_groups:
        return ""
    return f"{TAPS_AT}\n{STARTS}\n{groups_c(packing, ADD_FINE, 2)}\n{CUT}"


def zeros_with(packing: Packing, part: str) -> str:
    """C of sums with zero points; `part` adds all groups of a part of the weights to `parts`,
    of the taps from `x` on."""
    return f"""const int8_t *taps = vmcu_source_taps(in, row, pixel) + channel;
uint64_t parts[{CHANNELS}] = {{0}};
{STARTS}
for (int32_t g = 0; g < p->groups; g++, *w += 4 * {CHANNELS}) {{
	const int8_t *x = taps + g * p->steps * {packing.lanes};
	int32_t sum = 0;

	for (int32_t i = 0; i < p->steps * {packing.lanes}; i++) {{
		sum += x[i];
	}}
	for (int32_t n = 0; n < {CHANNELS}; n++) {{
		total[n] += (uint64_t)vmcu_product(sum, ((const int32_t *)*w)[n]);
	}}
}}
for (int32_t left = p->depth; left > 0; left -= p->run) {{
	const int8_t *x = taps;

	for (int32_t n = 0; n < {CHANNELS}; n++) {{
		parts[n] <<= 4;
	}}
{textwrap.indent(part, chr(9))}
}}
for (int32_t n = 0; n < {CHANNELS}; n++) {{
	total[n] += parts[n];
}}
{CUT}"""


def zeros_c(packing: Packing) -> str:
    if not packing.has_groups:
        return ""
    return zeros_with(packing, groups_c(packing, ADD_FINE.replace("total", "parts"), 2))


PARAMETERS = f"const struct vmcu_mac_params *p, int32_t *acc, {SOURCE}, const uint8_t **w"


@compound("Dot", PARAMETERS, coarse_c)
def sums_coarse(m: Machine, p: int, acc: np.ndarray, ram: Ram, stream: Stream) -> None:
    """The sums of a block of channels with multipliers of 8 bits for groups of taps."""
    acc[:] = m.take(np.int32, len(acc))
    _add_groups(m, acc, _groups(m, ram), np.uint8)


@compound("Dot", PARAMETERS, fine_c)
def sums_fine(m: Machine, p: int, acc: np.ndarray, ram: Ram, stream: Stream) -> None:
    """The sums of a block of channels with signed multipliers of 16 bits for groups of taps."""
    acc[:] = m.take(np.int64, len(acc))
    _add_groups(m, acc, _groups(m, ram), np.int16)
    acc >>= FRACTION


@compound("Dot", PARAMETERS, zeros_c)
def sums_zeros(m: Machine, p: int, acc: np.ndarray, ram: Ram, stream: Stream) -> None:
    """The sums of a block of channels as sums_fine(), of weights with zero points."""
    start = m.take(np.int64, len(acc))
    groups = _groups(m, ram)
    for taps in groups:
        start += taps.sum() * m.take(np.int32, len(acc)).astype(np.int64)
    acc[:] = 0
    for _ in range(m.names["p->depth"] // m.names["p->run"]):
        acc <<= 4
        _add_groups(m, acc, groups, np.int16)
    acc[:] = start + acc >> FRACTION


def _groups(m: Machine, ram: Ram) -> list[np.ndarray]:
    return np.split(m.load(ram).ravel(), m.names["p->groups"])


def _add_groups(m: Machine, acc: np.ndarray, groups: list[np.ndarray], multiplier: type) -> None:
    for taps in groups:
        sums = take_weights(m, len(acc), len(taps) // m.packing.lanes) @ taps
        acc += sums * m.take(multiplier, len(acc))
