/*
 * SPDX-License-Identifier: Apache-2.0
 */

/**
 * @file
 * @brief Depthwise convolutions of a core that pairs pixels: a tile has a word of four channels for
 * each pixel under a strip, see `phase` and `row` of its job: from a column to the next, and from a
 * row to the next.
 *
 * Included by generated kernels after their instruction set and band.h.
 */

#ifndef VMCU_KERNELS_COLUMNS_H_
#define VMCU_KERNELS_COLUMNS_H_

#if defined(VMCU_COLUMNS)

/* A channel that the function is not for, tap by tap. */
VMCU_CALLED void vmcu_paired_any(const struct vmcu_strip_job *job, const uint8_t *w, int32_t size,
				 const int8_t *tile, int8_t *out)
{
	const struct vmcu_window *window = &job->p->window;
	const int32_t word = *(const int32_t *)w;
	const int32_t multiplier = *(const int32_t *)(w + size - 4);

	for (int32_t i = 0; i < job->wide; i++, out += job->pitch) {
		const int8_t *x = tile + 4 * i * window->stride_w * job->phase;
		const int8_t *v = (const int8_t *)w + 4;
		int32_t acc = word >> 8;

		for (int32_t r = 0; r < window->kernel_h; r++) {
			for (int32_t s = 0; s < window->kernel_w; s++) {
				acc = vmcu_mac(acc, x[4 * (r * job->row + s * job->phase)], *v++);
			}
		}
		vmcu_finish_any(job->p, &acc, 1, word, multiplier, out);
	}
}

/* Up to four channels of a strip. */
VMCU_CALLED void vmcu_paired_fours(const struct vmcu_strip_job *job, const uint8_t **w, int8_t *out,
				   int32_t lanes)
{
	const int8_t *tile = (const int8_t *)job->tile;
	const uint8_t window[] = {job->p->window.kernel_h, job->p->window.stride_w};
	const int32_t size = 8 + ((window[0] * window[0] + 3) & ~3);
	const uint8_t *at = *w;

	*w += (lanes + (lanes & 1)) * size;
	for (int32_t n = 0; n < lanes; n++, at += size) {
		const uint8_t *done = vmcu_paired_strip(at, tile + n, out + n, lanes - n, job->wide,
							job->pitch, vmcu_half(job->p), window);

		for (; at != done; n++) {
			at += size;
		}
		if (n < lanes) {
			vmcu_paired_any(job, at, size, tile + n, out + n);
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
