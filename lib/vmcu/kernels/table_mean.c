/*
 * SPDX-License-Identifier: Apache-2.0
 */

#include "support.h"

/** A sum of taps, and how many of them are inside of the image. */
struct taps {
	int64_t sum;
	int32_t count;
};

static struct taps gather_taps(const struct vmcu_call *call, const int32_t *table, int32_t x,
			       int32_t channel)
{
	const struct vmcu_table_mean_params *p = vmcu_params(call);
	const struct vmcu_tensor *in = vmcu_call_input(call, 0);
	const struct vmcu_window *w = &p->window;
	struct taps taps = {0};

	for (int32_t ky = 0; ky < w->kernel_h; ky++) {
		const int32_t y = call->y * w->stride_h - w->pad_top + ky * w->dilation_h;

		for (int32_t kx = 0; kx < w->kernel_w; kx++) {
			const int32_t column = x * w->stride_w - w->pad_left + kx * w->dilation_w;

			if (y < 0 || y >= in->height || column < 0 || column >= in->width) {
				continue;
			}
			taps.sum += table[vmcu_pixel(call->pool, in, (uint32_t)y,
						     (uint32_t)column)[channel] -
					  INT8_MIN];
			taps.count++;
		}
	}
	return taps;
}

/** sum / divisor to nearest, ties to even, within 2^20. */
static int32_t round_quotient(int64_t sum, int64_t divisor)
{
	const int64_t limit = (int64_t)1 << 20;
	const int64_t dividend = 2 * sum + divisor;
	int64_t quotient = dividend / (2 * divisor);
	int64_t rest = dividend % (2 * divisor);

	if (rest < 0) {
		rest += 2 * divisor;
		quotient--;
	}
	if (rest == 0 && quotient % 2 != 0) {
		quotient--;
	}
	return (int32_t)((quotient > limit) ? limit : (quotient < -limit) ? -limit : quotient);
}

void vmcu_table_mean(const struct vmcu_call *call)
{
	const struct vmcu_table_mean_params *p = vmcu_params(call);
	const struct vmcu_tensor *out = vmcu_call_output(call);
	const int32_t *table = vmcu_constants(call, p->table);
	int8_t *dst = vmcu_pixel(call->pool, out, call->y, call->x);

	for (int32_t x = call->x; x < call->x + call->columns; x++) {
		for (int32_t c = 0; c < out->channels; c++) {
			const struct taps taps = gather_taps(call, table, x, c);
			const int32_t inside = (taps.count > 0) ? taps.count : 1;
			const int64_t divisor = (p->divisor > 0) ? p->divisor : inside;

			*dst++ = vmcu_saturate(
				round_quotient(taps.sum, divisor * ((int64_t)1 << p->bits)),
				p->output_zero, p->act_min, p->act_max);
		}
	}
}
