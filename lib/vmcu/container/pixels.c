/*
 * SPDX-License-Identifier: Apache-2.0
 */

/**
 * @file
 * @brief Checks of the operators between a network's big layers.
 */

#include "check.h"

#include "../compiled.h"

/** A second operand in the tables: sizes are 1 or the output's. */
static bool is_operand(const struct vmcu_check *c, const struct vmcu_binary_params *p)
{
	const struct vmcu_tensor *out = vmcu_check_output(c);
	const uint32_t bytes =
		(uint32_t)p->constant_height * p->constant_width * p->constant_channels;

	return (p->constant_height == 1U || p->constant_height == out->height) &&
	       (p->constant_width == 1U || p->constant_width == out->width) &&
	       (p->constant_channels == 1U || p->constant_channels == out->channels) &&
	       vmcu_check_array(c, p->constant, bytes, 1U);
}

/** An operand that may be repeated. */
static bool is_input(const struct vmcu_check *c, uint16_t i)
{
	const struct vmcu_tensor *in = vmcu_check_input(c, i);
	const struct vmcu_tensor *out = vmcu_check_output(c);

	if ((in->height != 1U && in->height != out->height) ||
	    (in->width != 1U && in->width != out->width) ||
	    (in->channels != 1U && in->channels != out->channels)) {
		return false;
	}
	return (in->height == out->height && in->width == out->width) ? vmcu_check_columns(c, i)
								      : vmcu_check_rows(c, i);
}

VMCU_SMALL bool vmcu_check_binary(const struct vmcu_check *c)
{
	const struct vmcu_binary_params *p = c->params;
	const bool constant = p->constant != NULL;

	if (!vmcu_check_inputs(c, constant ? 1U : 2U) || !vmcu_check_calls(c) || !is_input(c, 0) ||
	    (constant ? !is_operand(c, p) : !is_input(c, 1)) || p->left_shift > 30U ||
	    !vmcu_check_bool(&p->rescale)) {
		return false;
	}
	switch (p->kind) {
	case VMCU_BINARY_FLOAT_SUM:
		return vmcu_check_array(c, p->sum, 1U, sizeof(*p->sum)) &&
		       (uintptr_t)p->sum % 8U == 0U &&
		       vmcu_check_float_sum(vmcu_check_at(c, p->sum));
	case VMCU_BINARY_FLOAT_PRODUCT:
		return vmcu_check_line(p->output.shift);
	default:
		return p->kind <= VMCU_BINARY_QUOTIENT && vmcu_check_shift(p->a.shift) &&
		       vmcu_check_shift(p->b.shift) && vmcu_check_shift(p->output.shift);
	}
}

VMCU_SMALL bool vmcu_check_concat(const struct vmcu_check *c)
{
	const struct vmcu_concat_params *p = c->params;
	const struct vmcu_tensor *out = vmcu_check_output(c);
	const int16_t *table_of = vmcu_check_at(c, p->table_of);
	uint32_t along = 0;

	if (p->axis > VMCU_AXIS_CHANNELS || !vmcu_check_calls(c) ||
	    (p->axis != VMCU_AXIS_CHANNELS && c->layer->columns != c->layer->width) ||
	    (p->table_of != NULL &&
	     !vmcu_check_array(c, p->table_of, c->layer->input_count, sizeof(*table_of)))) {
		return false;
	}
	for (uint16_t i = 0; i < c->layer->input_count; i++) {
		const struct vmcu_tensor *in = vmcu_check_input(c, i);
		const uint16_t sizes[] = {in->height, in->width, in->channels};
		const uint16_t whole[] = {out->height, out->width, out->channels};

		for (uint32_t axis = 0; axis < 3U; axis++) {
			if (axis != p->axis && sizes[axis] != whole[axis]) {
				return false;
			}
		}
		along += sizes[p->axis];
		if ((p->axis == VMCU_AXIS_CHANNELS) ? !vmcu_check_columns(c, i)
						    : !vmcu_check_rows(c, i)) {
			return false;
		}
		if (p->table_of != NULL && table_of[i] >= 0 &&
		    !vmcu_check_array(c, p->tables,
				      ((uint32_t)table_of[i] + 1U) * VMCU_TABLE_ENTRIES, 1U)) {
			return false;
		}
	}
	return along == ((p->axis == VMCU_AXIS_HEIGHT)  ? out->height
			 : (p->axis == VMCU_AXIS_WIDTH) ? out->width
							: out->channels);
}

VMCU_SMALL bool vmcu_check_exponentials(const struct vmcu_check *c, const void *table)
{
	const uint32_t *exp = vmcu_check_at(c, table);

	if (!vmcu_check_array(c, table, VMCU_SOFTMAX_ENTRIES, sizeof(*exp))) {
		return false;
	}
	for (uint32_t i = 0; i < VMCU_SOFTMAX_ENTRIES; i++) {
		if (exp[i] > INT32_MAX) {
			return false;
		}
	}
	/* The largest channel's, by which shares of a sum are shifted to the right. */
	return exp[0] >= 1U << 16;
}

/** True if a run of an input's bytes is within a row. */
static bool is_run(const struct vmcu_tensor *in, int64_t at, uint32_t run)
{
	const uint32_t row = (uint32_t)in->width * in->channels;

	return at >= 0 && at < (int64_t)vmcu_check_bytes(in) && (uint64_t)at % row + run <= row;
}

VMCU_SMALL bool vmcu_check_move(const struct vmcu_check *c)
{
	const struct vmcu_move_params *p = c->params;
	const struct vmcu_tensor *out = vmcu_check_output(c);
	const int32_t *rows = vmcu_check_at(c, p->rows);
	const int32_t *columns = vmcu_check_at(c, p->columns);
	const int32_t *channels = vmcu_check_at(c, p->channels);
	uint32_t runs;

	if (!vmcu_check_inputs(c, 1U) || !vmcu_check_calls(c) || !vmcu_check_rows(c, 0) ||
	    p->run == 0U || out->channels % p->run != 0U) {
		return false;
	}
	runs = out->channels / p->run;
	if (!vmcu_check_array(c, p->rows, out->height, 4U) ||
	    !vmcu_check_array(c, p->columns, out->width, 4U) ||
	    !vmcu_check_array(c, p->channels, runs, 4U)) {
		return false;
	}
	for (uint32_t y = 0; y < out->height; y++) {
		for (uint32_t x = 0; x < out->width; x++) {
			for (uint32_t k = 0; k < runs; k++) {
				const int64_t at = (int64_t)rows[y] + columns[x] + channels[k];

				if (!is_run(vmcu_check_input(c, 0), at, p->run)) {
					return false;
				}
			}
		}
	}
	return true;
}

VMCU_SMALL bool vmcu_check_pick(const struct vmcu_check *c)
{
	const struct vmcu_pick_params *p = c->params;
	const struct vmcu_tensor *out = vmcu_check_output(c);
	const uint32_t size = (uint32_t)out->width * out->channels;
	const uint16_t *bytes = vmcu_check_at(c, p->bytes);

	if (!vmcu_check_inputs(c, 1U) || !vmcu_check_calls(c) || !vmcu_check_rows(c, 0) ||
	    vmcu_check_input(c, 0)->height != out->height || p->run == 0U || size % p->run != 0U ||
	    !vmcu_check_array(c, p->bytes, size / p->run, sizeof(*bytes))) {
		return false;
	}
	for (uint32_t k = 0; k < size / p->run; k++) {
		if (!is_run(vmcu_check_input(c, 0), bytes[k], p->run) ||
		    bytes[k] >= vmcu_check_input(c, 0)->width * vmcu_check_input(c, 0)->channels) {
			return false;
		}
	}
	return true;
}

/** Entries (first, second, weight in 1/1024) for each of @a count outputs of @a size inputs. */
static bool is_interpolation(const struct vmcu_check *c, const int16_t *offset, uint32_t count,
			     int32_t size)
{
	const int16_t *entries = vmcu_check_at(c, offset);

	if (!vmcu_check_array(c, offset, 3U * count, sizeof(*entries))) {
		return false;
	}
	for (uint32_t i = 0; i < count; i++, entries += 3) {
		if (entries[0] < 0 || entries[0] >= size || entries[1] < 0 || entries[1] >= size) {
			return false;
		}
	}
	return true;
}

VMCU_SMALL bool vmcu_check_resize(const struct vmcu_check *c)
{
	const struct vmcu_resize_params *p = c->params;
	const struct vmcu_tensor *in = vmcu_check_input(c, 0);
	const struct vmcu_tensor *out = vmcu_check_output(c);

	return vmcu_check_inputs(c, 1U) && vmcu_check_calls(c) && vmcu_check_rows(c, 0) &&
	       in->channels == out->channels && vmcu_check_bool(&p->rescale) &&
	       vmcu_check_shift(p->factor.shift) &&
	       is_interpolation(c, p->rows, out->height, in->height) &&
	       is_interpolation(c, p->columns, out->width, in->width);
}

VMCU_SMALL bool vmcu_check_transpose_conv(const struct vmcu_check *c)
{
	const struct vmcu_transpose_conv_params *p = c->params;
	const struct vmcu_tensor *in = vmcu_check_input(c, 0);
	const struct vmcu_tensor *out = vmcu_check_output(c);
	uint64_t taps;

	if (!vmcu_check_inputs(c, 1U) || !vmcu_check_calls(c) ||
	    !vmcu_check_window(c, &p->window) || p->groups == 0U || p->depth == 0U ||
	    (uint32_t)p->groups * p->depth != in->channels || out->channels % p->groups != 0U) {
		return false;
	}
	taps = (uint64_t)p->window.kernel_h * p->window.kernel_w * p->depth * out->channels;
	if (taps > UINT32_MAX || !vmcu_check_array(c, p->weights, (uint32_t)taps, 1U) ||
	    !vmcu_check_array(c, p->bias, out->channels, 4U)) {
		return false;
	}
	if (p->scale != NULL) {
		return vmcu_check_array(c, p->scale, out->channels, 4U);
	}
	return vmcu_check_array(c, p->multiplier, out->channels, 4U) &&
	       vmcu_check_shifts(c, p->shift, out->channels);
}
