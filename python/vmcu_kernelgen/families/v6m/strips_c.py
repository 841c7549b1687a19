# SPDX-License-Identifier: Apache-2.0
"""C that declares and calls the assembly of depthwise strips."""

from __future__ import annotations

import textwrap

from vmcu_tools.kernels.targets.portable.strips import JOB_C, STRIP, store_whole_c

from .strips import PIXELS

STRUCT = f"""
/* What a block of pixels needs; the function moves it from channel to channel. */
struct vmcu_strip_block {{
	const uint8_t *stream;
	const int8_t *x;    /* the channel's first byte */
	const int8_t *last; /* and its first byte of the last row */
	int8_t *patch;
	int32_t left;  /* channels */
	int32_t plane; /* bytes from channel 1 to channel 2 */
	int32_t half;
	int32_t count; /* pixels that are stored */
	int32_t size;  /* bytes of a channel in the stream */
	int32_t taps;  /* of a row; 0: 3 x 3, -1: 5 x 5, both at a stride of one */
	int32_t row;   /* bytes of the tile for two rows */
	int32_t odd;   /* bytes from a row's even columns to its odd ones */
	int32_t even;  /* and from those to the next even ones, added to `odd` */
	int32_t sums[{PIXELS}];
}};

/*
 * Channels until one that is not for the fast requantiser; false: there is none. Otherwise its sums
 * are in the structure. again: that channel is done.
 */
bool vmcu_strip_words(struct vmcu_strip_block *block, bool again);
"""
# Where all addresses are those of words, none is asked for.
INTERLEAVE = """
/* Exchanges the upper half of x and the lower half of y. */
VMCU_INLINE void vmcu_exchange(uint32_t *x, uint32_t *y)
{
	const uint32_t both = *x >> 16 ^ *y;

	*x ^= both << 16;
	*y ^= both & 0xffffU;
}

/* Words of two taps, see targets/portable/depthwise.py: u has channels 0 and 1, v 2 and 3. */
VMCU_INLINE void vmcu_interleave(uint32_t **u, uint32_t **v, const int8_t **a, int32_t pitch_a,
				 const int8_t **b, int32_t pitch_b, int32_t words)
{
	const uintptr_t any = (uintptr_t)*a | (uintptr_t)*b | (uintptr_t)(pitch_a | pitch_b);

	for (; (any & 3U) == 0U && words > 0; words--, *a += pitch_a, *b += pitch_b) {
		uint32_t x, y;

		__builtin_memcpy(&x, __builtin_assume_aligned(*a, 4), 4);
		__builtin_memcpy(&y, __builtin_assume_aligned(*b, 4), 4);
		vmcu_exchange(&x, &y);
		*(*u)++ = x;
		*(*v)++ = y;
	}
	for (; words > 0; words--, *a += pitch_a, *b += pitch_b) {
		uint32_t x, y;

		vmcu_copy_word(&x, *a);
		vmcu_copy_word(&y, *b);
		vmcu_exchange(&x, &y);
		*(*u)++ = x;
		*(*v)++ = y;
	}
}
"""
RUN = f"""
/* Up to four channels of a strip, four pixels at a time. */
VMCU_APART void vmcu_strip_blocks(const struct vmcu_strip_job *job, const uint8_t **w,
				  int8_t *out, int32_t lanes)
{{
{textwrap.indent(JOB_C, chr(9))}
	const int32_t taps = p->window.kernel_h, stride = p->window.stride_w;
	const int8_t *x = (const int8_t *)tile;
	const int8_t *last = x + 4 * (taps >> 1) * row;
	struct vmcu_strip_block block;

	block.plane = 4 * plane - 1;
	block.half = vmcu_half(p);
	block.size = 8 + ((taps * taps + 3) & ~3);
	block.taps = taps;
	if (stride == 1 && taps < 7) {{
		block.taps = (taps == 3) ? 0 : -1;
	}}
	block.row = 4 * row;
	block.odd = (stride == 1) ? 4 : 4 * phase;
	block.even = (stride == 1) ? 8 : 4;
	for (int32_t at = 0; at < wide; at += {PIXELS}, out += {PIXELS} * pitch) {{
		int32_t patch[{PIXELS}];
		bool found = false;

		block.stream = *w;
		block.x = x + 4 * at;
		block.last = last + 2 * stride * at;
		block.patch = (int8_t *)patch;
		block.count = wide - at;
		block.left = lanes;
		while ((found = vmcu_strip_words(&block, found))) {{
			const uint8_t *of = block.stream;

			vmcu_finish_any(p, block.sums, {PIXELS}, *(const int32_t *)of,
					*(const int32_t *)&of[block.size - 4], block.patch);
		}}
		if (lanes == 4 && wide - at >= {PIXELS}) {{
{chr(10).join(f"{chr(9)}{chr(9)}{chr(9)}{line}" for line in store_whole_c(PIXELS))}
			continue;
		}}
		vmcu_store_part(patch, out, pitch, vmcu_min({PIXELS}, wide - at), lanes);
	}}
	*w = block.stream + (lanes & 1) * block.size;
}}
"""
HELPERS = {"interleave": INTERLEAVE, "strip_block": STRUCT}
OWN = dict.fromkeys(STRIP.values(), "vmcu_strip_blocks(job, w, out, lanes);")
