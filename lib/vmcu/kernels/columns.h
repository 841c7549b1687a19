/*
 * SPDX-License-Identifier: Apache-2.0
 */

/**
 * @file
 * @brief Depthwise convolutions of a core that pairs pixels: a tile has a word of four channels for
 * each pixel under a strip, all rows of a column, then those of the next.
 *
 * Included by generated kernels after their instruction set and band.h.
 */

#ifndef VMCU_KERNELS_COLUMNS_H_
#define VMCU_KERNELS_COLUMNS_H_

#if defined(VMCU_COLUMNS)

typedef const uint8_t *vmcu_paired_strip(const uint8_t *stream, const int8_t *tile, int8_t *out,
					 int32_t channels, int32_t pixels, int32_t pitch,
					 int32_t half);

/* A window: its taps across, its stride, bytes of a channel in the stream, where its weights are
 * there behind the channel's word, and the function for it. */
struct vmcu_paired_window {
	uint8_t taps, stride, size;
	const uint8_t *places;
	vmcu_paired_strip *run;
};

/* A channel that the function is not for, tap by tap. */
VMCU_CALLED void vmcu_paired_any(const struct vmcu_strip_job *job,
				 const struct vmcu_paired_window *window, const uint8_t *w,
				 const int8_t *tile, int8_t *out)
{
	const int32_t word = *(const int32_t *)w;
	const int32_t multiplier = *(const int32_t *)(w + window->size - 4);
	const int32_t taps = window->taps;

	for (int32_t i = 0; i < job->wide; i++, out += job->pitch) {
		const int8_t *x = tile + 4 * i * window->stride * taps;
		int32_t acc = word >> 8;

		for (int32_t k = 0; k < taps * taps; k++) {
			const int32_t at = k % taps * taps + k / taps;

			acc = vmcu_mac(acc, x[4 * at], (int8_t)w[4 + window->places[k]]);
		}
		if (vmcu_is_exact(word)) {
			vmcu_finish_any(job->p, &acc, 1, word, multiplier, out);
		} else {
			const int32_t shift = word & VMCU_SHIFT;
			const int32_t half = vmcu_half(job->p);

			*out = vmcu_fixed(acc, multiplier, vmcu_wrapping_shift(half, shift), shift);
		}
	}
}

/* Up to four channels of a strip. */
VMCU_CALLED void vmcu_paired_fours(const struct vmcu_strip_job *job,
				   const struct vmcu_paired_window *window, const uint8_t **w,
				   int8_t *out, int32_t lanes)
{
	const int8_t *tile = (const int8_t *)job->tile;
	const uint8_t *at = *w;

	*w += (lanes + (lanes & 1)) * window->size;
	for (int32_t n = 0; n < lanes; n++) {
		const uint8_t *done = at;

		if (!vmcu_is_exact(*(const int32_t *)at)) {
			done = window->run(at, tile + n, out + n, lanes - n, job->wide, job->pitch,
					   vmcu_half(job->p));
		}
		if (done == at + (lanes - n) * window->size) {
			break;
		}
		for (; at != done; n++) {
			at += window->size;
		}
		if (n < lanes) {
			vmcu_paired_any(job, window, at, tile + n, out + n);
			at += window->size;
		}
	}
}

/* Pixels `pitch` bytes apart, up to four channels of each, to words `step` bytes apart. */
VMCU_APART void vmcu_paired_pixels(int8_t *to, int32_t step, const int8_t *x, int32_t pitch,
				   int32_t count, int32_t lanes)
{
	if (lanes < 4) {
		for (; count > 0; count--, to += step, x += pitch) {
			for (int32_t i = 0; i < lanes; i++) {
				to[i] = x[i];
			}
		}
	} else if ((((uintptr_t)x | (uintptr_t)pitch) & 3U) == 0U) {
		for (; count >= 2; count -= 2, to += 2 * step, x += 2 * pitch) {
			*(vmcu_pair_t *)(void *)to = *(const vmcu_pair_t *)(const void *)x;
			*(vmcu_pair_t *)(void *)(to + step) =
				*(const vmcu_pair_t *)(const void *)(x + pitch);
		}
		if (count > 0) {
			*(vmcu_pair_t *)(void *)to = *(const vmcu_pair_t *)(const void *)x;
		}
	} else {
		for (; count > 0; count--, to += step, x += pitch) {
			const int8_t a = x[0], b = x[1], c = x[2], d = x[3];

			to[0] = a;
			to[1] = b;
			to[2] = c;
			to[3] = d;
		}
	}
}

#endif

#endif /* VMCU_KERNELS_COLUMNS_H_ */
