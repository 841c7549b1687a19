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
	for (; count > 0; count--, to += step, x += pitch) {
		if (lanes < 4) {
			for (int32_t i = 0; i < lanes; i++) {
				to[i] = x[i];
			}
		} else {
			const int8_t a = x[0], b = x[1], c = x[2], d = x[3];

			to[0] = a;
			to[1] = b;
			to[2] = c;
			to[3] = d;
		}
	}
}

/* Up to four channels, from @a c on, of `count` pixels of all rows under a strip. */
VMCU_APART void vmcu_paired_rows(const struct vmcu_strip_job *job, int8_t *to,
				 const struct vmcu_band_row *row, int32_t c, int32_t count,
				 int32_t lanes)
{
	const struct vmcu_band_row *const end = row + job->p->window.kernel_h;
	const int32_t pitch = job->pitch, step = 4 * job->phase, down = 4 * job->row;

	for (; row != end; row++, to += down) {
		const int32_t first = vmcu_min(row->split, count);
		const int8_t *x = row->x;

		if (x == NULL) {
			continue;
		}
		x += c;
		if (first == count && lanes == 4 &&
		    (((uintptr_t)x | (uintptr_t)pitch) & 3U) == 0U) {
			for (int8_t *at = to; at < to + count * step; at += step, x += pitch) {
				*(vmcu_pair_t *)(void *)at = *(const vmcu_pair_t *)(const void *)x;
			}
			continue;
		}
		vmcu_paired_pixels(to, step, x, pitch, first, lanes);
		if (first < count) {
			vmcu_paired_pixels(to + first * step, step, row->behind + first * pitch + c,
					   pitch, count - first, lanes);
		}
	}
}

#endif

#endif /* VMCU_KERNELS_COLUMNS_H_ */
