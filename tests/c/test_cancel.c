/*
 * SPDX-License-Identifier: Apache-2.0
 */

/* An inference that is cancelled stops at its next call, whichever that is, and leaves no trace. */

#include <errno.h>
#include <string.h>

#include <vmcu/access.h>
#include <vmcu/kernels.h>
#include <vmcu/vmcu.h>

#include "check.h"

#define ROWS       4
#define ROW_BYTES  3
#define BYTES      (ROWS * ROW_BYTES)
#define LAYERS     4
#define POOL_BYTES 64

static struct vmcu_context ctx;
static unsigned int calls;
static unsigned int cancel_at;

/** Adds one to a row; cancels in the midst of call number @a cancel_at. */
static void add_one(const struct vmcu_call *call)
{
	const int8_t *in = vmcu_row(call->pool, vmcu_call_input(call, 0), call->y);
	int8_t *out = vmcu_row(call->pool, vmcu_call_output(call), call->y);

	for (unsigned int i = 0; i < ROW_BYTES; i++) {
		out[i] = (int8_t)(in[i] + 1);
	}
	calls++;
	if (calls == cancel_at) {
		CHECK(vmcu_cancel(&ctx) == 0);
	}
}

#define TENSOR(at) {.base = (at), .ring = BYTES, .height = ROWS, .width = 1, .channels = ROW_BYTES}
#define LAYER(n)                                                                                   \
	{.kernel = add_one,                                                                        \
	 .inputs = &layer_inputs[n],                                                               \
	 .input_count = 1,                                                                         \
	 .output = (n) + 1,                                                                        \
	 .scratch = VMCU_SCRATCH_ON_STACK,                                                         \
	 .rows = ROWS,                                                                             \
	 .width = 1,                                                                               \
	 .columns = 1}

static const struct vmcu_tensor tensors[] = {TENSOR(0), TENSOR(12), TENSOR(24), TENSOR(36),
					     TENSOR(48)};
static const uint16_t layer_inputs[] = {0, 1, 2, 3};
static const struct vmcu_layer layers[] = {LAYER(0), LAYER(1), LAYER(2), LAYER(3)};

/* Two layers row by row as rows come, then one on its own, then another. */
static const uint8_t schedule[] = {VMCU_TAKE, 0, 1};
static const struct vmcu_part parts[] = {{.start = 0, .length = 3, .times = ROWS}};
static const uint8_t whole_schedule[] = {0, 1};
static const struct vmcu_part whole_parts[] = {{.start = 0, .length = 2, .times = ROWS}};
static const struct vmcu_stage streamed_stages[] = {
	{.schedule = schedule,
	 .parts = parts,
	 .progress = 60,
	 .part_count = 1,
	 .count = 2,
	 .taken = 1},
	{.first = 2, .count = 1},
	{.first = 3, .count = 1},
};
static const struct vmcu_stage whole_stages[] = {
	{.schedule = whole_schedule,
	 .parts = whole_parts,
	 .progress = 60,
	 .part_count = 1,
	 .count = 2},
	{.first = 2, .count = 1},
	{.first = 3, .count = 1},
};
static const struct vmcu_io inputs[] = {{.name = "in", .tensor = 0}};
static const struct vmcu_io outputs[] = {{.name = "out", .tensor = LAYERS}};

#define MODEL(stages_of, is_streamed)                                                              \
	{                                                                                          \
		.name = "add",                                                                     \
		.pool_bytes = POOL_BYTES,                                                          \
		.tensors = tensors,                                                                \
		.layers = layers,                                                                  \
		.stages = (stages_of),                                                             \
		.inputs = inputs,                                                                  \
		.outputs = outputs,                                                                \
		.tensor_count = LAYERS + 1,                                                        \
		.layer_count = LAYERS,                                                             \
		.stage_count = 3,                                                                  \
		.input_count = 1,                                                                  \
		.output_count = 1,                                                                 \
		.streamed = (is_streamed),                                                         \
	}

static const struct vmcu_model streamed = MODEL(streamed_stages, true);
static const struct vmcu_model whole = MODEL(whole_stages, false);

static int8_t pool[POOL_BYTES] __attribute__((aligned(VMCU_POOL_ALIGN)));
static const int8_t sample[BYTES] = {1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12};

static int invoke(void)
{
	memcpy(vmcu_input(&ctx, 0), sample, BYTES);
	return vmcu_invoke(&ctx);
}

static int push(void)
{
	int wanted = 1;

	for (unsigned int y = 0; y < ROWS && wanted == 1; y++) {
		wanted = vmcu_push_row(&ctx, &sample[y * ROW_BYTES]);
	}
	return wanted;
}

static void start(const struct vmcu_model *model, unsigned int at)
{
	memset(pool, 0x55, sizeof(pool));
	CHECK(vmcu_init(&ctx, model, pool, sizeof(pool)) == 0);
	calls = 0;
	cancel_at = at;
}

static void check_output(void)
{
	for (unsigned int i = 0; i < BYTES; i++) {
		CHECK(vmcu_output(&ctx, 0)[i] == sample[i] + LAYERS);
	}
}

static void test_every_call(const struct vmcu_model *model, int (*run)(void))
{
	for (unsigned int at = 1; at <= LAYERS * ROWS; at++) {
		start(model, at);
		CHECK(run() == -ECANCELED);
		CHECK(calls == at);
		CHECK(run() == 0);
		CHECK(calls == at + LAYERS * ROWS);
		check_output();
	}
}

static void test_before(const struct vmcu_model *model, int (*run)(void))
{
	start(model, 0);
	CHECK(vmcu_cancel(&ctx) == 0);
	CHECK(vmcu_cancel(&ctx) == 0);
	CHECK(run() == -ECANCELED);
	CHECK(calls == 0);
	CHECK(run() == 0);
	check_output();
}

/** Between two rows: the next one says so, and the one after it is a first row again. */
static void test_between_rows(const struct vmcu_model *model)
{
	for (unsigned int y = 1; y < ROWS; y++) {
		start(model, 0);
		for (unsigned int i = 0; i < y; i++) {
			CHECK(vmcu_push_row(&ctx, &sample[i * ROW_BYTES]) == 1);
		}
		CHECK(vmcu_cancel(&ctx) == 0);
		CHECK(vmcu_push_row(&ctx, &sample[y * ROW_BYTES]) == -ECANCELED);
		CHECK(push() == 0);
		check_output();
	}
}

static void test_init_drops_it(void)
{
	start(&whole, 0);
	CHECK(vmcu_cancel(&ctx) == 0);
	start(&whole, 0);
	CHECK(invoke() == 0);
}

static void test_refuses(void)
{
	struct vmcu_context unset = {0};

	CHECK(vmcu_cancel(NULL) == -EINVAL);
	CHECK(vmcu_cancel(&unset) == -EINVAL);
}

int main(void)
{
	test_every_call(&whole, invoke);
	test_every_call(&whole, push);
	test_every_call(&streamed, push);
	test_before(&whole, invoke);
	test_before(&whole, push);
	test_before(&streamed, push);
	test_between_rows(&whole);
	test_between_rows(&streamed);
	test_init_drops_it();
	test_refuses();
	return 0;
}
