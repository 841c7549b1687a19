/*
 * SPDX-License-Identifier: Apache-2.0
 */

#include <stddef.h>

#include "support.h"
#include "vectors.h"

/** From two centred values to one that lacks only the output's zero point. */
typedef int32_t (*combine_t)(const struct vmcu_binary_params *p, int32_t a, int32_t b);

/** An operand as a row of the output sees it: where it starts, and its steps. */
struct operand {
	const int8_t *at;
	int32_t pixel;
	int32_t channel;
};

static int32_t apply_factor(const struct vmcu_factor *factor, int32_t x)
{
	return vmcu_scaled(x, factor->multiplier, factor->shift);
}

static int32_t scale_term(const struct vmcu_binary_params *p, const struct vmcu_factor *factor,
			  int32_t x)
{
	return apply_factor(factor, vmcu_wrapping_shift(x, p->left_shift));
}

static int32_t add_terms(const struct vmcu_binary_params *p, int32_t a, int32_t b)
{
	return apply_factor(&p->output, scale_term(p, &p->a, a) + scale_term(p, &p->b, b));
}

static int32_t subtract_terms(const struct vmcu_binary_params *p, int32_t a, int32_t b)
{
	return apply_factor(&p->output, scale_term(p, &p->a, a) - scale_term(p, &p->b, b));
}

static int32_t subtract_reversed(const struct vmcu_binary_params *p, int32_t a, int32_t b)
{
	return apply_factor(&p->output, scale_term(p, &p->b, b) - scale_term(p, &p->a, a));
}

static int32_t square_difference(const struct vmcu_binary_params *p, int32_t a, int32_t b)
{
	const int32_t x = scale_term(p, &p->a, a) - scale_term(p, &p->b, b);

	return apply_factor(&p->output, x * x);
}

static int32_t multiply_operands(const struct vmcu_binary_params *p, int32_t a, int32_t b)
{
	return apply_factor(&p->output, a * b);
}

/** The bytes themselves where no factor applies: both operands share the output's zero point. */
static int32_t scale_operand(const struct vmcu_binary_params *p, const struct vmcu_factor *factor,
			     int32_t x)
{
	return p->rescale ? apply_factor(factor, x) : x;
}

static int32_t smaller_operand(const struct vmcu_binary_params *p, int32_t a, int32_t b)
{
	const int32_t x = scale_operand(p, &p->a, a);
	const int32_t y = scale_operand(p, &p->b, b);

	return vmcu_at_most(x, y);
}

static int32_t larger_operand(const struct vmcu_binary_params *p, int32_t a, int32_t b)
{
	const int32_t x = scale_operand(p, &p->a, a);
	const int32_t y = scale_operand(p, &p->b, b);

	return vmcu_at_least(x, y);
}

static int32_t apply_prelu(const struct vmcu_binary_params *p, int32_t a, int32_t b)
{
	return (a >= 0) ? apply_factor(&p->a, a) : apply_factor(&p->output, a * b);
}

static int32_t float_sum(const struct vmcu_binary_params *p, int32_t a, int32_t b)
{
	if (!vmcu_requant_is_float(true)) {
		return 0;
	}
	return vmcu_float_sum_of(p->sum, a + p->a_zero, b + p->b_zero) - p->output_zero;
}

/** A product whose factor is no line, see kernels/integer_scale.py, but a float32. */
static int32_t float_product(const struct vmcu_binary_params *p, int32_t a, int32_t b)
{
	const union {
		int32_t bits;
		float value;
	} factor = {p->output.multiplier};

	if (!vmcu_requant_is_float(true)) {
		return 0;
	}
	return vmcu_float_scale_add(a * b, factor.value, p->output_zero + p->offset) -
	       (p->output_zero + p->offset);
}

static int32_t line_product(const struct vmcu_binary_params *p, int32_t a, int32_t b)
{
	return vmcu_on_line(vmcu_line(p->output.multiplier, p->output.shift, 0), a * b);
}

/**
 * As TensorFlow Lite divides: by multiplying with the reciprocal of b, in [1/2, 1), after a has
 * been shifted left as far as it goes. The importer sees to it that no shift leaves 0 to 31.
 */
static int32_t divide_operands(const struct vmcu_binary_params *p, int32_t a, int32_t b)
{
	const int32_t sign = (b < 0) ? -1 : 1;
	const int32_t dividend = a * sign;
	const uint32_t rest = (uint32_t)((dividend < 0) ? ~dividend : dividend);
	const uint32_t divisor = (uint32_t)(b * sign);
	int32_t room;
	int32_t head;
	int32_t inverse;
	int32_t scaled_up;

	if (divisor == 0U) {
		return (a > 0) ? INT16_MAX : ((a < 0) ? INT16_MIN : 0);
	}
	if (a == 0) {
		return 0;
	}
	room = __builtin_clz(divisor);
	head = (rest == 0U) ? 31 : __builtin_clz(rest) - 1;
	inverse = vmcu_reciprocal((int32_t)((divisor << room) - (UINT32_C(1) << 31)));
	scaled_up = vmcu_high_mul(vmcu_wrapping_shift(dividend, head), inverse);
	return vmcu_rounding_shift(vmcu_high_mul(scaled_up, p->output.multiplier),
				   31 - room + head - p->output.shift);
}

static const combine_t kinds[] = {
	[VMCU_BINARY_SUM] = add_terms,
	[VMCU_BINARY_DIFFERENCE] = subtract_terms,
	[VMCU_BINARY_REVERSED] = subtract_reversed,
	[VMCU_BINARY_SQUARED] = square_difference,
	[VMCU_BINARY_MINIMUM] = smaller_operand,
	[VMCU_BINARY_MAXIMUM] = larger_operand,
	[VMCU_BINARY_PRELU] = apply_prelu,
	[VMCU_BINARY_QUOTIENT] = divide_operands,
};

static struct operand input_operand(const struct vmcu_call *call, uint16_t index)
{
	const struct vmcu_tensor *t = vmcu_call_input(call, index);
	const uint32_t y = (t->height > 1U) ? call->y : 0U;
	const uint32_t x = (t->width > 1U) ? call->x : 0U;

	return (struct operand){
		.at = vmcu_pixel(call->pool, t, y, x),
		.pixel = (t->width > 1U) ? t->channels : 0,
		.channel = (t->channels > 1U) ? 1 : 0,
	};
}

static struct operand constant_operand(const struct vmcu_call *call,
				       const struct vmcu_binary_params *p)
{
	const uint32_t y = (p->constant_height > 1U) ? call->y : 0U;
	const uint32_t x = (p->constant_width > 1U) ? call->x : 0U;

	return (struct operand){
		.at = (const int8_t *)vmcu_constants(call, p->constant) +
		      (y * p->constant_width + x) * p->constant_channels,
		.pixel = (p->constant_width > 1U) ? p->constant_channels : 0,
		.channel = (p->constant_channels > 1U) ? 1 : 0,
	};
}

#if defined(VMCU_VECTORS)
#include "binary_vectors.h"
#endif

/** Bits of a shift up to which multiply_some() computes within 32 bits. */
#define SHIFT_BITS 20

/** Products times less than a half, vmcu_fixed_scale() with both roundings as additions. */
VMCU_INLINE void multiply_some(const struct vmcu_binary_params *p, struct operand a,
			       struct operand b, int8_t *dst, int32_t count, bool is_whole)
{
	const int32_t shift = -p->output.shift;
	const int32_t half = (2 * p->output_zero + 1) * (1 << (shift - 1));
	const int32_t multiplier = p->output.multiplier;
	const int32_t a_zero = p->a_zero, b_zero = 2 * p->b_zero;
	const int32_t low = p->act_min, high = p->act_max;

	while (count > 0) {
		const int32_t twice = (*a.at - a_zero) * (2 * *b.at - b_zero);
		int32_t value = vmcu_high_round(twice, multiplier);

		value = (value + (value >> 31) + half) >> shift;
		*dst++ = is_whole ? vmcu_saturate8(value) : vmcu_saturate(value, 0, low, high);
		a.at += a.channel;
		b.at += b.channel;
		count--;
	}
}

/** multiply_some() for any bounds. */
VMCU_APART void multiply_any(const struct vmcu_binary_params *p, struct operand a, struct operand b,
			     int8_t *dst, int32_t count)
{
	if (p->act_min == INT8_MIN && p->act_max == INT8_MAX) {
		multiply_some(p, a, b, dst, count, true);
	} else {
		multiply_some(p, a, b, dst, count, false);
	}
}

/** A row of an output, and what it is computed from. */
struct row {
	struct vmcu_binary_params p;
	struct operand a;
	struct operand b;
	int8_t *dst;
	int32_t channels;
	int32_t columns;
};

/** Computes a row with a function; the compiler puts a known one into the loop. */
VMCU_INLINE void combine_row(const struct row *row, combine_t combine)
{
	const struct vmcu_binary_params p = row->p;
	const struct operand a = row->a, b = row->b;
	int8_t *dst = row->dst;

#if defined(VMCU_VECTORS)
	if (combine == multiply_operands || combine == line_product) {
		multiply_row(&p, combine == line_product, a, b, dst, row->channels, row->columns);
		return;
	}
#endif
	for (int32_t x = 0; x < row->columns; x++) {
		const int8_t *first = a.at + x * a.pixel;
		const int8_t *second = b.at + x * b.pixel;

		if (combine == multiply_operands && p.output.shift < 0 &&
		    p.output.shift >= -SHIFT_BITS) {
			multiply_any(&p, (struct operand){first, 0, a.channel},
				     (struct operand){second, 0, b.channel}, dst, row->channels);
			dst += row->channels;
			continue;
		}
		for (int32_t c = row->channels; c > 0; c--) {
			const int32_t value = combine(&p, *first - p.a_zero, *second - p.b_zero);

			*dst++ = vmcu_saturate(value, p.output_zero, p.act_min, p.act_max);
			first += a.channel;
			second += b.channel;
		}
	}
}

void vmcu_binary(const struct vmcu_call *call)
{
	const struct vmcu_binary_params *p = vmcu_params(call);
	struct row row = {
		.p = *p,
		.a = input_operand(call, 0),
		.dst = vmcu_pixel(call->pool, vmcu_call_output(call), call->y, call->x),
		.channels = vmcu_call_output(call)->channels,
		.columns = call->columns,
	};

	row.b = (p->constant != NULL) ? constant_operand(call, p) : input_operand(call, 1);
	row.p.sum = vmcu_constants(call, p->sum);
	if (row.a.pixel == row.channels * row.a.channel &&
	    row.b.pixel == row.channels * row.b.channel) {
		row.channels *= row.columns;
		row.columns = 1;
	}
	switch (p->kind) {
	case VMCU_BINARY_PRODUCT:
		combine_row(&row, multiply_operands);
		break;
	case VMCU_BINARY_FLOAT_SUM:
		combine_row(&row, float_sum);
		break;
	case VMCU_BINARY_FLOAT_PRODUCT:
		if ((p->output.shift & VMCU_LINE_SHIFT) != 0) {
			combine_row(&row, line_product);
		} else {
			combine_row(&row, float_product);
		}
		break;
	default:
		combine_row(&row, kinds[p->kind]);
		break;
	}
}
