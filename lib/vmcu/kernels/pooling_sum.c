/*
 * SPDX-License-Identifier: Apache-2.0
 */

#include "gen/isa.h"

/** The sums of all pixels so far, by channel. */
struct sums {
	void *place;
	uint32_t bytes; /**< of one: 2 or 4 */
};

static int32_t sum(const struct sums *s, uint32_t c)
{
	return (s->bytes == 2U) ? ((const int16_t *)s->place)[c] : ((const int32_t *)s->place)[c];
}

static void set_sum(const struct sums *s, uint32_t c, int32_t value)
{
	if (s->bytes == 2U) {
		((int16_t *)s->place)[c] = (int16_t)value;
	} else {
		((int32_t *)s->place)[c] = value;
	}
}

/** Adds the call's pixels of up to four channels from @a c on. */
static void add_pixels(const struct vmcu_call *call, const struct sums *s, uint32_t c,
		       uint32_t lanes)
{
	const struct vmcu_tensor *in = vmcu_call_input(call, 0);
	const int8_t *x = vmcu_pixel(call->pool, in, call->y, call->x) + c;
	const bool first = call->y == 0U && call->x == 0U;
	int32_t acc[4];

	for (uint32_t i = 0; i < lanes; i++) {
		acc[i] = first ? 0 : sum(s, c + i);
	}
	if (lanes == 4U) {
		vmcu_sum_words(acc, x, in->channels, call->columns);
	} else {
		for (uint32_t n = 0; n < call->columns; n++, x += in->channels) {
			for (uint32_t i = 0; i < lanes; i++) {
				acc[i] += x[i];
			}
		}
	}
	for (uint32_t i = 0; i < lanes; i++) {
		set_sum(s, c + i, acc[i]);
	}
}

/** The output, from the sums of all pixels. */
VMCU_CALLED void put_means(const struct vmcu_call *call, const struct sums *s)
{
	const struct vmcu_average_pool_params *p = vmcu_params(call);
	const struct vmcu_tensor *in = vmcu_call_input(call, 0);
	const int32_t count = in->height * in->width;
	/* A mean that is rescaled counts from the zero point. */
	const int32_t zeros = p->rescale ? p->input_zero * count : 0;
	int8_t *out = vmcu_row(call->pool, vmcu_call_output(call), 0);

	for (uint32_t c = 0; c < in->channels; c++) {
		out[c] = vmcu_mean(p, sum(s, c) - zeros, count);
	}
}

VMCU_SMALL void vmcu_average_pool_sum(const struct vmcu_call *call)
{
	const struct vmcu_tensor *in = vmcu_call_input(call, 0);
	const struct sums s = {call->scratch, vmcu_sum_bytes(in)};
	uint32_t c;

	for (c = 0; c + 4U <= in->channels; c += 4U) {
		add_pixels(call, &s, c, 4U);
	}
	if (c < in->channels) {
		add_pixels(call, &s, c, in->channels - c);
	}
	if (call->y + 1U == in->height && call->x + call->columns == in->width) {
		put_means(call, &s);
	}
}
