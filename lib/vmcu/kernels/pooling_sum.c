/*
 * SPDX-License-Identifier: Apache-2.0
 */

#include "gen/isa.h"

/** The sums of all pixels so far, by channel. */
struct sums {
	void *place;
	uint32_t bytes; /**< of one: 2 or 4 */
};

static int32_t sum_of(const struct sums *s, uint32_t c)
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

/** Adds taps, as far from @a x, to the sums of four channels from @a c on. */
VMCU_INLINE void add_four(const struct sums *s, uint32_t c, const int8_t *x, const int32_t *offsets,
			  const int32_t *end)
{
	int32_t acc[4];

	for (uint32_t i = 0; i < 4U; i++) {
		acc[i] = sum_of(s, c + i);
	}
	vmcu_sum_list(acc, x, offsets, end, 4);
	for (uint32_t i = 0; i < 4U; i++) {
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
		out[c] = vmcu_mean(p, sum_of(s, c) - zeros, count);
	}
}

/** add_four() for one channel. */
static void add_one(const struct sums *s, uint32_t c, const int8_t *x, const int32_t *offset,
		    const int32_t *end)
{
	int32_t sum = sum_of(s, c);

	for (; offset < end; offset++) {
		sum += x[*offset];
	}
	set_sum(s, c, sum);
}

VMCU_SMALL void vmcu_average_pool_sum(const struct vmcu_call *call)
{
	const struct vmcu_tensor *in = vmcu_call_input(call, 0);
	const struct sums s = {call->scratch, vmcu_sum_bytes(in)};
	const int8_t *x = vmcu_pixel(call->pool, in, call->y, call->x);
	int32_t offsets[VMCU_POOL_TAPS];
	int32_t left = call->columns;

	if (call->y == 0U && call->x == 0U) {
		__builtin_memset(call->scratch, 0, in->channels * s.bytes);
	}
	while (left > 0) {
		const int32_t count = vmcu_min(left, VMCU_POOL_TAPS);
		uint32_t c;

		for (int32_t i = 0; i < count; i++) {
			offsets[i] = i * in->channels;
		}
		for (c = 0; c + 4U <= in->channels; c += 4U) {
			add_four(&s, c, &x[c], offsets, &offsets[count]);
		}
		for (; c < in->channels; c++) {
			add_one(&s, c, &x[c], offsets, &offsets[count]);
		}
		x += count * in->channels;
		left -= count;
	}
	if (call->y + 1U == in->height && call->x + call->columns == in->width) {
		put_means(call, &s);
	}
}
