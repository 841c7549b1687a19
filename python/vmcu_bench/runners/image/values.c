/*
 * SPDX-License-Identifier: Apache-2.0
 */

#include <stdint.h>

#include <vmcu/convert.h>

#include "io.h"
#include "values.h"

/** Ports of all kinds; a model's counts are bytes. */
#define MOST_PORTS (2U * UINT8_MAX)

static uint8_t forms[MOST_PORTS];

static union {
	float real[IMAGE_VALUES / sizeof(float) + 1U];
	uint8_t bytes[IMAGE_VALUES];
} values;

static size_t bytes_of(uint8_t form, size_t count)
{
	return (form == VALUE_FLOAT) ? count * sizeof(float) : count;
}

bool values_open(const struct vmcu_model *model, int file)
{
	const size_t ports = (size_t)model->input_count + model->output_count;

	return ports <= MOST_PORTS && io_read(file, forms, ports) == ports;
}

bool values_has_input(unsigned int i)
{
	return forms[i] != VALUE_BYTES;
}

bool values_has_output(const struct vmcu_model *model, unsigned int i)
{
	return forms[model->input_count + i] != VALUE_BYTES;
}

bool values_read(const struct vmcu_context *ctx, unsigned int i, int file)
{
	const size_t size = bytes_of(forms[i], vmcu_input_size(ctx, i));

	if (size > sizeof(values) || io_read(file, values.bytes, size) != size) {
		return false;
	}
	if (forms[i] == VALUE_FLOAT) {
		return vmcu_set_float(ctx, i, values.real) == 0;
	}
	return vmcu_set_uint8(ctx, i, values.bytes) == 0;
}

bool values_write(const struct vmcu_context *ctx, unsigned int i, int file)
{
	const uint8_t form = forms[ctx->model->input_count + i];
	const size_t size = bytes_of(form, vmcu_output_size(ctx, i));
	int err;

	if (size > sizeof(values)) {
		return false;
	}
	if (form == VALUE_FLOAT) {
		err = vmcu_get_float(ctx, i, values.real);
	} else {
		err = vmcu_get_uint8(ctx, i, values.bytes);
	}
	return err == 0 && io_write(file, values.bytes, size) == size;
}
