/*
 * SPDX-License-Identifier: Apache-2.0
 */

#include <errno.h>
#include <string.h>

#include <vmcu/kernels.h>
#include <vmcu/vmcu.h>

#include "check.h"

#define POOL_BYTES 24

/* Clamp 3 x 2 x 2 bytes to 0 .. 100, then copy them into one row. */
static const struct vmcu_requantize_params clamp = {.act_min = 0, .act_max = 100};

static const struct vmcu_tensor tensors[] = {
	{.base = 0, .ring = 12, .height = 3, .width = 2, .channels = 2},
	{.base = 16, .ring = 12, .height = 3, .width = 2, .channels = 2},
	{.base = 4, .ring = 12, .height = 1, .width = 1, .channels = 12},
};

static const uint16_t layer_inputs[] = {0, 1};

static const struct vmcu_layer layers[] = {
	{.kernel = vmcu_requantize,
	 .params = &clamp,
	 .inputs = &layer_inputs[0],
	 .input_count = 1,
	 .output = 1,
	 .rows = 3,
	 .width = 2,
	 .columns = 2},
	{.kernel = vmcu_reshape,
	 .inputs = &layer_inputs[1],
	 .input_count = 1,
	 .output = 2,
	 .rows = 1,
	 .width = 1,
	 .columns = 1},
};

static const struct vmcu_stage stages[] = {{.first = 0, .count = 1}, {.first = 1, .count = 1}};

static const struct vmcu_io inputs[] = {{.name = "in", .tensor = 0}};
static const struct vmcu_io outputs[] = {{.name = "out", .tensor = 2}};

static const struct vmcu_model model = {
	.name = "clamp",
	.pool_bytes = POOL_BYTES,
	.tensors = tensors,
	.layers = layers,
	.stages = stages,
	.inputs = inputs,
	.outputs = outputs,
	.tensor_count = 3,
	.layer_count = 2,
	.stage_count = 2,
	.input_count = 1,
	.output_count = 1,
};

static int8_t pool[POOL_BYTES + 8] __attribute__((aligned(VMCU_POOL_ALIGN)));

static void test_init_refuses(void)
{
	struct vmcu_context ctx;

	CHECK(vmcu_init(NULL, &model, pool, sizeof(pool)) == -EINVAL);
	CHECK(vmcu_init(&ctx, NULL, pool, sizeof(pool)) == -EINVAL);
	CHECK(vmcu_init(&ctx, &model, NULL, sizeof(pool)) == -EINVAL);
	CHECK(vmcu_init(&ctx, &model, pool + 4, POOL_BYTES) == -EINVAL);
	CHECK(vmcu_init(&ctx, &model, pool, POOL_BYTES - 1) == -ENOMEM);
	CHECK(vmcu_init(&ctx, &model, pool, POOL_BYTES) == 0);
}

/** A failed call leaves nothing bound, whatever was before; NULL touches nothing. */
static void test_a_failed_init_unbinds(void)
{
	struct vmcu_context ctx;
	const struct {
		const struct vmcu_model *model;
		int8_t *at;
		size_t size;
	} wrong[] = {
		{NULL, pool, sizeof(pool)},
		{&model, NULL, sizeof(pool)},
		{&model, pool + 4, sizeof(pool)},
		{&model, pool, POOL_BYTES - 1},
	};

	for (size_t i = 0; i < sizeof(wrong) / sizeof(wrong[0]); i++) {
		CHECK(vmcu_init(&ctx, &model, pool, sizeof(pool)) == 0);
		CHECK(vmcu_init(&ctx, wrong[i].model, wrong[i].at, wrong[i].size) != 0);
		CHECK(vmcu_invoke(&ctx) == -EINVAL);
		CHECK(vmcu_push_row(&ctx, pool) == -EINVAL);
		CHECK(vmcu_cancel(&ctx) == -EINVAL);
		CHECK(vmcu_input(&ctx, 0) == NULL);
		CHECK(vmcu_output(&ctx, 0) == NULL);
		CHECK(vmcu_row_size(&ctx, 0) == 0U);
		CHECK(vmcu_init(&ctx, &model, pool, sizeof(pool)) == 0);
		CHECK(vmcu_init(NULL, wrong[i].model, wrong[i].at, wrong[i].size) == -EINVAL);
		CHECK(vmcu_invoke(&ctx) == 0);
	}
}

static void test_no_context(void)
{
	struct vmcu_context unset = {0};

	CHECK(vmcu_invoke(NULL) == -EINVAL);
	CHECK(vmcu_invoke(&unset) == -EINVAL);
	CHECK(vmcu_input(NULL, 0) == NULL);
	CHECK(vmcu_output(&unset, 0) == NULL);
	CHECK(vmcu_input_size(&unset, 0) == 0U);
	CHECK(vmcu_output_size(NULL, 0) == 0U);
	CHECK(vmcu_input(&unset, 0) == NULL);
	CHECK(vmcu_output(NULL, 0) == NULL);
	CHECK(vmcu_row_of_input(NULL, 0, 0) == NULL);
	CHECK(vmcu_row_of_output(&unset, 0, 0) == NULL);
	CHECK(vmcu_row_size(NULL, 0) == 0U);
	CHECK(vmcu_cancel(NULL) == -EINVAL);
	CHECK(vmcu_push_row(NULL, pool) == -EINVAL);
	CHECK(vmcu_push_row(&unset, pool) == -EINVAL);
	CHECK(vmcu_set_input(NULL, pool) == -EINVAL);
	CHECK(vmcu_set_input(&unset, pool) == -EINVAL);
}

static void test_ports(void)
{
	struct vmcu_context ctx;

	CHECK(vmcu_init(&ctx, &model, pool, sizeof(pool)) == 0);
	CHECK(vmcu_input(&ctx, 0) == pool);
	CHECK(vmcu_input_size(&ctx, 0) == 12U);
	CHECK(vmcu_input(&ctx, 1) == NULL);
	CHECK(vmcu_input_size(&ctx, 1) == 0U);
	CHECK(vmcu_output(&ctx, 0) == pool + 4);
	CHECK(vmcu_output_size(&ctx, 0) == 12U);
	CHECK(vmcu_output(&ctx, 1) == NULL);
	CHECK(vmcu_output_size(&ctx, 1) == 0U);
	CHECK(vmcu_set_input(&ctx, NULL) == -EINVAL);
	CHECK(vmcu_set_input(&ctx, pool) == -ENOTSUP);
}

/** The middle tensor's last row wraps to the pool's start, on top of the input's first row. */
static void test_invoke_wraps_at_the_plans_size(void)
{
	static const int8_t sample[] = {-128, -1, 0, 1, 99, 100, 101, 127, 5, 6, -7, 8};
	static const int8_t expected[] = {0, 0, 0, 1, 99, 100, 100, 100, 5, 6, 0, 8};
	struct vmcu_context ctx;

	CHECK(vmcu_init(&ctx, &model, pool, sizeof(pool)) == 0);
	for (int i = 0; i < 2; i++) {
		memset(pool, 0x55, sizeof(pool));
		memcpy(vmcu_input(&ctx, 0), sample, sizeof(sample));
		CHECK(vmcu_invoke(&ctx) == 0);
		CHECK(memcmp(vmcu_output(&ctx, 0), expected, sizeof(expected)) == 0);
		for (size_t k = POOL_BYTES; k < sizeof(pool); k++) {
			CHECK(pool[k] == 0x55);
		}
	}
}

static const int8_t rows_in[12] = {-128, -1, 0, 1, 99, 100, 101, 127, 5, 6, -7, 8};
static const int8_t rows_out[12] = {0, 0, 0, 1, 99, 100, 100, 100, 5, 6, 0, 8};

/** Rows are where they are in the one array, and none beside it. */
static void test_rows(void)
{
	struct vmcu_context ctx;

	CHECK(vmcu_init(&ctx, &model, pool, sizeof(pool)) == 0);
	CHECK(vmcu_row_size(&ctx, 0) == 4U);
	CHECK(vmcu_row_size(&ctx, 1) == 0U);
	for (unsigned int y = 0; y < 3U; y++) {
		CHECK(vmcu_row_of_input(&ctx, 0, y) == pool + 4U * y);
	}
	CHECK(vmcu_row_of_input(&ctx, 0, 3) == NULL);
	CHECK(vmcu_row_of_input(&ctx, 1, 0) == NULL);
	CHECK(vmcu_row_of_output(&ctx, 0, 0) == pool + 4);
	CHECK(vmcu_row_of_output(&ctx, 0, 1) == NULL);
	CHECK(vmcu_row_of_output(&ctx, 1, 0) == NULL);
}

/** A row of an input that is kept whole waits for the next one; the last one runs the model. */
static void test_rows_are_pushed(void)
{
	struct vmcu_context ctx;

	CHECK(vmcu_init(&ctx, &model, pool, sizeof(pool)) == 0);
	CHECK(vmcu_push_row(&ctx, NULL) == -EINVAL);
	for (int i = 0; i < 2; i++) {
		memset(pool, 0x55, sizeof(pool));
		CHECK(vmcu_push_row(&ctx, &rows_in[0]) == 1);
		CHECK(vmcu_push_row(&ctx, &rows_in[4]) == 1);
		CHECK(memcmp(pool, rows_in, 8) == 0 && pool[8] == 0x55);
		CHECK(vmcu_push_row(&ctx, &rows_in[8]) == 0);
		CHECK(memcmp(vmcu_output(&ctx, 0), rows_out, sizeof(rows_out)) == 0);
	}
	/* The model itself is cancelled at once, and the next input begins with its first row. */
	CHECK(vmcu_push_row(&ctx, &rows_in[0]) == 1);
	CHECK(vmcu_cancel(&ctx) == 0);
	CHECK(vmcu_push_row(&ctx, &rows_in[4]) == -ECANCELED);
	CHECK(vmcu_push_row(&ctx, &rows_in[0]) == 1);
	CHECK(vmcu_push_row(&ctx, &rows_in[4]) == 1);
	CHECK(vmcu_push_row(&ctx, &rows_in[8]) == 0);
	CHECK(memcmp(vmcu_output(&ctx, 0), rows_out, sizeof(rows_out)) == 0);
}

static uint16_t order[3];
static unsigned int calls;

static void note(const struct vmcu_call *call)
{
	CHECK(call->x == 0U && call->columns == 2U);
	order[calls++ % 3U] = call->y;
}

/** A layer works from its first row to its last, or the other way round. */
static void test_directions(void)
{
	for (unsigned int descending = 0; descending < 2U; descending++) {
		struct vmcu_layer layer = layers[0];
		struct vmcu_model one = model;
		struct vmcu_context ctx;

		layer.kernel = note;
		layer.descending = (uint8_t)descending;
		one.layers = &layer;
		one.layer_count = 1;
		one.stage_count = 1;
		calls = 0;
		CHECK(vmcu_init(&ctx, &one, pool, sizeof(pool)) == 0);
		CHECK(vmcu_invoke(&ctx) == 0);
		CHECK(calls == 3U);
		for (unsigned int i = 0; i < 3U; i++) {
			CHECK(order[i] == (descending ? 2U - i : i));
		}
	}
}

/** Rows of one of two inputs would leave the other's unsaid. */
static void test_two_inputs_are_not_pushed(void)
{
	static const struct vmcu_io both[] = {{.name = "a", .tensor = 0},
					      {.name = "b", .tensor = 1}};
	struct vmcu_model two = model;
	struct vmcu_context ctx;

	two.inputs = both;
	two.input_count = 2;
	CHECK(vmcu_init(&ctx, &two, pool, sizeof(pool)) == 0);
	CHECK(vmcu_push_row(&ctx, rows_in) == -ENOTSUP);
	CHECK(vmcu_input(&ctx, 1) == pool + 16);
	CHECK(vmcu_input(&ctx, 2) == NULL);
	CHECK(vmcu_input_size(&ctx, 1) == 12U);
}

/** A streamed input is nowhere as a whole. */
static void test_streamed_inputs_have_no_place(void)
{
	struct vmcu_model streamed = model;
	struct vmcu_context ctx;

	streamed.streamed = true;
	CHECK(vmcu_init(&ctx, &streamed, pool, sizeof(pool)) == 0);
	CHECK(vmcu_invoke(&ctx) == -ENOTSUP);
	CHECK(vmcu_input(&ctx, 0) == NULL);
	CHECK(vmcu_row_of_input(&ctx, 0, 0) == NULL);
	CHECK(vmcu_input_size(&ctx, 0) == 12U);
	CHECK(vmcu_row_size(&ctx, 0) == 4U);
	CHECK(vmcu_output(&ctx, 0) == pool + 4);
}

/** An input elsewhere is read where the caller has it, and the pool has no place for it. */
static void test_inputs_elsewhere(void)
{
	static const int8_t image[12];
	struct vmcu_model elsewhere = model;
	struct vmcu_context ctx;

	CHECK(vmcu_init(&ctx, &model, pool, sizeof(pool)) == 0);
	CHECK(vmcu_set_input(&ctx, image) == -ENOTSUP);
	elsewhere.elsewhere = true;
	CHECK(vmcu_init(&ctx, &elsewhere, pool, sizeof(pool)) == 0);
	CHECK(vmcu_input(&ctx, 0) == NULL);
	CHECK(vmcu_row_of_input(&ctx, 0, 0) == NULL);
	CHECK(vmcu_input_size(&ctx, 0) == 12U);
	CHECK(vmcu_push_row(&ctx, image) == -ENOTSUP);
	CHECK(vmcu_invoke(&ctx) == -EINVAL);
	CHECK(vmcu_set_input(NULL, image) == -EINVAL);
	CHECK(vmcu_set_input(&ctx, NULL) == -EINVAL);
	CHECK(vmcu_invoke(&ctx) == -EINVAL);
	CHECK(vmcu_set_input(&ctx, image) == 0);
	CHECK(vmcu_invoke(&ctx) == 0);
	CHECK(vmcu_invoke(&ctx) == 0);
	CHECK(vmcu_init(&ctx, &elsewhere, pool, sizeof(pool)) == 0);
	CHECK(vmcu_invoke(&ctx) == -EINVAL);
}

int main(void)
{
	test_directions();
	test_rows();
	test_rows_are_pushed();
	test_two_inputs_are_not_pushed();
	test_streamed_inputs_have_no_place();
	test_inputs_elsewhere();
	test_init_refuses();
	test_a_failed_init_unbinds();
	test_no_context();
	test_ports();
	test_invoke_wraps_at_the_plans_size();
	return 0;
}
