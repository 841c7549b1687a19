# SPDX-License-Identifier: Apache-2.0
"""Bytes of several pixels to a tile of 16-bit taps."""

from __future__ import annotations

from vmcu_tools.kernels.targets.portable.tile import PIXELS, SEVERAL

from ...assembly import Function, leave, note, save
from ..thumb import prototypes

ROWS = """
/* Fewer than four taps of each of `pixels` pixels; zeros make them four. */
VMCU_APART void vmcu_widen_few(vmcu_lane_t *t, int32_t pixels, const int8_t *x, int32_t pitch,
			       int32_t count)
{
	for (int32_t lane = 0; lane < pixels; lane++, x += pitch) {
		uint32_t word = 0;

		for (int32_t i = count; i > 0; i--) {
			word = (word << 8) | (uint8_t)x[i - 1];
		}
		t[lane] = vmcu_sxtb16(word);
		t[pixels + lane] = vmcu_sxtb16_odd(word);
	}
}

/* `count` taps of each of `pixels` pixels, `pitch` bytes apart. */
VMCU_INLINE void vmcu_widen_rows(vmcu_lane_t *t, int32_t pixels, const int8_t *x, int32_t pitch,
				 int32_t count)
{
	if (count < 4) {
		vmcu_widen_few(t, pixels, x, pitch, count);
	} else if (pixels == 4) {
		vmcu_widen_words_4(t, x, pitch, count);
	} else if (pixels == 2) {
		vmcu_widen_words_2(t, x, pitch, count);
	} else {
		vmcu_widen_words_1(t, x, pitch, count);
	}
}
"""
# The tile, the number of taps left, the widened word; words and pointers of pixels.
TILE, COUNT, ODD = "r0", "r3", "lr"
WORDS = ("r12", "r4", "r5", "r6")
POINTERS = ("r1", "r2", "r7", "r8")


def words(pixels: int) -> Function:
    """Compilers need one more instruction in each turn, and more around the loop."""
    held, pointers, size = WORDS[:pixels], POINTERS[:pixels], 8 * pixels
    both = list(zip(held, pointers, strict=True))
    saved = [*held[1:], *pointers[2:], ODD]
    code = save(saved)
    code += ["add r7, r1, r2, lsl #1", "add r8, r7, r2"] * (pixels == 4)
    code += ["add r2, r1, r2"] * (pixels > 1)
    code += [f"subs {COUNT}, {COUNT}, #4", note("Load four taps of each pixel."), "<turn>:"]
    code += [f"ldr {word}, [{at}], #4" for word, at in both]
    code += [note("Store them: even taps are one word, odd taps another."), "<store>:"]
    for lane, word in enumerate(held):
        # The first store of even taps moves to the next four taps.
        even = f"], #{size}" if lane == 0 else f", #{4 * lane - size}]"
        odd = 4 * (pixels + lane) - (size if lane > 0 else 0)
        code += [f"sxtb16 {ODD}, {word}, ror #8", f"sxtb16 {word}, {word}"]
        code += [f"str {ODD}, [{TILE}, #{odd}]", f"str {word}, [{TILE}{even}"]
    return Function(
        f"vmcu_widen_words_{pixels}",
        f"`count` taps, at least four, of each of {SEVERAL[pixels]}, `pitch` bytes apart, into a "
        "tile; zeros are behind the last tap.",
        [
            *code,
            f"subs {COUNT}, {COUNT}, #4",
            "bpl <turn>",
            f"cmn {COUNT}, #4",
            "beq <end>",
            note("One to three taps are left: the upper bytes of the last word."),
            *(f"ldr {word}, [{at}, {COUNT}]" for word, at in both),
            f"rsbs {COUNT}, {COUNT}, #0",
            f"lsls {COUNT}, {COUNT}, #3",
            *(f"lsr {word}, {word}, {COUNT}" for word in held),
            f"movs {COUNT}, #0",
            "b <store>",
            "<end>:",
            leave(saved),
        ],
    )


FUNCTIONS = [words(pixels) for pixels in PIXELS]
DECLARED = prototypes(
    FUNCTIONS, "void ", "vmcu_lane_t *t, const int8_t *x, int32_t pitch, int32_t count"
)


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
    # In the place of functions for each number of pixels.
    "widen_rows": f"/* In tile_dsp.S: taps of some pixels, at least four. */\n{DECLARED}",
    "widen_any": ROWS,
    "nines": nine(4) + NINES,
}
