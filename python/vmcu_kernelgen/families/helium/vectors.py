# SPDX-License-Identifier: Apache-2.0
"""Depthwise convolutions with MVE, sixteen channels of a pixel at once: products of 16 bits, of
which as many are added up as the stream says before sums are widened."""

from __future__ import annotations

from vmcu_tools.kernels.targets.portable.vectors import all_vectors

from .pixels import DECLARED, JOB_C

HELPERS = {
    "vectors": r"""
/* Bits of a vector's word; of the first one: some vector has a group of one tap. */
#define VMCU_VECTOR_TAPS 0xffff00
#define VMCU_VECTOR_ALONE 1

/* A tap of up to sixteen channels, `spread` bytes apart. */
VMCU_INLINE int8x16_t vmcu_vector_tap(const struct vmcu_places *in, int32_t tap, int32_t channel,
				      int32_t spread, mve_pred16_t some)
{
	const int8_t *x = in->start + in->offsets[tap] + channel;

	if (in->offsets[tap] == VMCU_PLACE_OUTSIDE) {
		return vdupq_n_s8((int8_t)in->zeros);
	}
	return (spread == 0) ? vdupq_n_s8(*x) : vldrbq_z_s8(x, some);
}

/* fixed_fast() of targets/portable/tile.py, without its zero point. */
VMCU_INLINE int32x4_t vmcu_fixed_vector(int32x4_t sum, const int32_t *multiplier,
					const int8_t *shift)
{
	const int32x4_t high = vqrdmulhq_s32(sum, vldrwq_s32(multiplier));

	return vrshlq_s32(vaddq_s32(high, vshrq_n_s32(sum, 31)), vldrbq_s32(shift));
}

/* A vector of channels, of which `lanes` exist; returns where the flash stream goes on. */
VMCU_CALLED const uint8_t *vmcu_any_vector(const struct vmcu_mac_params *p,
					   const struct vmcu_places *in, int32_t channel,
					   int32_t spread, const uint8_t *w, int8_t *out,
					   int32_t lanes)
{
	const mve_pred16_t some = vctp8q((uint32_t)lanes);
	const int32_t *c = (const int32_t *)w;
	const int8_t *v = (const int8_t *)&c[17];
	const int32_t several = (c[0] & VMCU_VECTOR_TAPS) >> 8;
	const bool exact = vmcu_is_exact(c[0]);
	int32x4_t a = vldrwq_s32(&c[1]);
	int32x4_t b = vldrwq_s32(&c[5]);
	int32x4_t d = vldrwq_s32(&c[9]);
	int32x4_t e = vldrwq_s32(&c[13]);

	for (int32_t tap = 0; tap < in->count;) {
		const int32_t stop = vmcu_min(tap + several, in->count);
		int16x8_t even = vdupq_n_s16(0);
		int16x8_t odd = vdupq_n_s16(0);

		for (; tap < stop; tap++, v += 16) {
			const int8x16_t x = vmcu_vector_tap(in, tap, channel, spread, some);
			const int8x16_t y = vldrbq_s8(v);

			even = vaddq_s16(even, vmullbq_int_s8(x, y));
			odd = vaddq_s16(odd, vmulltq_int_s8(x, y));
		}
		a = vaddq_s32(a, vmovlbq_s16(even));
		b = vaddq_s32(b, vmovltq_s16(even));
		d = vaddq_s32(d, vmovlbq_s16(odd));
		e = vaddq_s32(e, vmovltq_s16(odd));
	}
	c = (const int32_t *)v;
	if (exact) {
		int32_t sums[16];

		vstrwq_s32(&sums[0], a);
		vstrwq_s32(&sums[4], b);
		vstrwq_s32(&sums[8], d);
		vstrwq_s32(&sums[12], e);
		vmcu_store_quarters(p, sums, c, out, lanes);
		return (const uint8_t *)&c[32];
	}
	const int8_t *shift = (const int8_t *)&c[16];
	int16x8_t even = vqmovnbq_s32(vdupq_n_s16(0), vmcu_fixed_vector(a, c, shift));
	int16x8_t odd = vqmovnbq_s32(vdupq_n_s16(0), vmcu_fixed_vector(d, c + 8, shift + 8));

	even = vqmovntq_s32(even, vmcu_fixed_vector(b, c + 4, shift + 4));
	odd = vqmovntq_s32(odd, vmcu_fixed_vector(e, c + 12, shift + 12));
	even = vqaddq_n_s16(even, p->output_zero);
	odd = vqaddq_n_s16(odd, p->output_zero);
	vstrbq_p_s8(out, vqmovntq_s16(vqmovnbq_s16(vdupq_n_s8(0), even), odd), some);
	return (const uint8_t *)shift + 16;
}

/* Adjacent pixels; assembly has the members by their place. */
typedef void vmcu_store_exact(const struct vmcu_mac_params *p, const int32_t *sums,
			      const int32_t *c, int8_t *out, int32_t lanes);
struct vmcu_vector_job {
"""
    + JOB_C
    + r"""};

/* In pixels_helium.S. */
"""
    + DECLARED
    + r"""
/*
 * Where the rows of a window whose first one is `row` begin: NULL for padding, the zeros for a row
 * in two pieces. True if there is none of the latter.
 */
VMCU_INLINE bool vmcu_vector_rows(const int8_t **rows, const struct vmcu_vector_job *job,
				  const struct vmcu_call *call, int32_t row)
{
	const struct vmcu_window *window = &job->p->window;
	const struct vmcu_tensor *t = vmcu_call_input(call, 0);
	bool whole = true;

	for (int32_t r = window->kernel_h; r > 0; r--, rows++, row += window->dilation_h) {
		if (row < 0 || row >= t->height) {
			*rows = NULL;
		} else if (vmcu_unsplit(t, (uint32_t)row, 0, t->width) == t->width) {
			*rows = vmcu_row(call->pool, t, (uint32_t)row);
		} else {
			*rows = job->zeros;
			whole = false;
		}
	}
	return whole;
}

/* The taps of rows in two pieces of the window whose first one is at (row, pixel). */
VMCU_CALLED void vmcu_split_taps(const struct vmcu_vector_job *job, const struct vmcu_call *call,
				 int32_t row, int32_t pixel)
{
	const struct vmcu_tensor *t = vmcu_call_input(call, 0);
	const int8_t **tap = job->taps;

	for (int32_t r = 0; r < job->tall; r++, row += job->p->window.dilation_h) {
		for (int32_t i = 0; i < job->wide; i++, tap++) {
			const int32_t at = pixel + i * job->dilation;

			if (job->rows[r] == job->zeros && at >= 0 && at < job->width) {
				*tap = vmcu_pixel_at(call->pool, t, row, at);
			}
		}
	}
}

/* Runs of adjacent pixels, in assembly. */
VMCU_APART void vmcu_vector_runs(const struct vmcu_call *call, const struct vmcu_mac_params *p,
				  const uint8_t *stream)
{
	const struct vmcu_tensor *t = vmcu_call_input(call, 0);
	const int32_t stride = p->window.stride_w;
	const int32_t right = (p->window.kernel_w - 1) * p->window.dilation_w;
	const int32_t row = call->y * p->window.stride_h - p->window.pad_top;
	const int32_t tall = p->window.kernel_h, count = tall * p->window.kernel_w;
	const int32_t columns = call->columns, channels = t->channels;
	const bool back = call->layer->descending != 0;
	int8_t *const out = vmcu_output_start(call);
	const int8_t **taps = call->scratch;
	const int8_t **rows = &taps[(count + 3) & ~3];
	int8_t *const zeros = (int8_t *)&rows[tall];
	void (*run)(struct vmcu_vector_job *) = vmcu_vectors_of_any;
	struct vmcu_vector_job job;
	bool whole;

	job.stream = stream;
	job.channels = channels;
	job.taps = taps;
	job.rows = rows;
	job.tall = tall;
	job.wide = p->window.kernel_w;
	job.dilation = p->window.dilation_w;
	job.width = t->width;
	job.count = count;
	job.zeros = zeros;
	job.step = back ? -stride * channels : stride * channels;
	job.next = (back ? -channels : channels) - ((channels + 15) & ~15);
	job.delta = job.step - ((channels + 15) & ~15);
	job.zero = p->output_zero;
	job.p = p;
	job.store = vmcu_store_quarters;
	whole = vmcu_vector_rows(rows, &job, call, row);
	job.padded = row < 0 || row + (tall - 1) * p->window.dilation_h >= t->height;
	if ((stream[0] & VMCU_VECTOR_ALONE) == 0U && (count == 9 || count == 3)) {
		run = (count == 9) ? vmcu_vectors_of_nine : vmcu_vectors_of_three;
	}
	for (int32_t n = 0, left = p->steps, zero = p->input_zero; n < left; n += 16) {
		vstrbq_p_s8(zeros + n, vdupq_n_s8((int8_t)zero), vctp8q((uint32_t)(left - n)));
	}
	for (int32_t i = count; (i & 3) != 0; i++) {
		taps[i] = zeros;
	}
	for (int32_t done = 0; done < columns; done += job.pixels) {
		const int32_t x = back ? columns - 1 - done : done;
		const int32_t pixel = (call->x + x) * stride - p->window.pad_left;
		int32_t pixels = 1;

		if (whole && pixel >= 0 && pixel + right < t->width) {
			const int32_t room = back ? pixel : t->width - 1 - right - pixel;

			pixels = vmcu_min(room / stride + 1, columns - done);
		}
		vmcu_vector_taps(&job, pixel);
		if (!whole) {
			vmcu_split_taps(&job, call, row, pixel);
		}
		job.out = out + x * channels;
		job.pixels = pixels;
		run(&job);
		job.pixels = pixels;
	}
}
"""
}
OWN = {
    all_vectors: """
VMCU_OWN_PARAMS(vmcu_mac_params, p, call);
const uint8_t *const stream = vmcu_constants(call, p->stream);
const int32_t columns = call->columns;
const int32_t channels = vmcu_call_output(call)->channels;
const int32_t groups = p->groups;
const int32_t size = channels / groups;
int8_t *out = vmcu_output_start(call);
struct vmcu_places in;

VMCU_OWN_POINTER(call, p, stream);
if (p->run != 0U) {
	vmcu_vector_runs(call, p, stream);
	return;
}
for (int32_t done = 0; done < columns; done++) {
	const int32_t x = (call->layer->descending != 0) ? columns - 1 - done : done;
	const int32_t pixel = (call->x + x) * p->window.stride_w - p->window.pad_left;
	int8_t *to = out + x * channels;
	const uint8_t *w = stream;

	vmcu_places_find(&in, call, call->scratch,
			 call->y * p->window.stride_h - p->window.pad_top, pixel);
	for (int32_t g = 0; g < groups; g++) {
		for (int32_t n = 0; n < size; n += 16) {
			w = vmcu_any_vector(p, &in, g + n * p->run, p->run, w, to + n,
					    vmcu_min(16, size - n));
		}
		to += size;
	}
}
"""
}
