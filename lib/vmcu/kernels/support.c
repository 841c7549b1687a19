/*
 * SPDX-License-Identifier: Apache-2.0
 */

#include "support.h"
#include "vectors.h"
#include "window.h"

struct vmcu_taps vmcu_taps(int32_t first, int32_t kernel, int32_t dilation, int32_t size)
{
	struct vmcu_taps taps = {.first = first, .dilation = dilation, .begin = 0, .end = kernel};

	if (first < 0) {
		taps.begin = (dilation - 1 - first) / dilation;
	}
	if (first + (kernel - 1) * dilation >= size) {
		taps.end = (first < size) ? (size - first + dilation - 1) / dilation : 0;
	}
	if (taps.begin > taps.end) {
		taps.begin = taps.end;
	}
	return taps;
}

__attribute__((noinline)) int8_t *vmcu_pixel_at(const struct vmcu_pool *pool,
						const struct vmcu_tensor *t, int32_t y, int32_t x)
{
	return vmcu_pixel(pool, t, (uint32_t)y, (uint32_t)x);
}

int8_t *vmcu_output_start(const struct vmcu_call *call)
{
	return vmcu_pixel_at(call->pool, vmcu_call_output(call), call->y, call->x);
}

const int8_t *vmcu_input_start(const struct vmcu_call *call, uint16_t index)
{
	return vmcu_pixel_at(call->pool, vmcu_call_input(call, index), call->y, call->x);
}

/** Calls vmcu_mac_source(), whose code is in this file once. */
VMCU_APART struct vmcu_source source_of(const struct vmcu_call *call,
					const struct vmcu_mac_params *p)
{
	return vmcu_mac_source(call, p);
}

/**
 * How many of @a rows of a source, from row @a y at @a x on, are contiguous in memory, at least.
 * Only rows that a window reads as a whole can be.
 */
VMCU_CALLED int32_t contiguous_rows(const struct vmcu_source *in, int32_t y, const int8_t *x,
				    int32_t rows)
{
	const struct vmcu_tensor *t = in->tensor;
	const int32_t bytes = t->width * t->channels;
	int32_t count;

	if (in->run != bytes || in->window->dilation_h != 1U) {
		return 1;
	}
	count = vmcu_source_unsplit(in, y, 0, rows * t->width) / t->width;
	return count > 1 && vmcu_straight(in->pool, t, vmcu_place(t, (uint32_t)y, 0), x,
					  (uint32_t)(count * bytes))
		       ? count
		       : 1;
}

VMCU_SMALL struct vmcu_source vmcu_dense_source(const struct vmcu_call *call,
						const struct vmcu_mac_params *p)
{
	struct vmcu_source in = source_of(call, p);
	const int32_t rows = p->window.kernel_h;
	const int32_t all = rows * p->run;
	int32_t row = call->y * p->window.stride_h - p->window.pad_top;
	int8_t *to = call->scratch;
	int32_t copied;

	if (rows == 1 && vmcu_source_row(&in, row)) {
		if (call->columns == 1U) {
			in.packed = true;
			in.rows = vmcu_source_at(&in, row, call->x);
		}
		return in;
	}
	in.packed = vmcu_rows_are_copied(&p->window, p->run);
	copied = in.packed ? p->run : 0;
	if (in.packed) {
		/* The weights of the last taps, up to whole words, are zero. */
		__builtin_memset(&to[(all - 1) & ~3], 0, 4);
	}
	for (int32_t left = rows, count; left > 0; left -= count) {
		count = 1;
		if (vmcu_source_row(&in, row)) {
			const int8_t *x = vmcu_source_at(&in, row, 0);

			count = contiguous_rows(&in, row, x,
						vmcu_min(left, in.tensor->height - row));
			/* Runs of whole lanes are in the stream as they are in memory. */
			if (count == rows && (in.packed ? all & 3 : p->run & 15) == 0) {
				in.packed = true;
				in.rows = x;
				in.run = all;
				return in;
			}
			__builtin_memcpy(to, x, (size_t)(count * copied));
		} else {
			__builtin_memset(to, in.zero, (size_t)p->run);
			in.rows = call->scratch;
		}
		to += count * copied;
		row += count * p->window.dilation_h;
	}
	if (in.packed) {
		in.run = (all + 3) & ~3;
		in.rows = call->scratch;
	}
	return in;
}

struct vmcu_source vmcu_conv_source(const struct vmcu_call *call, const struct vmcu_mac_params *p)
{
	struct vmcu_source in = source_of(call, p);
	const struct vmcu_tensor *t = in.tensor;
	const int32_t row = call->y * p->window.stride_h - p->window.pad_top;
	const int32_t below = (p->window.kernel_h - 1) * p->window.dilation_h;

	/* For a tile or two it does not pay. */
	if (call->columns > 4U && row >= 0 && row + below < t->height) {
		const uint32_t place = vmcu_place(t, (uint32_t)row, 0);
		const int8_t *x = vmcu_row(in.pool, t, (uint32_t)row);
		const uint32_t bytes = ((uint32_t)below + 1U) * t->width * t->channels;

		in.rows = vmcu_straight(in.pool, t, place, x, bytes) ? x : NULL;
	}
	return in;
}

const int8_t *vmcu_source_at(const struct vmcu_source *in, int32_t y, int32_t x)
{
	return vmcu_pixel_at(in->pool, in->tensor, y, x);
}

VMCU_SMALL const int8_t *vmcu_source_taps(const struct vmcu_source *in, int32_t y, int32_t x)
{
	if (in->rows != NULL && (in->packed || !vmcu_source_row(in, y))) {
		return in->rows;
	}
	return vmcu_source_at(in, y, x);
}

int32_t vmcu_source_unsplit(const struct vmcu_source *in, int32_t y, int32_t x, int32_t pixels)
{
	return vmcu_unsplit(in->tensor, (uint32_t)y, (uint32_t)x, pixels);
}

/* Not in place where other functions of this file use it, either. */
__attribute__((noinline)) int32_t vmcu_scaled(int32_t x, int32_t multiplier, int32_t shift)
{
	return vmcu_fixed_scale(x, multiplier, shift);
}

/** One accumulator times a factor of whichever kind, see kernels/integer_scale.py. */
VMCU_CALLED int32_t scaled(bool is_float, int32_t acc, int32_t multiplier, int32_t word)
{
	const union {
		int32_t bits;
		float value;
	} factor = {multiplier};

	if (!is_float) {
		return vmcu_scaled(acc, multiplier, word);
	}
	if ((word & VMCU_LINE_SHIFT) == 0) {
		return vmcu_float_scale(acc, factor.value);
	}
	return vmcu_on_line(vmcu_line(multiplier, word, 0), acc);
}

VMCU_SMALL int8_t vmcu_any(const struct vmcu_mac_params *p, int32_t acc, int32_t multiplier,
			   int32_t word)
{
	const bool is_float = vmcu_requant_is_float(p->is_float != 0U);

	return vmcu_saturate(scaled(is_float, acc, multiplier, word), p->output_zero, p->act_min,
			     p->act_max);
}

void vmcu_any_channels(const struct vmcu_mac_params *p, const int32_t *acc,
		       const int32_t *multiplier, const int32_t *word, int8_t *out, int32_t count)
{
	const int32_t zero = p->output_zero - VMCU_LESS;
	const bool is_float = vmcu_requant_is_float(p->is_float != 0U);

	for (; count > 0; count--, acc++, multiplier++, word++, out++) {
		if (is_float && (*word & VMCU_LINE_WHOLE) != 0) {
			*out = vmcu_saturate_less(
				vmcu_on_line(vmcu_line(*multiplier, *word, zero), *acc));
		} else {
			*out = vmcu_any(p, *acc, *multiplier, *word);
		}
	}
}

const uint8_t *vmcu_exact_block(const struct vmcu_mac_params *p, int32_t *acc, int32_t channels,
				int32_t pixels, const uint8_t *w, int8_t *out, int32_t pitch,
				int32_t left)
{
	const int32_t *c = (const int32_t *)w;

	left = vmcu_min(channels, left);
	if (pixels == 1) {
		vmcu_any_channels(p, acc, c, &c[channels], out, left);
		left = 0;
	}
	for (int32_t i = 0; i < left; i++) {
		const int32_t word = c[channels + i];
		const int32_t *const end = acc + pixels;
		int8_t *o = out++;

		if (!vmcu_are_lines(p, word)) {
			for (; acc < end; o += pitch) {
				*o = vmcu_any(p, *acc++, c[i], word);
			}
			continue;
		}
		const struct vmcu_line line = vmcu_line(c[i], word, p->output_zero - VMCU_LESS);

		for (; acc < end; o += pitch) {
			*o = vmcu_saturate_less(vmcu_on_line(line, *acc++));
		}
	}
	return (const uint8_t *)&c[2 * channels];
}

int32_t vmcu_product_start(const int8_t *x, int32_t count, int32_t x_zero, int32_t y_zero)
{
	int32_t sum = -x_zero * count;

#if defined(VMCU_VECTORS)
	for (; count >= 16; count -= 16, x += 16) {
		sum = vaddvaq_s8(sum, vldrbq_s8(x));
	}
#endif
	for (int32_t i = 0; i < count; i++) {
		sum += x[i];
	}
	return -y_zero * sum;
}

#if defined(VMCU_VECTORS)
/** vmcu_product_store() where the factor is no float32 number. */
VMCU_APART void store_vectors(const struct vmcu_product *q, bool line, const int32_t *acc,
			      int8_t *out, int32_t count)
{
	const struct vmcu_product own = *q;

	for (; count > 0; count -= 4, acc += 4, out += 4) {
		const int32x4_t sums = vmcu_four_words(acc, count);

		vmcu_put_four(out,
			      line ? vmcu_line_four(sums, own.multiplier, own.shift)
				   : vmcu_fixed_four(sums, own.multiplier, own.shift),
			      own.output_zero, own.act_min, own.act_max, count);
	}
}
#endif

VMCU_SMALL void vmcu_product_store(const struct vmcu_product *q, const int32_t *acc, int8_t *out,
				   int32_t count)
{
#if defined(VMCU_VECTORS)
	const bool is_float = vmcu_requant_is_float(q->is_float != 0U);

	if (!is_float || (q->shift & VMCU_LINE_SHIFT) != 0) {
		store_vectors(q, is_float, acc, out, count);
		return;
	}
#endif
	for (int32_t i = 0; i < count; i++) {
		const int32_t value = scaled(vmcu_requant_is_float(q->is_float != 0U), acc[i],
					     q->multiplier, q->shift);

		out[i] = vmcu_saturate(value, q->output_zero, q->act_min, q->act_max);
	}
}

/** x / count, rounded towards zero; the magnitude of the quotient is below 512. */
static int32_t quotient(int32_t x, int32_t count)
{
#if VMCU_LONG_MULTIPLY
	return x / count;
#else
	/* The division of the library depends on its operands. */
	const int32_t sign = vmcu_sign(x);
	int32_t rest = (x ^ sign) - sign;
	int32_t magnitude = 0;

	for (int32_t bit = 8; bit >= 0; bit--) {
		const int32_t part = count << bit;
		const int32_t less = vmcu_sign(rest - part);

		rest -= part & ~less;
		magnitude += magnitude + 1 + less;
	}
	return (magnitude ^ sign) - sign;
#endif
}

/** x / count to nearest, ties away from zero. */
static int32_t rounded_quotient(int32_t x, int32_t count)
{
	const int32_t sign = vmcu_sign(x);

	return quotient(x + ((count / 2) ^ sign) - sign, count);
}

VMCU_SMALL int8_t vmcu_mean(const struct vmcu_average_pool_params *p, int32_t sum, int32_t count)
{
	const bool is_float = vmcu_requant_is_float(p->rescale == VMCU_MEAN_OF_SUM_FLOAT);
	int32_t value = sum;

	if (p->rescale == VMCU_MEAN_KEPT) {
		return vmcu_saturate(rounded_quotient(sum, count), 0, p->act_min, p->act_max);
	}
	if (p->rescale == VMCU_MEAN_OF_256) {
		/* In two parts: sum * 256 alone would overflow for large windows. */
		const int32_t whole = quotient(sum, count);

		value = whole * 256 + rounded_quotient((sum - whole * count) * 256, count);
	}
	value = scaled(is_float, value, p->factor.multiplier, p->factor.shift);
	return vmcu_saturate(value, p->output_zero, p->act_min, p->act_max);
}

int32_t vmcu_maximum(const int8_t *src, int32_t channels)
{
	int32_t result = INT8_MIN;

#if defined(VMCU_VECTORS)
	for (; channels >= 16; channels -= 16, src += 16) {
		result = vmaxvq_s8((int8_t)result, vldrbq_s8(src));
	}
#endif
	for (int32_t c = 0; c < channels; c++) {
		result = vmcu_larger(src[c], result);
	}
	return result;
}

int32_t vmcu_saturating_shift(int32_t x, int32_t shift)
{
	const int32_t shifted = vmcu_wrapping_shift(x, shift);
	const uint32_t lost = (uint32_t)((shifted >> shift) ^ x);
	const int32_t limit = vmcu_sign(x) ^ INT32_MAX;

	return shifted ^ ((shifted ^ limit) & vmcu_sign((int32_t)(lost | (0U - lost))));
}

VMCU_SMALL int32_t vmcu_reciprocal(int32_t fraction)
{
	const int32_t half_denominator = (int32_t)(((uint32_t)fraction >> 1) + (UINT32_C(1) << 30));
	int32_t estimate = 1515870810 + vmcu_high_mul(half_denominator, -1010580540);

	for (int i = 0; i < 3; i++) {
		const int32_t error = (1 << 29) - vmcu_high_mul(half_denominator, estimate);

		estimate += vmcu_saturating_shift(vmcu_high_mul(estimate, error), 2);
	}
	return vmcu_saturating_shift(estimate, 1);
}
