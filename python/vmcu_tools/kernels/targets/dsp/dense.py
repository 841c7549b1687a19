# SPDX-License-Identifier: Apache-2.0
"""Fully connected layers with the DSP extension: four channels at once, taps widened on the way."""

from __future__ import annotations

from ..portable.blocks import NARROW
from ..portable.dense import dot_dense, dot_dense_tail
from ..thumb import STREAM, Registers, T
from .blocks import whole_function

# A pixel's block of four channels.
BLOCK = NARROW[1]
# Fours of taps in a turn of its loop.
UNROLL = 8


def four() -> list[str]:
    """Four taps of a pixel, a word of weights for each channel."""
    sums, (even, odd, *rest) = Registers.of(BLOCK).sums, Registers.of(BLOCK).free
    words, v = rest[:4], rest[4]
    code = [f"ldr.w {odd}, [{T}], #4", f"ldr.w {words[0]}, [{STREAM}], #16"]
    code += [f"ldr.w {words[i]}, [{STREAM}, #{4 * i - 16}]" for i in range(1, 4)]
    code += [f"sxtb16 {even}, {odd}", f"sxtb16 {odd}, {odd}, ror #8"]
    for acc, word in zip(sums, words, strict=True):
        code += [f"sxtb16 {v}, {word}", f"smlad {acc}, {even}, {v}, {acc}"]
        code += [f"sxtb16 {word}, {word}, ror #8", f"smlad {acc}, {odd}, {word}, {acc}"]
    return code


WORD = r"""
/* Four taps in a word times those of four channels. */
VMCU_INLINE void vmcu_dot_dense_word(int32_t *acc, uint32_t x, const uint8_t **w)
{
	const uint32_t even = vmcu_sxtb16(x);
	const uint32_t odd = vmcu_sxtb16_odd(x);

	for (int32_t i = 0; i < 4; i++) {
		const uint32_t word = vmcu_load32(*w + 4 * i);

		acc[i] = vmcu_smlad(even, vmcu_sxtb16(word), acc[i]);
		acc[i] = vmcu_smlad(odd, vmcu_sxtb16_odd(word), acc[i]);
	}
	*w += 16;
}
"""
WHOLE = """
/* What is left of blocks is rare. */
#define VMCU_DENSE_IN_PLACE 0
#define VMCU_DENSE_SUMS     VMCU_CALLED

/* As many channels as are whole blocks of whole words; returns how many are left. */
VMCU_APART int32_t vmcu_dense_whole(const struct vmcu_mac_params *p, const struct vmcu_source *in,
				    const int8_t *x, const uint8_t **w, int8_t **out,
				    int32_t channels)
{
	const int32_t whole = channels & ~3;

	if (in->window->kernel_h > 1 || (in->run & 3) != 0 || whole == 0) {
		return channels;
	}
	*w = vmcu_run_dense_words(*w, x, in->run >> 2, *out, 0, whole, vmcu_half(p));
	*out += whole;
	return channels - whole;
}
"""
HELPERS = {
    "dense": WORD + whole_function("vmcu_run_dense_words", BLOCK, four(), UNROLL, "int8_t", 4),
    "dense_whole": WHOLE,
}
OWN = {
    dot_dense: "vmcu_dot_dense_word(acc, vmcu_load32(x), w);",
    dot_dense_tail: """
uint32_t word = 0;

if (left == 0) {
	return;
}
for (; left > 0; left--) {
	word = (word << 8) | (uint8_t)x[left - 1];
}
vmcu_dot_dense_word(acc, word, w);
""",
}
