/*
 * SPDX-License-Identifier: Apache-2.0
 */

#include <errno.h>
#include <math.h>

#include <vmcu/convert.h>

#include "check.h"

static const struct vmcu_tensor tensor = {.ring = 4, .height = 1, .width = 2, .channels = 2};
static const struct vmcu_io io = {.scale = 0.5f, .zero_point = 3};
static const struct vmcu_model model = {.pool_bytes = 4,
					.tensors = &tensor,
					.inputs = &io,
					.outputs = &io,
					.tensor_count = 1,
					.input_count = 1,
					.output_count = 1};
static const struct vmcu_model streamed = {.pool_bytes = 4,
					   .tensors = &tensor,
					   .inputs = &io,
					   .outputs = &io,
					   .tensor_count = 1,
					   .input_count = 1,
					   .output_count = 1,
					   .streamed = true};

static uint8_t pool[8] __attribute__((aligned(VMCU_POOL_ALIGN)));

static void test_bad_calls(void)
{
	float values[4] = {0};
	uint8_t bytes[4] = {0};
	struct vmcu_context ctx;

	CHECK(vmcu_set_float(NULL, 0, values) == -EINVAL);
	CHECK(vmcu_init(&ctx, &model, pool, sizeof(pool)) == 0);
	CHECK(vmcu_set_float(&ctx, 0, NULL) == -EINVAL);
	CHECK(vmcu_set_float(&ctx, 1, values) == -EINVAL);
	CHECK(vmcu_set_uint8(&ctx, 1, bytes) == -EINVAL);
	CHECK(vmcu_get_float(&ctx, 1, values) == -EINVAL);
	CHECK(vmcu_get_uint8(&ctx, 0, NULL) == -EINVAL);
	CHECK(vmcu_init(&ctx, &streamed, pool, sizeof(pool)) == 0);
	CHECK(vmcu_set_float(&ctx, 0, values) == -ENOTSUP);
	CHECK(vmcu_get_float(&ctx, 0, values) == 0);
}

static void test_extremes(void)
{
	const float values[4] = {INFINITY, -INFINITY, NAN, 1e30f};
	struct vmcu_context ctx;

	CHECK(vmcu_init(&ctx, &model, pool, sizeof(pool)) == 0);
	CHECK(vmcu_set_float(&ctx, 0, values) == 0);
	CHECK(vmcu_input(&ctx, 0)[0] == INT8_MAX);
	CHECK(vmcu_input(&ctx, 0)[1] == INT8_MIN);
	CHECK(vmcu_input(&ctx, 0)[2] == INT8_MIN);
	CHECK(vmcu_input(&ctx, 0)[3] == INT8_MAX);
}

int main(void)
{
	test_bad_calls();
	test_extremes();
	return 0;
}
