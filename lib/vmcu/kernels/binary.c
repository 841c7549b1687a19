/*
 * SPDX-License-Identifier: Apache-2.0
 */

#include <stddef.h>

#include "support.h"

/** From two centred values to one that lacks only the output's zero point. */
typedef int32_t (*combine_t)(const struct vmcu_binary_params *p, int32_t a, int32_t b);

/** An operand as a row of the output sees it: where it starts, and its steps. */
struct operand {
	const int8_t *at;
	int32_t pixel;
	int32_t channel;
};

static int32_t scaled(const struct vmcu_factor *factor, int32_t x)
{
	return vmcu_scaled(x, factor->multiplier, factor->shift);
}

static int32_t term(const struct vmcu_binary_params *p, const struct vmcu_factor *factor, int32_t x)
{
	return scaled(factor, vmcu_wrapping_shift(x, p->left_shift));
}

static int32_t sum(const struct vmcu_binary_params *p, int32_t a, int32_t b)
{
	return scaled(&p->output, term(p, &p->a, a) + term(p, &p->b, b));
}

static int32_t difference(const struct vmcu_binary_params *p, int32_t a, int32_t b)
{
	return scaled(&p->output, term(p, &p->a, a) - term(p, &p->b, b));
}

static int32_t reversed(const struct vmcu_binary_params *p, int32_t a, int32_t b)
{
	return scaled(&p->output, term(p, &p->b, b) - term(p, &p->a, a));
}

static int32_t squared(const struct vmcu_binary_params *p, int32_t a, int32_t b)
{
	const int32_t x = term(p, &p->a, a) - term(p, &p->b, b);

	return scaled(&p->output, x * x);
}

static int32_t product(const struct vmcu_binary_params *p, int32_t a, int32_t b)
{
	return scaled(&p->output, a * b);
}

/** The bytes themselves where no factor applies: both operands share the output's zero point. */
static int32_t compared(const struct vmcu_binary_params *p, const struct vmcu_factor *factor,
			int32_t x)
{
	return p->rescale ? scaled(factor, x) : x;
}

static int32_t minimum(const struct vmcu_binary_params *p, int32_t a, int32_t b)
{
	const int32_t x = compared(p, &p->a, a);
	const int32_t y = compared(p, &p->b, b);

	return (x < y) ? x : y;
}

static int32_t maximum(const struct vmcu_binary_params *p, int32_t a, int32_t b)
{
	const int32_t x = compared(p, &p->a, a);
	const int32_t y = compared(p, &p->b, b);

	return (x > y) ? x : y;
}

static int32_t prelu(const struct vmcu_binary_params *p, int32_t a, int32_t b)
{
	return (a >= 0) ? scaled(&p->a, a) : scaled(&p->output, a * b);
}

static int32_t float_sum(const struct vmcu_binary_params *p, int32_t a, int32_t b)
{
	const struct vmcu_float_sum *s = p->sum;
	const int32_t x = a + p->a_zero;
	const int32_t y = b + p->b_zero;
	int32_t sum;

	if (!vmcu_requant_is_float(true)) {
		return 0;
	}
	sum = x * s->a_scale + y * s->b_scale + s->bias;
	sum = vmcu_near_half(sum, s->fraction) ? vmcu_float_sum_exact(s, x, y) : sum >> s->shift;
	return sum - p->output_zero;
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
static int32_t quotient(const struct vmcu_binary_params *p, int32_t a, int32_t b)
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
	[VMCU_BINARY_SUM] = sum,           [VMCU_BINARY_DIFFERENCE] = difference,
	[VMCU_BINARY_REVERSED] = reversed, [VMCU_BINARY_SQUARED] = squared,
	[VMCU_BINARY_MINIMUM] = minimum,   [VMCU_BINARY_MAXIMUM] = maximum,
	[VMCU_BINARY_PRELU] = prelu,       [VMCU_BINARY_QUOTIENT] = quotient,
};

static struct operand input(const struct vmcu_call *call, uint16_t index)
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

static struct operand constant(const struct vmcu_call *call, const struct vmcu_binary_params *p)
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

/** A row, by whichever way to combine; what the compiler knows it puts into the loop. */
VMCU_INLINE void combine_row(const struct vmcu_call *call, combine_t combine)
{
	struct vmcu_binary_params p = *(const struct vmcu_binary_params *)vmcu_params(call);
	const int32_t channels = vmcu_call_output(call)->channels;
	const struct operand a = input(call, 0);
	const struct operand b = (p.constant != NULL) ? constant(call, &p) : input(call, 1);
	int8_t *dst = vmcu_pixel(call->pool, vmcu_call_output(call), call->y, call->x);

	p.sum = vmcu_constants(call, p.sum);
	for (int32_t x = 0; x < call->columns; x++) {
		const int8_t *first = a.at + x * a.pixel;
		const int8_t *second = b.at + x * b.pixel;

		for (int32_t c = 0; c < channels; c++) {
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

	switch (p->kind) {
	case VMCU_BINARY_PRODUCT:
		combine_row(call, product);
		break;
	case VMCU_BINARY_FLOAT_SUM:
		combine_row(call, float_sum);
		break;
	case VMCU_BINARY_FLOAT_PRODUCT:
		if ((p->output.shift & VMCU_LINE_SHIFT) != 0) {
			combine_row(call, line_product);
		} else {
			combine_row(call, float_product);
		}
		break;
	default:
		combine_row(call, kinds[p->kind]);
		break;
	}
}
