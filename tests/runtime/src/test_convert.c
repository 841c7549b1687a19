/*
 * SPDX-License-Identifier: Apache-2.0
 */

/* Real values in and out, in the order of the model file's axes. */

#include <errno.h>
#include <string.h>

#include <zephyr/ztest.h>

#include <vmcu/convert.h>
#include <vmcu/pool.h>
#include <vmcu/vmcu.h>

#include "golden.h"
#include "rows.h"
#include "tiny.h"

#define CHANNELS VMCU_MODEL_TINY_INPUT0_CHANNELS
#define PIXELS   (GOLDEN_INPUT_BYTES / CHANNELS)

static VMCU_POOL_DEFINE(pool, VMCU_MODEL_POOL_BYTES(tiny));

static struct vmcu_context ctx;
static float reals[GOLDEN_INPUT_BYTES];
static uint8_t bytes[GOLDEN_INPUT_BYTES];

static void before(void *fixture)
{
	ARG_UNUSED(fixture);
	zassert_ok(vmcu_init(&ctx, &tiny_model, pool, sizeof(pool)));
}

/** Where in tiny.onnx, whose axes are N C H W, byte @a i of memory is. */
static unsigned int in_file(unsigned int i)
{
	return i % CHANNELS * PIXELS + i / CHANNELS;
}

ZTEST(vmcu_convert, test_float)
{
	const struct vmcu_io *in = &tiny_model.inputs[0];
	const struct vmcu_io *out = &tiny_model.outputs[0];

	for (unsigned int i = 0; i < GOLDEN_INPUT_BYTES; i++) {
		reals[in_file(i)] = (float)(golden_inputs[0][i] - in->zero_point) * in->scale;
	}
	zassert_ok(vmcu_set_float(&ctx, 0, reals));
	zassert_mem_equal(vmcu_input(&ctx, 0), golden_inputs[0], GOLDEN_INPUT_BYTES);
	zassert_ok(vmcu_invoke(&ctx));
	zassert_ok(vmcu_get_float(&ctx, 0, reals));
	for (unsigned int i = 0; i < GOLDEN_OUTPUT_BYTES; i++) {
		/* In a variable: an x87 multiplies with more digits than a float has. */
		const float real = (float)(golden_outputs[0][i] - out->zero_point) * out->scale;

		zassert_equal(reals[i], real);
	}
}

/** Beyond int8, exactly between two values, and no number at all. */
ZTEST(vmcu_convert, test_rounding)
{
	const struct vmcu_io *in = &tiny_model.inputs[0];
	const float scale = in->scale;

	reals[in_file(0)] = 1e30f;
	reals[in_file(1)] = -1e30f;
	reals[in_file(2)] = __builtin_nanf("");
	reals[in_file(3)] = 2.5f * scale;
	reals[in_file(4)] = -3.5f * scale;
	reals[in_file(5)] = 2.75f * scale;
	reals[in_file(6)] = -2.75f * scale;
	zassert_ok(vmcu_set_float(&ctx, 0, reals));
	zassert_equal(vmcu_input(&ctx, 0)[0], INT8_MAX);
	zassert_equal(vmcu_input(&ctx, 0)[1], INT8_MIN);
	zassert_equal(vmcu_input(&ctx, 0)[2], INT8_MIN);
	zassert_equal(vmcu_input(&ctx, 0)[3], 2 + in->zero_point);
	zassert_equal(vmcu_input(&ctx, 0)[4], -4 + in->zero_point);
	zassert_equal(vmcu_input(&ctx, 0)[5], 3 + in->zero_point);
	zassert_equal(vmcu_input(&ctx, 0)[6], -3 + in->zero_point);
}

ZTEST(vmcu_convert, test_uint8)
{
	for (unsigned int i = 0; i < GOLDEN_INPUT_BYTES; i++) {
		bytes[in_file(i)] = (uint8_t)(golden_inputs[1][i] + 128);
	}
	zassert_ok(vmcu_set_uint8(&ctx, 0, bytes));
	zassert_mem_equal(vmcu_input(&ctx, 0), golden_inputs[1], GOLDEN_INPUT_BYTES);
	zassert_ok(vmcu_invoke(&ctx));
	zassert_ok(vmcu_get_uint8(&ctx, 0, bytes));
	for (unsigned int i = 0; i < GOLDEN_OUTPUT_BYTES; i++) {
		zassert_equal(bytes[i], (uint8_t)(golden_outputs[1][i] + 128));
	}
}

ZTEST(vmcu_convert, test_errors)
{
	struct vmcu_context blank = {0};
	const struct vmcu_io io = {.flags = VMCU_IO_WIDE};
	struct vmcu_model wide;

	zassert_equal(vmcu_set_float(NULL, 0, reals), -EINVAL);
	zassert_equal(vmcu_set_float(&blank, 0, reals), -EINVAL);
	zassert_equal(vmcu_set_float(&ctx, 0, NULL), -EINVAL);
	zassert_equal(vmcu_set_float(&ctx, 1, reals), -EINVAL);
	zassert_equal(vmcu_set_uint8(NULL, 0, bytes), -EINVAL);
	zassert_equal(vmcu_set_uint8(&blank, 0, bytes), -EINVAL);
	zassert_equal(vmcu_set_uint8(&ctx, 0, NULL), -EINVAL);
	zassert_equal(vmcu_set_uint8(&ctx, 1, bytes), -EINVAL);
	zassert_equal(vmcu_get_float(NULL, 0, reals), -EINVAL);
	zassert_equal(vmcu_get_float(&blank, 0, reals), -EINVAL);
	zassert_equal(vmcu_get_float(&ctx, 0, NULL), -EINVAL);
	zassert_equal(vmcu_get_float(&ctx, 1, reals), -EINVAL);
	zassert_equal(vmcu_get_uint8(NULL, 0, bytes), -EINVAL);
	zassert_equal(vmcu_get_uint8(&blank, 0, bytes), -EINVAL);
	zassert_equal(vmcu_get_uint8(&ctx, 0, NULL), -EINVAL);
	zassert_equal(vmcu_get_uint8(&ctx, 1, bytes), -EINVAL);
	wide = *ctx.model;
	wide.inputs = &io;
	wide.outputs = &io;
	ctx.model = &wide;
	zassert_equal(vmcu_set_float(&ctx, 0, reals), -ENOTSUP);
	zassert_equal(vmcu_set_uint8(&ctx, 0, bytes), -ENOTSUP);
	zassert_equal(vmcu_get_float(&ctx, 0, reals), -ENOTSUP);
	zassert_equal(vmcu_get_uint8(&ctx, 0, bytes), -ENOTSUP);
	zassert_ok(vmcu_init(&ctx, &rows_model, pool, sizeof(pool)));
	zassert_equal(vmcu_set_float(&ctx, 0, reals), -ENOTSUP);
	zassert_equal(vmcu_set_uint8(&ctx, 0, bytes), -ENOTSUP);
}

ZTEST_SUITE(vmcu_convert, NULL, NULL, before, NULL, NULL);
