# SPDX-License-Identifier: Apache-2.0
"""Kernels of paired pixels in portable C: what assembly of families/rv32 and families/v6m computes.

Each function reads as many bytes of a tile and of the stream as the assembly does, so sanitizers
see what a wrong container would make it read. Depthwise kernels compute odd rows of the output from
the tile of rv32, even rows from that of v6m: a tile has to have room for both.
"""

from __future__ import annotations

from collections.abc import Mapping

from vmcu_kernelgen.families import pairs
from vmcu_kernelgen.families.rv32 import depthwise_c
from vmcu_kernelgen.families.v6m import int4, strips_c
from vmcu_kernelgen.family import portable_body
from vmcu_tools.kernels.language.instruction import Instruction
from vmcu_tools.kernels.language.packing import PAIRS
from vmcu_tools.kernels.targets.portable.depthwise import stage
from vmcu_tools.kernels.targets.portable.strips import all_strips

SHAPES = ((4, 2), (2, 2), (1, 2), (2, 4), (1, 4))
# WEIGHT: of tap k and channel n; BYTES: of the weights of a tap and a channel.
BLOCK = """
/* Blocks of `size` channels of `pixels`. Sums of damaged weights wrap, as they do in assembly. */
VMCU_APART const uint8_t *vmcu_paired_block(const uint8_t *w, const void *tile, int32_t steps,
					int8_t *out, int32_t channels, int32_t half,
					int32_t pitch, int32_t code, int32_t pixels,
					int32_t size)
{
	const int32_t together = (code == 3 && (steps & 1) != 0) ? 4 : 1 << code;
	const vmcu_pair_t *const words = tile;
	const int8_t *const bytes = tile;

	/* Assembly would not stop. */
	if (steps <= 0 || channels < 0 || channels % size != 0 || code < 0 || code > 3) {
		__builtin_trap();
	}
	do {
		const int32_t *bias = (const int32_t *)w;
		const int8_t *v = (const int8_t *)&bias[size];
		const int32_t *c = (const int32_t *)&v[4 * steps * size BYTES];
		const uint8_t *shifts = (const uint8_t *)&c[size];
		int32_t sums[8];

		for (int32_t i = 0; i < size * ((pixels + 1) / 2); i++) {
			const int32_t n = i % size, pair = i / size;
			uint32_t upper = (uint32_t)bias[n], whole = upper * 65537U, part = 0;

			for (int32_t k = 0; k < 4 * steps; k++) {
				const uint32_t weight = (uint32_t)(WEIGHT);

				if (pixels == 1) {
					upper += weight * (uint32_t)bytes[k];
					continue;
				}
				part += weight * (uint32_t)words[k * pixels / 2 + pair];
				if (k % together == together - 1) {
					whole += part;
					upper += (uint32_t)((int32_t)(part + 32768U) >> 16);
					part = 0;
				}
			}
			if (pixels == 1) {
				sums[n] = (int32_t)upper;
				continue;
			}
			sums[n * pixels + 2 * pair] = (int32_t)(whole - upper * 65536U);
			sums[n * pixels + 2 * pair + 1] = (int32_t)upper;
		}
		if (channels == 0) {
			__builtin_memcpy(out, sums, 4U * (size_t)(size * pixels));
			return (const uint8_t *)c;
		}
		for (int32_t i = 0; i < size * pixels; i++) {
			const int32_t n = i / pixels;
			const int32_t rounding = vmcu_wrapping_shift(half, shifts[n]);

			out[i % pixels * pitch + n] =
				vmcu_fixed(sums[i], c[n], rounding, shifts[n]);
		}
		w = &shifts[(size + 3) & ~3];
		out += size;
		channels -= size;
	} while (channels > 0);
	return w;
}
"""
RUN = """
VMCU_APART const uint8_t *vmcu_paired_{0}x{1}{2}(const uint8_t *w, const void *tile, int32_t steps,
				int8_t *out, int32_t channels, int32_t half, int32_t pitch,
				int32_t code)
{{
	return vmcu_paired_block(w, tile, steps, out, channels, half, pitch, code, {0}, {1});
}}
"""
# Bytes of pixels that do not exist are read all the same.
COLUMNS = """
VMCU_APART const uint8_t *vmcu_paired_strip(const uint8_t *stream, const int8_t *tile, int8_t *out,
					int32_t channels, int32_t pixels, int32_t pitch,
					int32_t half, const uint8_t *window)
{
	const int32_t taps = window[0], stride = window[1];
	const int32_t size = 8 + ((taps * taps + 3) & ~3);
	const int32_t across = (taps == 3) ? 12 : 4;
	const int32_t down = (taps == 3) ? 4 : 4 * ((pixels - 1) * stride + taps);
	const int32_t blocks = (taps == 3) ? pixels : (pixels + 3) & ~3;

	for (; channels > 0; channels--, stream += size, tile++, out++) {
		const int32_t word = *(const int32_t *)stream;
		const int32_t shift = word & VMCU_SHIFT;

		if ((word & VMCU_EXACT) != 0) {
			break;
		}
		for (int32_t i = 0; i < blocks; i++) {
			int32_t sum = word >> 8;

			for (int32_t k = 0; k < taps * taps; k++) {
				const int32_t column = i * stride + k % taps;
				const volatile int8_t *x = &tile[column * across + k / taps * down];

				sum = vmcu_mac(sum, *x, (int8_t)stream[4 + k]);
			}
			if (i < pixels) {
				out[i * pitch] =
					vmcu_fixed(sum, *(const int32_t *)(stream + size - 4),
						vmcu_wrapping_shift(half, shift), shift);
			}
		}
	}
	return stream;
}
"""
PLANES = """
VMCU_APART bool vmcu_strip_words(struct vmcu_strip_block *block, bool again)
{
	const int32_t square = (block->taps == 0) ? 3 : 5;
	const int32_t taps = (block->taps > 0) ? block->taps : square;
	const int32_t stride = (block->even > block->odd) ? 1 : 2;

	for (;; again = true) {
		int32_t word, shift;

		if (again) {
			const int32_t step = ((uintptr_t)block->x & 1U) ? block->plane : 1;

			block->stream += block->size;
			block->x += step;
			block->last += step;
			block->patch++;
			block->left--;
			if (block->left == 0) {
				return false;
			}
		}
		word = *(const int32_t *)block->stream;
		for (int32_t i = 0; i < 4; i++) {
			block->sums[i] = word >> 8;
			for (int32_t k = 0; k < taps * taps; k++) {
				const int32_t r = k / taps, s = k % taps;
				const volatile int8_t *x = block->x + r / 2 * block->row + r % 2 * 2;

				x += 4 * i + ((stride == 1) ? 4 * s : s % 2 * block->odd + s / 2 * 4);
				if (r == taps - 1) {
					x = block->last + 2 * (i * stride + s);
				}
				block->sums[i] = vmcu_mac(block->sums[i], *x,
							(int8_t)block->stream[4 + k]);
			}
		}
		if ((word & VMCU_EXACT) != 0) {
			return true;
		}
		shift = word & VMCU_SHIFT;
		for (int32_t i = 0; i < ((block->count == 1) ? 1 : 4); i++) {
			block->patch[4 * i] = vmcu_fixed(
				block->sums[i],
				*(const int32_t *)(block->stream + block->size - 4),
				vmcu_wrapping_shift(block->half, shift), shift);
		}
	}
}
"""


def blocks(weight: str, size: str = "", suffix: str = "") -> str:
    """C of the functions for blocks; `weight` and `size` replace WEIGHT and BYTES."""
    block = BLOCK.replace("WEIGHT", weight).replace(" BYTES", size)
    return block + "".join(RUN.format(*shape, suffix) for shape in SHAPES)


def own_function(text: str, start: str) -> str:
    """C that declares a function of assembly, which is in the same file here."""
    assert text.count(start) == 1
    return text.replace(start, f"VMCU_APART {start}")


def strips_of_both() -> str:
    rv32 = depthwise_c.ALL_STRIPS.replace("fours(&job", "vmcu_paired_fours(&job")
    return f"if ((call->y & 1) != 0) {{{rv32}}} else {{{portable_body(all_strips, PAIRS)}}}"


# See Family. The instructions that others call are first.
OWN: Mapping[Instruction, str] = {
    stage: portable_body(stage, PAIRS),
    **strips_c.OWN,
    all_strips: strips_of_both(),
}
HELPERS = {
    **pairs.HELPERS,
    "paired_runs": own_function(pairs.HELPERS["paired_runs"], "vmcu_paired_run vmcu_paired_4x2,"),
    "paired_strips": own_function(
        depthwise_c.HELPERS["paired_strips"], "const uint8_t *vmcu_paired_strip("
    ),
    "interleave": strips_c.INTERLEAVE,
    "strip_block": own_function(strips_c.STRUCT, "bool vmcu_strip_words("),
}
LATER = {
    "paired_block": blocks("v[(k / 4 * size + n) * 4 + k % 4]"),
    "columns": COLUMNS,
    "planes": PLANES,
    "strip_blocks": strips_c.RUN,
}
# Of weights of 4 bits: the lower halves of bytes are those of the second half of the channels.
BYTE = "v[(k / 4 * size / 2 + n % (size / 2)) * 4 + k % 4]"
NIBBLE = f"(n < size / 2) ? {BYTE} >> 4 : vmcu_low_half({BYTE})"
INT4_HELPERS = {
    **int4.HELPERS,
    "paired_runs": own_function(
        int4.HELPERS["paired_runs"], f"vmcu_paired_run vmcu_paired_4x2{int4.SUFFIX},"
    ),
}
INT4_LATER = {"paired_block": blocks(NIBBLE, " / 2", int4.SUFFIX)}
