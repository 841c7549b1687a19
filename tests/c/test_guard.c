/*
 * SPDX-License-Identifier: Apache-2.0
 */

/*
 * Built with VMCU_POOL_GUARD, also with pools in several memories and with pools that rotate:
 * writes beside the pool are found, what nobody wrote is poisoned.
 */

#include <errno.h>
#include <string.h>

#include <vmcu/access.h>
#include <vmcu/vmcu.h>

#include "check.h"

#define BYTES 24
#define SIDE  (VMCU_POOL_GUARD_BYTES / 2)
#define ALL   (BYTES + VMCU_POOL_GUARD_BYTES)

/* What guard.c writes where nothing is. */
#define POISONED 0x55

enum tensor {
	INPUT,
	MIDDLE,
	OUTPUT,
	UNWRITTEN,
	TENSORS
};

/* The input wraps; the first layer's output leaves it alone, the second's lies on it. */
static const struct vmcu_tensor tensors[TENSORS] = {
	[INPUT] = {.base = 20, .ring = 8, .height = 2, .width = 4, .channels = 1},
	[MIDDLE] = {.base = 4, .ring = 8, .height = 2, .width = 4, .channels = 1},
	[OUTPUT] = {.base = 12, .ring = 8, .height = 2, .width = 4, .channels = 1},
	[UNWRITTEN] = {.base = 16, .ring = 8, .height = 2, .width = 4, .channels = 1},
};

/* What the second layer reads besides its input, and where it writes besides its output. */
static enum tensor also_read;
static int32_t also_written;
/* The pool as each layer's first row found it. */
static int8_t found[2][BYTES];

static void copy(const struct vmcu_call *call, enum tensor from)
{
	memcpy(vmcu_row(call->pool, vmcu_call_output(call), call->y),
	       vmcu_row(call->pool, &call->tensors[from], call->y), 4);
}

static void first(const struct vmcu_call *call)
{
	if (call->y == 0U) {
		memcpy(found[0], vmcu_pool_start(call->pool, tensors), BYTES);
	}
	copy(call, INPUT);
}

static void second(const struct vmcu_call *call)
{
	if (call->y == 0U) {
		memcpy(found[1], vmcu_pool_start(call->pool, tensors), BYTES);
	}
	copy(call, also_read);
	if (also_written != 0) {
		vmcu_pool_start(call->pool, tensors)[also_written] = 0;
	}
}

static const uint16_t layer_inputs[] = {INPUT, MIDDLE};

static const struct vmcu_layer layers[] = {
	{.kernel = first,
	 .inputs = &layer_inputs[0],
	 .input_count = 1,
	 .output = MIDDLE,
	 .rows = 2},
	{.kernel = second,
	 .inputs = &layer_inputs[1],
	 .input_count = 1,
	 .output = OUTPUT,
	 .rows = 2},
};

static const struct vmcu_stage stages[] = {{.first = 0, .count = 1}, {.first = 1, .count = 1}};
static const struct vmcu_io inputs[] = {{.tensor = INPUT}};
static const struct vmcu_io outputs[] = {{.tensor = OUTPUT}};

static const struct vmcu_model model = {
	.pool_bytes = BYTES,
	.tensors = tensors,
	.layers = layers,
	.stages = stages,
	.inputs = inputs,
	.outputs = outputs,
	.tensor_count = TENSORS,
	.layer_count = 2,
	.stage_count = 2,
	.input_count = 1,
	.output_count = 1,
};

static const int8_t sevens[4] = {7, 7, 7, 7};
static uint8_t pool[ALL + 8] __attribute__((aligned(VMCU_POOL_ALIGN)));
static struct vmcu_context ctx;

/** One inference on an input of sevens in a pool of ones. */
static int infer(enum tensor read, int32_t written)
{
	also_read = read;
	also_written = written;
	memset(vmcu_pool_start(&ctx.pool, tensors), 1, BYTES);
	memset(vmcu_row(&ctx.pool, &tensors[INPUT], 0), 7, 4);
	memset(vmcu_row(&ctx.pool, &tensors[INPUT], 1), 7, 4);
	return vmcu_invoke(&ctx);
}

static bool all(const int8_t *bytes, int8_t value)
{
	for (int i = 0; i < 8; i++) {
		if (bytes[i] != value) {
			return false;
		}
	}
	return true;
}

static void test_size(void)
{
	CHECK(vmcu_init(&ctx, &model, pool, ALL - 1) == -ENOMEM);
	CHECK(vmcu_init(&ctx, &model, pool, ALL) == 0);
	CHECK((uint8_t *)vmcu_pool_start(&ctx.pool, tensors) == &pool[SIDE]);
}

static void test_what_holds_something_is_left_alone(void)
{
	CHECK(vmcu_init(&ctx, &model, pool, ALL) == 0);
	CHECK(infer(MIDDLE, 0) == 0);
	CHECK(all(vmcu_output(&ctx, 0), 7));
}

static void test_stale_bytes(void)
{
	CHECK(vmcu_init(&ctx, &model, pool, ALL) == 0);
	CHECK(infer(UNWRITTEN, 0) == 0);
	CHECK(!all(vmcu_output(&ctx, 0), 1));
	/* The input is dead when the second layer begins. */
	CHECK(infer(INPUT, 0) == 0);
	CHECK(!all(vmcu_output(&ctx, 0), 7));
	CHECK(vmcu_output(&ctx, 0)[0] != 7);
}

/** Checks that bytes [from, to) of a pool are alive, and all others poisoned. */
static void check_only(const int8_t *bytes, int from, int to, int also)
{
	for (int i = 0; i < BYTES; i++) {
		CHECK(bytes[i] == (((i >= from && i < to) || i < also) ? 7 : POISONED));
	}
}

/** Every byte that no tensor needs any more, or yet, and no other. */
static void test_poison_is_everywhere_else(void)
{
	CHECK(vmcu_init(&ctx, &model, pool, ALL) == 0);
	CHECK(infer(MIDDLE, 0) == 0);
	check_only(found[0], 20, BYTES, 4);
	check_only(found[1], 4, 12, 0);
	check_only(vmcu_pool_start(&ctx.pool, tensors), 12, 20, 0);
}

/** Gaps in front of, between and behind what is alive. */
static void test_poison_in_every_gap(void)
{
	static const struct vmcu_tensor apart[TENSORS] = {
		[INPUT] = {.base = 2, .ring = 2, .height = 2, .width = 1, .channels = 1},
		[MIDDLE] = {.base = 10, .ring = 3, .height = 3, .width = 1, .channels = 1},
		[OUTPUT] = {.base = 18, .ring = 2, .height = 2, .width = 1, .channels = 1},
		[UNWRITTEN] = {.base = 5, .ring = 2, .height = 2, .width = 1, .channels = 1},
	};
	static const struct vmcu_io three[] = {
		{.tensor = INPUT}, {.tensor = MIDDLE}, {.tensor = OUTPUT}};
	struct vmcu_model kept = model;

	kept.tensors = apart;
	kept.inputs = three;
	kept.outputs = three;
	kept.input_count = 3;
	kept.output_count = 3;
	kept.layer_count = 0;
	kept.stage_count = 0;
	CHECK(vmcu_init(&ctx, &kept, pool, ALL) == 0);
	memset(vmcu_pool_start(&ctx.pool, tensors), 7, BYTES);
	CHECK(vmcu_invoke(&ctx) == 0);
	for (int i = 0; i < BYTES; i++) {
		const bool alive = i == 2 || i == 3 || (i >= 10 && i < 13) || i == 18 || i == 19;

		CHECK(vmcu_pool_start(&ctx.pool, tensors)[i] == (alive ? 7 : POISONED));
	}
}

/** An input that comes in rows is not there before its first one. */
static void test_poison_where_rows_will_be(void)
{
	static const struct vmcu_layer layer = {.kernel = first,
						.inputs = &layer_inputs[0],
						.input_count = 1,
						.output = MIDDLE,
						.rows = 2,
						.width = 4,
						.columns = 4};
	static const uint8_t schedule[] = {VMCU_TAKE, 0};
	static const struct vmcu_part part = {.length = 2, .times = 2};
	static const struct vmcu_stage stage = {.schedule = schedule,
						.parts = &part,
						.progress = 16,
						.part_count = 1,
						.count = 1,
						.taken = 4};
	static const struct vmcu_io out = {.tensor = MIDDLE};
	struct vmcu_model streamed = model;

	streamed.layers = &layer;
	streamed.stages = &stage;
	streamed.outputs = &out;
	streamed.layer_count = 1;
	streamed.stage_count = 1;
	streamed.streamed = true;
	CHECK(vmcu_init(&ctx, &streamed, pool, ALL) == 0);
	memset(vmcu_pool_start(&ctx.pool, tensors), 1, BYTES);
	CHECK(vmcu_push_row(&ctx, sevens) == 1);
	for (int i = 0; i < BYTES; i++) {
		const bool progress = i == 16 || i == 17;

		CHECK(found[0][i] == (progress ? (i == 16) : (i >= 20) ? 7 : POISONED));
	}
	CHECK(vmcu_push_row(&ctx, sevens) == 0);
	check_only(vmcu_pool_start(&ctx.pool, tensors), 4, 12, 0);
	/* What is wrong is said at the first row. */
	pool[0] ^= 1U;
	CHECK(vmcu_push_row(&ctx, sevens) == -EFAULT);
}

static void test_a_layer_writes_outside(void)
{
	static const int32_t places[] = {-SIDE, -1, BYTES, BYTES + SIDE - 1};

	for (unsigned int i = 0; i < sizeof(places) / sizeof(places[0]); i++) {
		CHECK(vmcu_init(&ctx, &model, pool, ALL) == 0);
		CHECK(infer(MIDDLE, places[i]) == -EFAULT);
		/* Until somebody looks into it and starts over. */
		CHECK(places[i] >= BYTES || infer(MIDDLE, 0) == -EFAULT);
		CHECK(vmcu_init(&ctx, &model, pool, ALL) == 0);
		CHECK(infer(MIDDLE, 0) == 0);
	}
}

static void test_somebody_else_writes_outside(void)
{
	static const unsigned int places[] = {0, SIDE - 1, sizeof(pool) - 1};

	for (unsigned int i = 0; i < sizeof(places) / sizeof(places[0]); i++) {
		CHECK(vmcu_init(&ctx, &model, pool, sizeof(pool)) == 0);
		pool[places[i]] ^= 1U;
		CHECK(infer(MIDDLE, 0) == -EFAULT);
		/* Of a cancelled inference, too. */
		CHECK(vmcu_cancel(&ctx) == 0);
		CHECK(infer(MIDDLE, 0) == -EFAULT);
	}
}

/** Two models of different sizes take turns in one array. */
static void test_shared_array(void)
{
	static const struct vmcu_model larger = {.pool_bytes = BYTES + 8};
	struct vmcu_context other;

	CHECK(vmcu_init(&other, &larger, pool, sizeof(pool)) == 0);
	CHECK(vmcu_init(&ctx, &model, pool, sizeof(pool)) == 0);
	for (int i = 0; i < 3; i++) {
		CHECK(vmcu_invoke(&other) == 0);
		memset(vmcu_pool_start(&other.pool, tensors), 2, larger.pool_bytes);
		CHECK(infer(MIDDLE, 0) == 0);
		CHECK(all(vmcu_output(&ctx, 0), 7));
	}
}

int main(void)
{
	test_size();
	test_what_holds_something_is_left_alone();
	test_stale_bytes();
	test_poison_is_everywhere_else();
	test_poison_in_every_gap();
	test_poison_where_rows_will_be();
	test_a_layer_writes_outside();
	test_somebody_else_writes_outside();
	test_shared_array();
	return 0;
}
