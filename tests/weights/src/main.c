/*
 * SPDX-License-Identifier: Apache-2.0
 */

/* Weights that Zephyr's flash API reads. */

#include <errno.h>
#include <string.h>

#include <zephyr/drivers/flash.h>
#include <zephyr/ztest.h>

#include <vmcu/partitions.h>

#include "digits_weights.h"
#include "other.h"
#include "read.h"
#include "test_images.h"

#define START  PARTITION_OFFSET(model_a)
#define SIZE   PARTITION_SIZE(model_a)
#define DEVICE PARTITION_DEVICE(model_a)
#define IMAGES 4
/* The largest block that one of the boards writes. */
#define BLOCK  4U

static const uint8_t read_bytes[] = {
#include "read.inc"
};
static const uint8_t other_bytes[] = {
#include "other.inc"
};

const struct weights right_weights = {read_bytes, sizeof(read_bytes)};
const struct weights other_weights = {other_bytes, sizeof(other_bytes)};

static uint8_t pool[MAX(VMCU_MODEL_POOL_BYTES(digits), VMCU_MODEL_POOL_BYTES(read))]
	__aligned(VMCU_POOL_ALIGN);
static struct vmcu_weights_flash flash = {.device = DEVICE, .start = START};
static struct vmcu_weights_thread by_flash;
static const struct vmcu_reader *flash_reader;
K_THREAD_STACK_DEFINE(flash_stack, THE_STACK);

/** Of one image; `reader` is NULL for weights in the program's flash. */
static int infer(const struct vmcu_model *model, const struct vmcu_reader *reader, int image,
		 int8_t *output)
{
	struct vmcu_context ctx;
	int err;

	zassert_ok(vmcu_init(&ctx, model, pool, sizeof(pool)));
	if (reader != NULL) {
		zassert_ok(vmcu_set_reader(&ctx, reader));
	}
	memcpy(vmcu_input(&ctx, 0), test_images[image], sizeof(test_images[image]));
	err = vmcu_invoke(&ctx);
	memcpy(output, vmcu_output(&ctx, 0), OUTPUTS);
	return err;
}

int infer_first(const struct vmcu_reader *reader)
{
	int8_t output[OUTPUTS];

	return infer(&read_model, reader, 0, output);
}

void is_right(const struct vmcu_reader *reader)
{
	int8_t expected[OUTPUTS];
	int8_t output[OUTPUTS];

	for (int image = 0; image < IMAGES; image++) {
		int err;

		zassert_ok(infer(&digits_model, NULL, image, expected));
		err = infer(&read_model, reader, image, output);
		zassert_ok(err, "%d", err);
		zassert_mem_equal(output, expected, OUTPUTS);
	}
}

/** Fills the last block with what erased flash has. */
static void put_into_flash(const struct weights *weights, size_t size)
{
	const size_t whole = ROUND_DOWN(size, BLOCK);
	uint8_t last[BLOCK];

	zassert_true(size <= SIZE);
	zassert_ok(flash_erase(DEVICE, START, SIZE));
	zassert_ok(flash_write(DEVICE, START, weights->data, whole));
	if (size > whole) {
		memset(last, 0xff, sizeof(last));
		memcpy(last, &weights->data[whole], size - whole);
		zassert_ok(flash_write(DEVICE, START + whole, last, sizeof(last)));
	}
}

static void *set_up(void)
{
	flash_reader = vmcu_weights_start(&by_flash, vmcu_weights_read_flash, &flash, flash_stack,
					  K_THREAD_STACK_SIZEOF(flash_stack), PRIORITY);
	return NULL;
}

ZTEST(vmcu_weights, test_flash)
{
	put_into_flash(&right_weights, right_weights.size);
	is_right(flash_reader);
	put_into_flash(&other_weights, other_weights.size);
	zassert_equal(infer_first(flash_reader), -EBADMSG);
	put_into_flash(&right_weights, right_weights.size - 1U);
	zassert_equal(infer_first(flash_reader), -EBADMSG);
	flash.start = UINT32_MAX - 7U;
	zassert_equal(infer_first(flash_reader), -EINVAL);
	flash.start = START;
	put_into_flash(&right_weights, right_weights.size);
	is_right(flash_reader);
}

ZTEST(vmcu_weights, test_readers)
{
	struct vmcu_context ctx;

	zassert_ok(vmcu_init(&ctx, &digits_model, pool, sizeof(pool)));
	zassert_equal(vmcu_set_reader(&ctx, flash_reader), -ENOTSUP);
	zassert_ok(vmcu_init(&ctx, &read_model, pool, sizeof(pool)));
	zassert_equal(vmcu_invoke(&ctx), -EINVAL);
}

ZTEST_SUITE(vmcu_weights, NULL, set_up, NULL, NULL, NULL);
