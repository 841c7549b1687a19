/*
 * SPDX-License-Identifier: Apache-2.0
 *
 * Reads a tensor's shape and quantisation and real values; writes what vmcu_set_float() makes of
 * them, then what vmcu_get_float() makes of that, then the same for bytes taken as uint8.
 */

#include <stdio.h>
#include <stdlib.h>

#include <vmcu/convert.h>

struct record {
	uint16_t height;
	uint16_t width;
	uint16_t channels;
	uint8_t flags;
	int8_t zero_point;
	float scale;
};

int main(void)
{
	struct record r;

	while (fread(&r, sizeof(r), 1, stdin) == 1U) {
		const uint32_t count = (uint32_t)r.height * r.width * r.channels;
		const struct vmcu_tensor tensor = {.ring = count,
						   .height = r.height,
						   .width = r.width,
						   .channels = r.channels};
		const struct vmcu_io io = {
			.scale = r.scale, .zero_point = r.zero_point, .flags = r.flags};
		const struct vmcu_model model = {.pool_bytes = count,
						 .tensors = &tensor,
						 .inputs = &io,
						 .outputs = &io,
						 .tensor_count = 1,
						 .input_count = 1,
						 .output_count = 1};
		float *values = malloc(count * sizeof(*values));
		int8_t *pool = malloc(count);
		uint8_t *bytes = malloc(count);
		struct vmcu_context ctx;

		if (values == NULL || pool == NULL || bytes == NULL ||
		    vmcu_init(&ctx, &model, pool, count) != 0 ||
		    fread(values, sizeof(*values), count, stdin) != count ||
		    vmcu_set_float(&ctx, 0, values) != 0) {
			return 1;
		}
		(void)fwrite(pool, 1, count, stdout);
		if (vmcu_get_float(&ctx, 0, values) != 0 || vmcu_get_uint8(&ctx, 0, bytes) != 0) {
			return 1;
		}
		(void)fwrite(values, sizeof(*values), count, stdout);
		(void)fwrite(bytes, 1, count, stdout);
		if (vmcu_set_uint8(&ctx, 0, bytes) != 0) {
			return 1;
		}
		(void)fwrite(pool, 1, count, stdout);
		free(values);
		free(pool);
		free(bytes);
	}
	return 0;
}
