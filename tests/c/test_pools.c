/*
 * SPDX-License-Identifier: Apache-2.0
 */

/* Several pools, each a circle of its own. */

#include <errno.h>
#include <string.h>

#include <vmcu/kernels.h>
#include <vmcu/vmcu.h>

#include "check.h"

#define FAST           16
#define SLOW           24
/* Bytes in front of each pool, and behind it. */
#define SIDE           (VMCU_POOL_GUARD_BYTES / 2)
#define IN(pool, byte) (((uint32_t)(pool) << VMCU_POOL_NUMBER) + (byte))

/* Clamp 3 x 2 x 2 bytes to 0 .. 100 from the slow pool, around its end, to the fast one. */
static const struct vmcu_requantize_params clamp = {.act_min = 0, .act_max = 100};

static const struct vmcu_tensor tensors[] = {
	{.base = IN(1, 16), .ring = 12, .height = 3, .width = 2, .channels = 2},
	{.base = IN(0, 8), .ring = 12, .height = 3, .width = 2, .channels = 2},
};

static const uint16_t layer_inputs[] = {0};

static const struct vmcu_layer layers[] = {
	{.kernel = vmcu_requantize,
	 .params = &clamp,
	 .inputs = layer_inputs,
	 .input_count = 1,
	 .output = 1,
	 .scratch = VMCU_SCRATCH_ON_STACK,
	 .rows = 3,
	 .width = 2,
	 .columns = 2},
};

static const struct vmcu_stage stages[] = {{.first = 0, .count = 1}};
static const struct vmcu_io inputs[] = {{.name = "in", .tensor = 0}};
static const struct vmcu_io outputs[] = {{.name = "out", .tensor = 1}};

#define MODEL(count, ...)                                                                          \
	{                                                                                          \
		.name = "clamp",                                                                   \
		.pool_bytes = FAST + SLOW,                                                         \
		.tensors = tensors,                                                                \
		.layers = layers,                                                                  \
		.stages = stages,                                                                  \
		.inputs = inputs,                                                                  \
		.outputs = outputs,                                                                \
		.tensor_count = 2,                                                                 \
		.layer_count = 1,                                                                  \
		.stage_count = 1,                                                                  \
		.input_count = 1,                                                                  \
		.output_count = 1,                                                                 \
		.pools = {__VA_ARGS__},                                                            \
		.pool_count = (count),                                                             \
	}

static const struct vmcu_model model = MODEL(2, FAST, SLOW);
static const struct vmcu_model unused = MODEL(3, FAST, SLOW, 0);

static uint8_t fast[FAST + 8 + 2 * SIDE] __attribute__((aligned(VMCU_POOL_ALIGN)));
static uint8_t slow[SLOW + 2 * SIDE] __attribute__((aligned(VMCU_POOL_ALIGN)));

static void test_init(void)
{
	const struct vmcu_memory right[] = {{fast, sizeof(fast)}, {slow, sizeof(slow)}, {NULL, 0}};
	const struct vmcu_memory small[] = {{fast, sizeof(fast)}, {slow, sizeof(slow) - 1}};
	const struct vmcu_memory misaligned[] = {{fast + 4, sizeof(fast)}, {slow, sizeof(slow)}};
	const struct vmcu_memory missing[] = {{fast, sizeof(fast)}, {NULL, sizeof(slow)}};
	const struct vmcu_model refused = {.pool_count = 2};
	struct vmcu_context ctx;

	(void)refused;
	CHECK(vmcu_init_pools(NULL, &model, right, 2) == -EINVAL);
	CHECK(vmcu_init_pools(&ctx, NULL, right, 2) == -EINVAL);
#if defined(VMCU_CONTAINERS)
	/* As a container that was refused leaves it. */
	CHECK(vmcu_init_pools(&ctx, &refused, right, 2) == -EINVAL);
#endif
	CHECK(vmcu_init_pools(&ctx, &model, NULL, 2) == -EINVAL);
	CHECK(vmcu_init_pools(&ctx, &model, right, 1) == -EINVAL);
	CHECK(vmcu_init_pools(&ctx, &model, right, 3) == -EINVAL);
	CHECK(vmcu_init_pools(&ctx, &model, misaligned, 2) == -EINVAL);
	CHECK(vmcu_init_pools(&ctx, &model, missing, 2) == -EINVAL);
	CHECK(vmcu_init_pools(&ctx, &model, small, 2) == -ENOMEM);
	CHECK(vmcu_invoke(&ctx) == -EINVAL);
	CHECK(vmcu_init(&ctx, &model, fast, sizeof(fast)) == -EINVAL);
	CHECK(vmcu_init_pools(&ctx, &unused, right, 3) == 0);
	CHECK(vmcu_init_pools(&ctx, &model, right, 2) == 0);
}

static void test_circles(void)
{
	const struct vmcu_memory pools[] = {{fast, sizeof(fast)}, {slow, sizeof(slow)}};
	struct vmcu_context ctx;

	memset(fast, 0x55, sizeof(fast));
	memset(slow, 0x55, sizeof(slow));
	CHECK(vmcu_init_pools(&ctx, &model, pools, 2) == 0);
	for (unsigned int y = 0; y < 3; y++) {
		int8_t *row = vmcu_row_of_input(&ctx, 0, y);

		for (int x = 0; x < 4; x++) {
			row[x] = (int8_t)(60 * (int)y + x - 1);
		}
	}
	CHECK(vmcu_input(&ctx, 0) == (int8_t *)slow + SIDE + 16);
	CHECK(vmcu_row_of_input(&ctx, 0, 2) == (int8_t *)slow + SIDE);
	CHECK(vmcu_invoke(&ctx) == 0);
	CHECK(vmcu_row_of_output(&ctx, 0, 0) == (int8_t *)fast + SIDE + 8);
	CHECK(vmcu_row_of_output(&ctx, 0, 2) == (int8_t *)fast + SIDE);
	for (unsigned int y = 0; y < 3; y++) {
		for (int x = 0; x < 4; x++) {
			const int value = 60 * (int)y + x - 1;
			const int clamped = (value < 0) ? 0 : (value > 100) ? 100 : value;

			CHECK(vmcu_row_of_output(&ctx, 0, y)[x] == clamped);
		}
	}
	/* Nothing is written beyond a circle, however large the memory is. */
	for (unsigned int i = FAST + 2 * SIDE; SIDE == 0 && i < sizeof(fast); i++) {
		CHECK(fast[i] == 0x55);
	}
#if defined(VMCU_POOL_GUARD)
	CHECK(vmcu_invoke(&ctx) == 0);
	/* In front of each, behind the model's own bytes, and at the array's end. */
	uint8_t *const beside[] = {&fast[SIDE - 1], &slow[SIDE - 1], &slow[SIDE + SLOW],
				   &fast[SIDE + FAST + 8], &fast[sizeof(fast) - 1]};

	for (unsigned int i = 0; i < sizeof(beside) / sizeof(beside[0]); i++) {
		*beside[i] ^= 1U;
		CHECK(vmcu_invoke(&ctx) == -EFAULT);
		*beside[i] ^= 1U;
		CHECK(vmcu_invoke(&ctx) == 0);
	}
#endif
}

static void test_one_pool(void)
{
	static const struct vmcu_tensor in_one[] = {
		{.base = 0, .ring = 12, .height = 3, .width = 2, .channels = 2},
		{.base = 12, .ring = 12, .height = 3, .width = 2, .channels = 2},
	};
	struct vmcu_model one = model;
	struct vmcu_context ctx;

	one.tensors = in_one;
	one.pool_count = 0;
	one.pool_bytes = SLOW;
	CHECK(vmcu_init(&ctx, &one, slow, sizeof(slow) - 1) == -ENOMEM);
	CHECK(vmcu_init(&ctx, &one, slow, sizeof(slow)) == 0);
	memset(vmcu_input(&ctx, 0), 101, 12);
	CHECK(vmcu_invoke(&ctx) == 0);
	CHECK(vmcu_output(&ctx, 0)[11] == 100);
}

int main(void)
{
	test_init();
	test_circles();
	test_one_pool();
	return 0;
}
