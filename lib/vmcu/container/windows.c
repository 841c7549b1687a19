/*
 * SPDX-License-Identifier: Apache-2.0
 */

/**
 * @file
 * @brief Checks of the generated kernels without weights.
 */

#include "check.h"

#include "../compiled.h"
#include "../kernels/window.h"

static bool check_pool(const struct vmcu_check *c, const struct vmcu_window *w)
{
	return vmcu_check_inputs(c, 1U) && vmcu_check_calls(c) && vmcu_check_window(c, w) &&
	       vmcu_check_input(c, 0)->channels == vmcu_check_output(c)->channels;
}

static bool is_mean(const struct vmcu_average_pool_params *p)
{
	return p->rescale <= VMCU_MEAN_OF_SUM_FLOAT &&
	       (p->rescale == VMCU_MEAN_OF_SUM_FLOAT || vmcu_check_shift(p->factor.shift));
}

/** True if each of @a count windows along an axis has a tap inside @a size places. */
static bool all_see(int32_t count, int32_t stride, int32_t pad, int32_t taps, int32_t dilation,
		    int32_t size)
{
	for (int32_t i = 0; i < count; i++) {
		const struct vmcu_taps inside = vmcu_taps(i * stride - pad, taps, dilation, size);

		if (inside.begin >= inside.end) {
			return false;
		}
	}
	return true;
}

/** True if no window is beside the image, for a mean of nothing is none. */
static bool see_image(const struct vmcu_check *c, const struct vmcu_window *w)
{
	const struct vmcu_tensor *in = vmcu_check_input(c, 0);
	const struct vmcu_tensor *out = vmcu_check_output(c);

	return all_see(out->height, w->stride_h, w->pad_top, w->kernel_h, w->dilation_h,
		       in->height) &&
	       all_see(out->width, w->stride_w, w->pad_left, w->kernel_w, w->dilation_w, in->width);
}

VMCU_SMALL bool vmcu_check_average_pool(const struct vmcu_check *c)
{
	const struct vmcu_average_pool_params *p = c->params;

	return check_pool(c, &p->window) && vmcu_check_bool(&p->count_padding) && is_mean(p) &&
	       (p->count_padding || see_image(c, &p->window));
}

VMCU_SMALL bool vmcu_check_average_pool_sum(const struct vmcu_check *c)
{
	const struct vmcu_average_pool_params *p = c->params;
	const struct vmcu_tensor *out = vmcu_check_output(c);
	const struct vmcu_tensor *in;

	if (!vmcu_check_inputs(c, 1U)) {
		return false;
	}
	in = vmcu_check_input(c, 0);
	/* It is called for the input's columns. */
	return is_mean(p) && c->layer->rows == in->height && c->layer->width == in->width &&
	       c->layer->descending == 0U && vmcu_check_columns(c, 0) && out->height == 1U &&
	       out->width == 1U && out->channels == in->channels &&
	       vmcu_check_scratch(c, vmcu_sum_bytes(in) * in->channels);
}

/** True if no sum of two bytes leaves 32 bits. */
static bool sums_fit(const struct vmcu_add_params *p)
{
	const int64_t bias = p->bias;
	const int64_t room = INT32_MAX - ((bias < 0) ? -bias : bias);

	for (uint32_t corner = 0; corner < 4U; corner++) {
		const int64_t a = ((corner & 1U) != 0U) ? INT8_MAX : INT8_MIN;
		const int64_t b = ((corner & 2U) != 0U) ? INT8_MAX : INT8_MIN;
		const int64_t sum = ((a * p->a_scale) >> 8) + ((b * p->b_scale) >> 8);

		if (sum > room || sum < -room) {
			return false;
		}
	}
	return true;
}

VMCU_SMALL bool vmcu_check_add(const struct vmcu_check *c)
{
	const struct vmcu_add_params *p = c->params;

	return vmcu_check_alike(c, 2U) && p->shift >= 0 && p->shift <= 31 && sums_fit(p);
}

/** True if the shift of a product's scale is one; a line has its own in seven bits. */
static bool is_product(const struct vmcu_product *q)
{
	return (q->is_float != 0U) ? vmcu_check_line(q->shift) : vmcu_check_shift(q->shift);
}

/** True if both inputs are matrices that the kernels may go through. */
static bool are_matrices(const struct vmcu_check *c)
{
	return vmcu_check_inputs(c, 2U) && vmcu_check_calls(c) && vmcu_check_rows(c, 0) &&
	       vmcu_check_rows(c, 1) &&
	       vmcu_check_input(c, 0)->height == vmcu_check_output(c)->height &&
	       vmcu_check_input(c, 1)->height == vmcu_check_output(c)->height &&
	       c->layer->columns == c->layer->width &&
	       vmcu_check_input(c, 0)->width == vmcu_check_output(c)->width;
}

VMCU_SMALL bool vmcu_check_matmul(const struct vmcu_check *c)
{
	const struct vmcu_matmul_params *p = c->params;

	return are_matrices(c) && is_product(&p->product) &&
	       vmcu_check_input(c, 1)->width >= vmcu_check_input(c, 0)->channels &&
	       vmcu_check_input(c, 1)->channels == vmcu_check_output(c)->channels;
}

VMCU_SMALL bool vmcu_check_matmul_transposed(const struct vmcu_check *c)
{
	const struct vmcu_matmul_params *p = c->params;

	return are_matrices(c) && is_product(&p->product) &&
	       vmcu_check_input(c, 1)->width == vmcu_check_output(c)->channels &&
	       vmcu_check_input(c, 1)->channels >= vmcu_check_input(c, 0)->channels;
}

/** True if inputs and output have the parts that heads read and write, in rows of one pixel. */
static bool heads_fit(const struct vmcu_check *c, const struct vmcu_attention_params *p)
{
	const struct vmcu_tensor *query = vmcu_check_input(c, 0);
	const struct vmcu_tensor *keys = vmcu_check_input(c, 1);
	const struct vmcu_tensor *values = vmcu_check_input(c, 2);
	const struct vmcu_tensor *out = vmcu_check_output(c);

	return p->heads != 0U && p->sharing != 0U && p->heads % p->sharing == 0U &&
	       query->width == 1U && keys->width == 1U && values->width == 1U && out->width == 1U &&
	       query->height == out->height && keys->height == values->height &&
	       query->channels % p->heads == 0U && out->channels % p->heads == 0U &&
	       keys->channels == query->channels / p->sharing &&
	       values->channels == out->channels / p->sharing;
}

/** True if input 3 has an element for each score, and there is scratch for those of many rows. */
static bool mask_fits(const struct vmcu_check *c, const struct vmcu_attention_params *p)
{
	const uint32_t seen = p->window.kernel_h;
	const struct vmcu_tensor *mask;

	if (!vmcu_check_inputs(c, 4U)) {
		return false;
	}
	mask = vmcu_check_input(c, 3);
	if (mask->width != 1U) {
		return false;
	}
	if (p->mask_rows != 0U) {
		return mask->channels == 1U && p->bias_head == 0U &&
		       mask->height == vmcu_check_input(c, 1)->height &&
		       vmcu_check_scratch(c, 2U * seen);
	}
	return p->bias_row <= 1U && (p->bias_head == 0U || p->bias_head == seen) &&
	       (p->bias_row == 0U || mask->height == vmcu_check_output(c)->height) &&
	       mask->channels == ((p->bias_head == 0U) ? seen : p->heads * seen);
}

/** True if the bias has an element for each score, and the sum can be computed. */
static bool bias_fits(const struct vmcu_check *c, const struct vmcu_attention_params *p)
{
	const uint64_t end = (uint64_t)(p->heads - 1U) * p->bias_head +
			     (uint64_t)(vmcu_check_output(c)->height - 1U) * p->bias_row +
			     p->window.kernel_h;

	if (p->sum == NULL) {
		return p->score_bias == NULL && vmcu_check_inputs(c, 3U);
	}
	return ((p->score_bias == NULL)
			? mask_fits(c, p)
			: vmcu_check_inputs(c, 3U) && end < UINT32_MAX &&
				  vmcu_check_array(c, p->score_bias, (uint32_t)end, 1U)) &&
	       vmcu_check_array(c, p->sum, 1U, sizeof(*p->sum)) && (uintptr_t)p->sum % 8U == 0U &&
	       vmcu_check_float_sum(vmcu_check_at(c, p->sum));
}

VMCU_SMALL bool vmcu_check_attention(const struct vmcu_check *c)
{
	const struct vmcu_attention_params *p = c->params;
	const struct vmcu_window *w = &p->window;

	return (vmcu_check_inputs(c, 3U) || vmcu_check_inputs(c, 4U)) && vmcu_check_calls(c) &&
	       heads_fit(c, p) && w->kernel_h != 0U && w->stride_h <= 1U && w->dilation_h == 1U &&
	       w->pad_top >= 0 && w->kernel_w == 1U && w->dilation_w == 1U && w->pad_left == 0 &&
	       is_product(&p->scores) && is_product(&p->output) &&
	       vmcu_check_scratch(c, w->kernel_h) && vmcu_check_exponentials(c, p->exp) &&
	       (p->table == NULL || vmcu_check_array(c, p->table, 256U, 1U)) && bias_fits(c, p);
}
