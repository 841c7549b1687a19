# SPDX-License-Identifier: Apache-2.0
"""Bytes of several pixels to a tile of 16-bit taps.

Loads stand together; the pixels' pointers are two and a pitch, so that all registers suffice.
"""

from __future__ import annotations

import itertools

from ..portable.tile import PIXELS, SEVERAL
from ..thumb import asm

REST = """
/* Fewer than four taps of a pixel of a tile of `pixels`; zeros make them four. */
VMCU_APART void vmcu_lane_rest(vmcu_lane_t *t, int32_t pixels, const int8_t *x, int32_t count)
{
	uint32_t word = 0;

	for (; count > 0; count--) {
		word = (word << 8) | (uint8_t)x[count - 1];
	}
	t[0] = vmcu_sxtb16(word);
	t[pixels] = vmcu_sxtb16_odd(word);
}
"""
NAMES = "xyzu"


def fours(pixels: int) -> list[str]:
    """All fours of taps of each pixel, by way of words in a, b, c and d. A loop in C would have
    compilers move registers around in each turn."""
    words = "abcd"[:pixels]
    code = ["1:"]
    code += [f"ldr %[{word}], [%[{x}]], #4" for word, x in zip(words, NAMES, strict=False)]
    size = 8 * pixels
    for lane, word in enumerate(words):
        even = "], #" + str(size) if lane == 0 else f", #{4 * lane - size}]"
        odd = 4 * (pixels + lane) - (0 if lane == 0 else size)
        code += [
            f"sxtb16 %[odd], %[{word}], ror #8",
            f"sxtb16 %[{word}], %[{word}]",
            f"str %[odd], [%[t], #{odd}]",
            f"str %[{word}], [%[t]{even}",
        ]
    return [*code, "subs %[n], #1", "bne 1b"]


def function(pixels: int) -> str:
    words, lanes = "abcd"[:pixels], NAMES[:pixels]
    others = "".join(
        f"\tconst int8_t *{new} = {old} + pitch;\n" for old, new in itertools.pairwise(lanes)
    )
    loaded = ", ".join(f'[{word}] "=&r"({word})' for word in (*words, "odd"))
    moved = ", ".join(f'[{x}] "+&r"({x})' for x in lanes)
    rest = "\n".join(
        f"\t\tvmcu_lane_rest(t + {lane}, {pixels}, {x}, count & 3);" for lane, x in enumerate(lanes)
    )
    return f"""
/* `count` taps of each of {SEVERAL[pixels]}, `pitch` bytes apart. */
VMCU_APART void vmcu_widen_rows_{pixels}(vmcu_lane_t *t, const int8_t *x, int32_t pitch,
					int32_t count)
{{
{others}
	int32_t n = count >> 2;

	if (n != 0) {{
		uint32_t {", ".join((*words, "odd"))};

		__asm__ volatile(
			{asm(fours(pixels), 3)}
			: {loaded},
			  {moved},
			  [t] "+&r"(t), [n] "+&r"(n)
			:
			: "cc", "memory");
	}}
	if ((count & 3) != 0) {{
{rest}
	}}
	(void)pitch;
}}
"""


NINE = """
/* Three rows of nine bytes, `step` bytes apart, of each of {what}, without a copy. */
VMCU_APART void vmcu_widen_nine_{pixels}(vmcu_lane_t *t, const int8_t *x, int32_t step,
					 int32_t pitch)
{{
	for (int32_t lane = 0; lane < {pixels}; lane++, t++, x += pitch) {{
		const int8_t *y = x + step;
		const int8_t *z = y + step;
		uint32_t a = vmcu_load32(x);
		uint32_t b = vmcu_load32(x + 4);
		uint32_t c = (uint8_t)x[8];
		uint32_t d = vmcu_load32(y);
		uint32_t e = vmcu_load32(y + 3);
		uint32_t f = vmcu_load32(y + 5);
		uint32_t g = vmcu_load32(z);
		uint32_t h = vmcu_load32(z + 2);
		uint32_t i = vmcu_load32(z + 5);

		c |= d << 8;
		f = (f >> 16) | (g << 16);
		i >>= 8;
{stores}
	}}
}}
"""
NINES = """
/* Windows of three rows of nine bytes; false: they are none, or partly padding, or split. */
VMCU_INLINE bool vmcu_widen_nines(vmcu_lane_t *t, int32_t pixels, const struct vmcu_source *in,
				  int32_t pixel, int32_t channel)
{
	const struct vmcu_window *window = in->window;
	const struct vmcu_tensor *tensor = in->tensor;

	if (pixels != 4 || !in->packed || in->rows == NULL || in->run != 9 ||
	    window->kernel_h != 3 || window->kernel_w * in->depth != 9 || pixel < 0 ||
	    pixel + 3 * window->stride_w + window->kernel_w > tensor->width) {
		return false;
	}
	vmcu_widen_nine_4(t, in->rows + pixel * tensor->channels + channel,
			  window->dilation_h * tensor->width * tensor->channels,
			  window->stride_w * tensor->channels);
	return true;
}

/* The same where they are said to be in one piece, `step` bytes from row to row. */
VMCU_INLINE bool vmcu_widen_straight(vmcu_lane_t *t, int32_t pixels,
				     const struct vmcu_window *window, int32_t line,
				     const int8_t *x, int32_t step, int32_t pitch)
{
	const bool nine = pixels == 4 && window->kernel_h == 3 && line == 9;

	if (nine) {
		vmcu_widen_nine_4(t, x, step, pitch);
	}
	return nine;
}
"""


def nine(pixels: int) -> str:
    """27 bytes, and a 28th that is nothing, are seven words."""
    stores = "\n".join(
        f"\t\tt[{2 * pixels * four + pixels * odd}] = vmcu_sxtb16{'_odd' * odd}({word});"
        for four, word in enumerate("abcefhi")
        for odd in range(2)
    )
    return NINE.format(what=SEVERAL[pixels], pixels=pixels, stores=stores)


HELPERS = {
    "widen_rows": "".join([REST, *map(function, PIXELS)]),
    "nines": nine(4) + NINES,
}
