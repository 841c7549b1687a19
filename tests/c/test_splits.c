/*
 * SPDX-License-Identifier: Apache-2.0
 */

/* Calls of a stage: columns in tiles, and tiles in the pieces that rings split them into. */

#include <vmcu/vmcu.h>

#include "check.h"

#define HEIGHT 4U
#define WIDTH  11U
#define TILE   4U
/* Every ring that there is in front of a column: the output's, the inputs'. */
#define RINGS  3U

/* Their ends are in the midst of rows, each elsewhere. */
static const struct vmcu_tensor tensors[RINGS] = {
	{.base = 0, .ring = 14, .height = HEIGHT, .width = WIDTH, .channels = 2},
	{.base = 16, .ring = 20, .phase = 6, .height = HEIGHT, .width = WIDTH, .channels = 2},
	{.base = 40, .ring = 26, .height = HEIGHT, .width = WIDTH, .channels = 2},
};

static const uint16_t layer_inputs[] = {1, 2};
static const struct vmcu_io port = {.tensor = 0};
static uint8_t splits;
static uint32_t done;

/** True if a flagged ring ends in front of pixel @a n of the image. */
static bool ends_at(uint32_t n)
{
	bool found = false;

	for (unsigned int i = 0; i < RINGS; i++) {
		const uint32_t at = 2U * n + tensors[i].phase;

		found = found || (((uint32_t)splits >> i & 1U) != 0U && at % tensors[i].ring == 0U);
	}
	return found;
}

/** A call goes on where the last one ended, to the next end of a ring or of its tile. */
static void note(const struct vmcu_call *call)
{
	const uint32_t first = (uint32_t)call->y * WIDTH + call->x;
	const uint32_t end = call->x + call->columns;

	CHECK(call->columns > 0U && first == done);
	for (uint32_t n = first + 1U; n < first + call->columns; n++) {
		CHECK(!ends_at(n));
		CHECK((n - (uint32_t)call->y * WIDTH) % TILE != 0U);
	}
	done = first + call->columns;
	CHECK(end == WIDTH || end % TILE == 0U || ends_at(done));
}

int main(void)
{
	static const uint8_t schedule[] = {0};
	static const struct vmcu_part part = {.length = 1, .times = 3U * HEIGHT};
	static const struct vmcu_stage stage = {
		.schedule = schedule, .parts = &part, .progress = 68, .part_count = 1, .count = 1};
	static int8_t pool[72] __attribute__((aligned(VMCU_POOL_ALIGN)));

	for (splits = 0; splits < 1U << RINGS; splits++) {
		const struct vmcu_layer layer = {.kernel = note,
						 .inputs = layer_inputs,
						 .input_count = 2,
						 .output = 0,
						 .rows = HEIGHT,
						 .width = WIDTH,
						 .columns = TILE,
						 .splits = splits};
		const struct vmcu_model model = {.pool_bytes = sizeof(pool),
						 .tensors = tensors,
						 .layers = &layer,
						 .stages = &stage,
						 .inputs = &port,
						 .outputs = &port,
						 .tensor_count = RINGS,
						 .layer_count = 1,
						 .stage_count = 1,
						 .input_count = 1,
						 .output_count = 1};
		struct vmcu_context ctx;

		done = 0;
		CHECK(vmcu_init(&ctx, &model, pool, sizeof(pool)) == 0);
		CHECK(vmcu_invoke(&ctx) == 0);
		CHECK(done == HEIGHT * WIDTH);
	}
	return 0;
}
