# SPDX-License-Identifier: Apache-2.0
"""Sums of weights of 4 bits in groups of taps, with MVE: sixteen taps of four channels in a turn of
the loop."""

from __future__ import annotations

import textwrap

from vmcu_tools.kernels.language.packing import NIBBLE_VECTORS
from vmcu_tools.kernels.targets.portable.grouped import (
    FRACTION,
    sums_coarse,
    sums_fine,
    sums_zeros,
    zeros_with,
)

# The sums of a group, as int4.py has them.
GROUP = """
int32_t first = 0, second = 0, third = 0, fourth = 0;

for (int32_t i = p->steps; i > 0; i--, x += 16, v += 32) {
	const int8x16_t taps = vldrbq_s8(x);
	const int8x16_t even = vldrbq_s8((const int8_t *)v);
	const int8x16_t odd = vldrbq_s8((const int8_t *)v + 16);

	first = vmladavaq_s8(first, taps, vshrq_n_s8(even, 4));
	second = vmladavaq_s8(second, taps, vshrq_n_s8(odd, 4));
	third = vmladavaq_s8(third, taps,
			     vshrq_n_s8(vshlq_n_s8(even, 4), 4));
	fourth = vmladavaq_s8(fourth, taps,
			      vshrq_n_s8(vshlq_n_s8(odd, 4), 4));
}
"""


def groups(add: str) -> str:
    """C of a loop over all groups; `add` adds a group's sums."""
    return f"for (int32_t g = p->groups; g > 0; g--) {{{textwrap.indent(GROUP + add, chr(9))}}}"


COARSE = """
const int32x4_t sums = {first, second, third, fourth};
const int32x4_t factors = vreinterpretq_s32_u32(vldrbq_u32(v));

total = vaddq_s32(total, vmulq_s32(sums, factors));
v += 4;
"""
FINE = """
const int16_t *m = (const int16_t *)v;

total[0] += (uint64_t)((int64_t)first * m[0]);
total[1] += (uint64_t)((int64_t)second * m[1]);
total[2] += (uint64_t)((int64_t)third * m[2]);
total[3] += (uint64_t)((int64_t)fourth * m[3]);
v += 8;
"""
ZEROS = """
const int32_t sums[] = {first, second, third, fourth};
const int16_t *m = (const int16_t *)v;

for (int32_t n = 0; n < 4; n++) {
	parts[n] += (uint64_t)((int64_t)sums[n] * m[n]);
}
v += 8;
"""
OWN = {
    sums_coarse: f"""
const int8_t *x = vmcu_source_taps(in, row, pixel) + channel;
int32x4_t total = vldrwq_s32((const int32_t *)*w);
const uint8_t *v = *w + 16;

{groups(COARSE)}
vstrwq_s32(acc, total);
*w = v;
""",
    sums_fine: f"""
const int8_t *x = vmcu_source_taps(in, row, pixel) + channel;
const uint8_t *v = *w + 32;
uint64_t total[4];

__builtin_memcpy(total, *w, sizeof(total));
{groups(FINE)}
for (int32_t n = 0; n < 4; n++) {{
	acc[n] = (int32_t)((int64_t)total[n] >> {FRACTION});
}}
*w = v;
""",
    sums_zeros: zeros_with(
        NIBBLE_VECTORS,
        f"const uint8_t *v = *w;\n\n{groups(ZEROS)}\n*w = v;",
    ),
}
