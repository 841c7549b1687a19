/*
 * SPDX-License-Identifier: Apache-2.0
 */

/*
 * One image with a model that keeps state, one whose pool rotates or which has pools in two
 * memories, one from a container and one whose weights are read while it runs, as those of the
 * container are. Each gives its own answers, whatever ran before.
 */

#include <errno.h>
#include <string.h>

#include <zephyr/ztest.h>

#include <vmcu/container.h>
#include <vmcu/vmcu.h>

#include "golden.h"
#include "hops.h"
#include "read.h"
#include "test_images.h"
#include "placed.h"

#define ARENA_BYTES 8192
#define ROW_BYTES   VMCU_MODEL_ROW_BYTES(hops)
#define ROWS        (GOLDEN_INPUT_BYTES / ROW_BYTES)
#define ROUNDS      3
/* More than may wait at a time. */
#define READS       32

static const uint8_t container[] __aligned(VMCU_CONTAINER_ALIGN) = {
#include <loaded.update.inc>
};
static const uint8_t read_weights[] = {
#include <read.inc>
};
static const uint8_t loaded_weights[] = {
#include <loaded.weights.inc>
};

static VMCU_POOL_DEFINE(hops_pool, VMCU_MODEL_POOL_BYTES(hops));
#if defined(CONFIG_VMCU_SEVERAL_POOLS)
VMCU_POOLS_DEFINE(placed_pools, placed);
#else
static VMCU_POOL_DEFINE(placed_pool, VMCU_MODEL_POOL_BYTES(placed));
#endif
static VMCU_POOL_DEFINE(read_pool, VMCU_MODEL_POOL_BYTES(read));
static uint8_t arena[ARENA_BYTES] __aligned(VMCU_POOL_ALIGN);

static struct vmcu_context hops, placed, loaded, read;
static struct vmcu_model loaded_model;

/** A weights file in flash: a read is over when it starts. */
struct weights {
	const uint8_t *data;
	size_t size;
	size_t reads[READS];
	size_t started, ended;
};

static struct weights of_read = {.data = read_weights, .size = sizeof(read_weights)};
static struct weights of_loaded = {.data = loaded_weights, .size = sizeof(loaded_weights)};

static int start_read(void *user, uint32_t offset, void *to, size_t bytes)
{
	struct weights *weights = user;

	zassert_true(offset + bytes <= weights->size);
	memcpy(to, &weights->data[offset], bytes);
	weights->reads[weights->started++ % READS] = bytes;
	return 0;
}

static int wait_read(void *user)
{
	struct weights *weights = user;

	return (int)weights->reads[weights->ended++ % READS];
}

static const struct vmcu_reader reader = {.start = start_read, .wait = wait_read, .user = &of_read};
static const struct vmcu_reader loaded_reader = {
	.start = start_read, .wait = wait_read, .user = &of_loaded};

static void *set_up(void)
{
	const struct vmcu_load_options options = {.reader = &loaded_reader};

	zassert_ok(vmcu_init(&hops, &hops_model, hops_pool, sizeof(hops_pool)));
#if defined(CONFIG_VMCU_SEVERAL_POOLS)
	zassert_ok(vmcu_init_pools(&placed, &placed_model, placed_pools, VMCU_MODEL_PLACED_POOLS));
#else
	zassert_ok(vmcu_init(&placed, &placed_model, placed_pool, sizeof(placed_pool)));
#endif
	zassert_ok(vmcu_init(&read, &read_model, read_pool, sizeof(read_pool)));
	zassert_ok(vmcu_set_reader(&read, &reader));
	zassert_ok(vmcu_model_load_as(&loaded_model, container, sizeof(container), arena,
				      sizeof(arena), &options, NULL));
	zassert_ok(vmcu_init(&loaded, &loaded_model, arena,
			     vmcu_arena_head(&loaded_model, sizeof(arena))));
	zassert_ok(vmcu_set_reader(&loaded, &loaded_reader));
	return NULL;
}

/** Rows of a golden input, which is a place of the window; the last one brings an answer. */
static void push(size_t sample, size_t first, size_t end)
{
	int wanted = 1;

	for (size_t y = first; y < end; y++) {
		wanted = vmcu_push_row(&hops, &golden_inputs[sample][y * ROW_BYTES]);
		zassert_true(wanted >= 0);
	}
	if (end == ROWS) {
		zassert_ok(wanted);
		zassert_mem_equal(vmcu_output(&hops, 0), golden_outputs[sample],
				  GOLDEN_OUTPUT_BYTES);
	}
}

static void run_whole(struct vmcu_context *ctx, size_t sample)
{
	const size_t row = vmcu_row_size(ctx, 0);

	for (unsigned int y = 0; y < GOLDEN_INPUT_BYTES / row; y++) {
		memcpy(vmcu_row_of_input(ctx, 0, y), &golden_inputs[sample][y * row], row);
	}
	zassert_ok(vmcu_invoke(ctx));
	zassert_mem_equal(vmcu_row_of_output(ctx, 0, 0), golden_outputs[sample],
			  GOLDEN_OUTPUT_BYTES);
}

/** The class of an image; the weights come from the file. */
static unsigned int class_of(size_t image)
{
	const int8_t *scores;
	unsigned int best = 0U;

	memcpy(vmcu_input(&read, 0), test_images[image], TEST_IMAGE_BYTES);
	zassert_ok(vmcu_invoke(&read));
	scores = vmcu_output(&read, 0);
	for (unsigned int i = 1; i < vmcu_output_size(&read, 0); i++) {
		best = (scores[i] > scores[best]) ? i : best;
	}
	return best;
}

ZTEST(vmcu_together, test_each_is_right)
{
	for (size_t i = 0; i < ROUNDS * GOLDEN_COUNT; i++) {
		const size_t sample = i % GOLDEN_COUNT;

		push(sample, 0, ROWS / 2U);
		run_whole(&placed, sample);
		run_whole(&loaded, GOLDEN_COUNT - 1U - sample);
		zassert_equal(class_of(i), test_labels[i]);
		push(sample, ROWS / 2U, ROWS);
	}
}

ZTEST_SUITE(vmcu_together, NULL, set_up, NULL, NULL, NULL);
