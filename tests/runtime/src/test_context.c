/*
 * SPDX-License-Identifier: Apache-2.0
 */

/* What vmcu_init() accepts and refuses, and what a context says of its model. */

#include <errno.h>

#include <zephyr/ztest.h>

#include <vmcu/pool.h>
#include <vmcu/vmcu.h>

#include "golden.h"
#include "tiny.h"

#define POOL_BYTES VMCU_MODEL_POOL_BYTES(tiny)

static VMCU_POOL_DEFINE(pool, POOL_BYTES + 2 * VMCU_POOL_ALIGN);

static struct vmcu_context ctx;

ZTEST(vmcu_context, test_pool_bytes)
{
	zassert_equal(POOL_BYTES, tiny_model.pool_bytes);
}

ZTEST(vmcu_context, test_null)
{
	zassert_equal(vmcu_init(NULL, &tiny_model, pool, sizeof(pool)), -EINVAL);
	zassert_equal(vmcu_init(&ctx, NULL, pool, sizeof(pool)), -EINVAL);
	zassert_equal(vmcu_init(&ctx, &tiny_model, NULL, sizeof(pool)), -EINVAL);
}

ZTEST(vmcu_context, test_misaligned)
{
	for (size_t i = 1; i < VMCU_POOL_ALIGN; i++) {
		zassert_equal(vmcu_init(&ctx, &tiny_model, &pool[i], POOL_BYTES), -EINVAL);
	}
	zassert_ok(vmcu_init(&ctx, &tiny_model, &pool[VMCU_POOL_ALIGN], POOL_BYTES));
}

ZTEST(vmcu_context, test_size)
{
	zassert_equal(vmcu_init(&ctx, &tiny_model, pool, 0), -ENOMEM);
	zassert_equal(vmcu_init(&ctx, &tiny_model, pool, POOL_BYTES - 1), -ENOMEM);
	zassert_ok(vmcu_init(&ctx, &tiny_model, pool, POOL_BYTES));
	zassert_ok(vmcu_init(&ctx, &tiny_model, pool, sizeof(pool)));
}

static void expect_bound_to_nothing(void)
{
	zassert_equal(vmcu_invoke(&ctx), -EINVAL);
	zassert_equal(vmcu_push_row(&ctx, (const int8_t *)pool), -EINVAL);
	zassert_equal(vmcu_cancel(&ctx), -EINVAL);
	zassert_is_null(vmcu_input(&ctx, 0));
	zassert_is_null(vmcu_output(&ctx, 0));
}

ZTEST(vmcu_context, test_a_failed_init_unbinds)
{
	zassert_ok(vmcu_init(&ctx, &tiny_model, pool, sizeof(pool)));
	zassert_equal(vmcu_init(NULL, &tiny_model, pool, sizeof(pool)), -EINVAL);
	zassert_ok(vmcu_invoke(&ctx));
	zassert_equal(vmcu_init(&ctx, &tiny_model, pool, POOL_BYTES - 1), -ENOMEM);
	expect_bound_to_nothing();

	zassert_ok(vmcu_init(&ctx, &tiny_model, pool, sizeof(pool)));
	zassert_equal(vmcu_init(&ctx, &tiny_model, &pool[1], POOL_BYTES), -EINVAL);
	expect_bound_to_nothing();

	zassert_ok(vmcu_init(&ctx, &tiny_model, pool, sizeof(pool)));
	zassert_equal(vmcu_init(&ctx, NULL, pool, sizeof(pool)), -EINVAL);
	expect_bound_to_nothing();
}

ZTEST(vmcu_context, test_invoke_without_init)
{
	struct vmcu_context blank = {0};

	zassert_equal(vmcu_invoke(NULL), -EINVAL);
	zassert_equal(vmcu_invoke(&blank), -EINVAL);
}

ZTEST(vmcu_context, test_inputs_and_outputs)
{
	zassert_ok(vmcu_init(&ctx, &tiny_model, pool, sizeof(pool)));

	zassert_equal(vmcu_input_size(&ctx, 0), GOLDEN_INPUT_BYTES);
	zassert_equal(vmcu_output_size(&ctx, 0), GOLDEN_OUTPUT_BYTES);
	zassert_true((uint8_t *)vmcu_input(&ctx, 0) >= pool);
	zassert_true((uint8_t *)vmcu_input(&ctx, 0) + GOLDEN_INPUT_BYTES <= &pool[POOL_BYTES]);

	zassert_is_null(vmcu_input(&ctx, 1));
	zassert_is_null(vmcu_output(&ctx, 1));
	zassert_equal(vmcu_input_size(&ctx, 1), 0);
	zassert_equal(vmcu_output_size(&ctx, 1), 0);
}

ZTEST_SUITE(vmcu_context, NULL, NULL, NULL, NULL, NULL);
