/*
 * SPDX-License-Identifier: Apache-2.0
 */

/* Rows delivered one by one to a pool that rotates: what a context keeps between them moves too. */

#include <errno.h>
#include <string.h>

#include <vmcu/kernels.h>
#include <vmcu/vmcu.h>

#include "check.h"

#define ROWS      3
#define ROW_BYTES 4
#define BYTES     (ROWS * ROW_BYTES)
#define CIRCLE    32
#define STEP      20
#define ORIGINS   8
#define STALE     0xaaaaU

static const struct vmcu_requantize_params clamp = {.act_min = 0, .act_max = 100};

static const struct vmcu_tensor tensors[] = {
	{.base = 0, .ring = BYTES, .height = ROWS, .width = 1, .channels = ROW_BYTES},
	{.base = 12, .ring = BYTES, .height = ROWS, .width = 1, .channels = ROW_BYTES},
};
static const uint16_t layer_input = 0;
static const struct vmcu_layer layer = {
	.kernel = vmcu_requantize,
	.params = &clamp,
	.inputs = &layer_input,
	.input_count = 1,
	.output = 1,
	.scratch = VMCU_SCRATCH_ON_STACK,
	.rows = ROWS,
	.width = 1,
	.columns = 1,
};
static const uint8_t schedule[] = {VMCU_TAKE, 0};
static const struct vmcu_part parts[] = {{.start = 0, .length = 2, .times = ROWS}};
static const struct vmcu_stage stream = {
	.schedule = schedule,
	.parts = parts,
	.progress = 28,
	.part_count = 1,
	.count = 1,
	.taken = 1,
};
static const struct vmcu_stage alone = {.first = 0, .count = 1};
static const struct vmcu_io inputs[] = {{.name = "in", .tensor = 0}};
static const struct vmcu_io outputs[] = {{.name = "out", .tensor = 1}};

#define MODEL(stage, is_streamed)                                                                  \
	{                                                                                          \
		.name = "clamp",                                                                   \
		.pool_bytes = CIRCLE + BYTES,                                                      \
		.tensors = tensors,                                                                \
		.layers = &layer,                                                                  \
		.stages = (stage),                                                                 \
		.inputs = inputs,                                                                  \
		.outputs = outputs,                                                                \
		.tensor_count = 2,                                                                 \
		.layer_count = 1,                                                                  \
		.stage_count = 1,                                                                  \
		.input_count = 1,                                                                  \
		.output_count = 1,                                                                 \
		.streamed = (is_streamed),                                                         \
		.circle = CIRCLE,                                                                  \
		.step = STEP,                                                                      \
	}

static const struct vmcu_model streamed = MODEL(&stream, true);
static const struct vmcu_model whole = MODEL(&alone, false);

static int8_t pool[CIRCLE + BYTES] __attribute__((aligned(VMCU_POOL_ALIGN)));
static const int8_t sample[BYTES] = {1, -2, 3, 4, 5, 6, 7, 127, 9, 10, 11, 12};
static const int8_t expected[BYTES] = {1, 0, 3, 4, 5, 6, 7, 100, 9, 10, 11, 12};
static struct vmcu_context ctx;

static int push(unsigned int rows)
{
	int wanted = 1;

	for (unsigned int y = 0; y < rows; y++) {
		CHECK(wanted == 1);
		wanted = vmcu_push_row(&ctx, &sample[y * ROW_BYTES]);
	}
	return wanted;
}

static void check_inference(void)
{
	CHECK(push(ROWS) == 0);
	CHECK(memcmp(vmcu_output(&ctx, 0), expected, BYTES) == 0);
	for (unsigned int i = 0; i < VMCU_POSITIONS; i++) {
		CHECK(ctx.positions[i].rows == 0U);
	}
}

/** Each of the origins uses one position, and all are used equally often. */
static void test_positions_take_turns(void)
{
	unsigned int used[VMCU_POSITIONS] = {0};

	CHECK(vmcu_init(&ctx, &streamed, pool, sizeof(pool)) == 0);
	for (unsigned int n = 0; n < ORIGINS; n++) {
		unsigned int touched = 0;

		for (unsigned int i = 0; i < VMCU_POSITIONS; i++) {
			ctx.positions[i].entry = STALE;
		}
		check_inference();
		for (unsigned int i = 0; i < VMCU_POSITIONS; i++) {
			if (ctx.positions[i].entry != STALE) {
				touched++;
				used[i]++;
			}
		}
		CHECK(touched == 1U);
	}
	for (unsigned int i = 0; i < VMCU_POSITIONS; i++) {
		CHECK(used[i] == ORIGINS / VMCU_POSITIONS);
	}
}

/** A new start in the midst of an input drops its rows, at whatever origin. */
static void test_starts_over(const struct vmcu_model *model)
{
	for (unsigned int rows = 1; rows < ROWS; rows++) {
		CHECK(vmcu_init(&ctx, model, pool, sizeof(pool)) == 0);
		for (unsigned int n = 0; n < 2 * ORIGINS; n++) {
			CHECK(push(rows) == 1);
			CHECK(vmcu_rotate_to(&ctx, n) == 0);
			check_inference();
		}
		check_inference();
		CHECK(push(rows) == 1);
		CHECK(vmcu_init(&ctx, model, pool, sizeof(pool)) == 0);
		for (unsigned int n = 0; n < ORIGINS; n++) {
			check_inference();
		}
		CHECK(push(rows) == 1);
		CHECK(vmcu_cancel(&ctx) == 0);
		CHECK(push(1) == -ECANCELED);
		for (unsigned int n = 0; n < ORIGINS; n++) {
			check_inference();
		}
	}
}

static void test_refuses(void)
{
	struct vmcu_context unset = {0};

	CHECK(vmcu_rotate_to(NULL, 1U) == -EINVAL);
	CHECK(vmcu_rotate_to(&unset, 1U) == -EINVAL);
}

int main(void)
{
	test_refuses();
	test_positions_take_turns();
	test_starts_over(&streamed);
	test_starts_over(&whole);
	return 0;
}
