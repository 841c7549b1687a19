/*
 * SPDX-License-Identifier: Apache-2.0
 */

/* An input that is delivered row by row gives the bytes of one that is there whole. */

#include <errno.h>
#include <string.h>

#include <zephyr/kernel.h>
#include <zephyr/ztest.h>

#include <vmcu/pool.h>
#include <vmcu/vmcu.h>

#include "golden.h"
#include "rows.h"
#include "tiny.h"

#define ROW_BYTES   VMCU_MODEL_ROW_BYTES(rows)
#define ROWS        (GOLDEN_INPUT_BYTES / ROW_BYTES)
#define STACK_BYTES 1024

static VMCU_POOL_DEFINE(pool, VMCU_MODEL_POOL_BYTES(rows));
static VMCU_POOL_DEFINE(whole_pool, VMCU_MODEL_POOL_BYTES(tiny));

static struct vmcu_context ctx;

static void before(void *fixture)
{
	ARG_UNUSED(fixture);
	memset(pool, 0x5a, sizeof(pool));
	zassert_ok(vmcu_init(&ctx, &rows_model, pool, sizeof(pool)));
}

/** Pushes sample @a i and checks that only the last call says that it is done. */
static void push(struct vmcu_context *to, unsigned int i)
{
	int wanted = 1;

	for (unsigned int y = 0; y < ROWS && wanted == 1; y++) {
		wanted = vmcu_push_row(to, &golden_inputs[i][y * ROW_BYTES]);
	}
	zassert_equal(wanted, 0);
	zassert_mem_equal(vmcu_output(to, 0), golden_outputs[i], GOLDEN_OUTPUT_BYTES, "case %u", i);
}

ZTEST(vmcu_stream, test_golden)
{
	for (unsigned int i = 0; i < GOLDEN_COUNT; i++) {
		push(&ctx, i);
	}
}

ZTEST(vmcu_stream, test_a_smaller_pool)
{
	zassert_true(VMCU_MODEL_POOL_BYTES(rows) < VMCU_MODEL_POOL_BYTES(tiny));
}

ZTEST(vmcu_stream, test_init_starts_over)
{
	zassert_equal(vmcu_push_row(&ctx, golden_inputs[1]), 1);
	zassert_ok(vmcu_init(&ctx, &rows_model, pool, sizeof(pool)));
	push(&ctx, 0);
}

ZTEST(vmcu_stream, test_no_whole_input)
{
	zassert_is_null(vmcu_input(&ctx, 0));
	zassert_equal(vmcu_row_size(&ctx, 0), ROW_BYTES);
	zassert_equal(vmcu_input_size(&ctx, 0), GOLDEN_INPUT_BYTES);
	zassert_equal(vmcu_invoke(&ctx), -ENOTSUP);
}

ZTEST(vmcu_stream, test_errors)
{
	struct vmcu_context blank = {0};

	zassert_equal(vmcu_push_row(NULL, golden_inputs[0]), -EINVAL);
	zassert_equal(vmcu_push_row(&blank, golden_inputs[0]), -EINVAL);
	zassert_equal(vmcu_push_row(&ctx, NULL), -EINVAL);
}

/** Rows are of the only input. */
ZTEST(vmcu_stream, test_several_inputs)
{
	struct vmcu_model model = tiny_model;

	model.input_count = 2;
	zassert_ok(vmcu_init(&ctx, &model, whole_pool, sizeof(whole_pool)));
	zassert_equal(vmcu_push_row(&ctx, golden_inputs[0]), -ENOTSUP);
}

/** A model that keeps its input takes rows too. */
ZTEST(vmcu_stream, test_rows_of_a_whole_input)
{
	static struct vmcu_context whole;

	zassert_ok(vmcu_init(&whole, &tiny_model, whole_pool, sizeof(whole_pool)));
	push(&whole, 0);
	push(&whole, 1);
}

K_MSGQ_DEFINE(queue, ROW_BYTES, 2, 1);
K_THREAD_STACK_DEFINE(feeder_stack, STACK_BYTES);

static void feed(void *a, void *b, void *c)
{
	ARG_UNUSED(a);
	ARG_UNUSED(b);
	ARG_UNUSED(c);
	for (unsigned int i = 0; i < GOLDEN_COUNT; i++) {
		for (unsigned int y = 0; y < ROWS; y++) {
			k_msgq_put(&queue, &golden_inputs[i][y * ROW_BYTES], K_FOREVER);
		}
	}
}

ZTEST(vmcu_stream, test_rows_from_another_thread)
{
	static struct k_thread feeder;
	int8_t row[ROW_BYTES];

	k_thread_create(&feeder, feeder_stack, K_THREAD_STACK_SIZEOF(feeder_stack), feed, NULL,
			NULL, NULL, K_PRIO_PREEMPT(1), 0, K_NO_WAIT);
	for (unsigned int i = 0; i < GOLDEN_COUNT; i++) {
		int wanted = 1;

		for (unsigned int y = 0; y < ROWS; y++) {
			zassert_ok(k_msgq_get(&queue, row, K_FOREVER));
			if (wanted == 1) {
				wanted = vmcu_push_row(&ctx, row);
			}
		}
		zassert_equal(wanted, 0);
		zassert_mem_equal(vmcu_output(&ctx, 0), golden_outputs[i], GOLDEN_OUTPUT_BYTES);
	}
	zassert_ok(k_thread_join(&feeder, K_FOREVER));
}

ZTEST_SUITE(vmcu_stream, NULL, NULL, before, NULL, NULL);
