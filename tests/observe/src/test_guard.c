/*
 * SPDX-License-Identifier: Apache-2.0
 */

/* The guard lets right inferences pass and says where it was written; see tests/c/test_guard.c. */

#include <errno.h>
#include <string.h>

#include <zephyr/ztest.h>

#include <vmcu/vmcu.h>

#include "golden.h"
#include "log.h"
#include "rows.h"
#include "tiny.h"

#define ROW_BYTES VMCU_MODEL_ROW_BYTES(rows)

static VMCU_POOL_DEFINE(pool, VMCU_MODEL_POOL_BYTES(tiny));
static VMCU_POOL_DEFINE(rows_pool, VMCU_MODEL_POOL_BYTES(rows));

static struct vmcu_context ctx;

static void before(void *fixture)
{
	ARG_UNUSED(fixture);
	log_clear();
	zassert_ok(vmcu_init(&ctx, &tiny_model, pool, sizeof(pool)));
}

static int infer(unsigned int i)
{
	memcpy(vmcu_input(&ctx, 0), golden_inputs[i], GOLDEN_INPUT_BYTES);
	return vmcu_invoke(&ctx);
}

ZTEST(vmcu_guard, test_golden)
{
	for (unsigned int i = 0; i < GOLDEN_COUNT; i++) {
		zassert_ok(infer(i));
		zassert_mem_equal(vmcu_output(&ctx, 0), golden_outputs[i], GOLDEN_OUTPUT_BYTES);
	}
}

ZTEST(vmcu_guard, test_golden_in_rows)
{
	zassert_ok(vmcu_init(&ctx, &rows_model, rows_pool, sizeof(rows_pool)));
	for (unsigned int i = 0; i < GOLDEN_COUNT; i++) {
		int wanted = 1;

		for (size_t y = 0; wanted == 1; y++) {
			wanted = vmcu_push_row(&ctx, &golden_inputs[i][y * ROW_BYTES]);
		}
		zassert_ok(wanted);
		zassert_mem_equal(vmcu_output(&ctx, 0), golden_outputs[i], GOLDEN_OUTPUT_BYTES);
	}
}

ZTEST(vmcu_guard, test_canary_in_front)
{
	pool[VMCU_POOL_GUARD_BYTES / 2 - 1] = 0;
	zassert_equal(infer(0), -EFAULT);
	zassert_true(log_has("<err> vmcu: tiny: byte -1 of pool 0, "));
	zassert_true(log_has(" was written between inferences"));
}

ZTEST(vmcu_guard, test_canary_behind)
{
	pool[sizeof(pool) - 1] ^= 0x80;
	zassert_equal(infer(0), -EFAULT);
	/* Setting up again starts over. */
	zassert_ok(vmcu_init(&ctx, &tiny_model, pool, sizeof(pool)));
	zassert_ok(infer(0));
}

/** Somebody writes while rows come in. */
ZTEST(vmcu_guard, test_canary_during_a_stage)
{
	int wanted;

	zassert_ok(vmcu_init(&ctx, &rows_model, rows_pool, sizeof(rows_pool)));
	wanted = vmcu_push_row(&ctx, golden_inputs[0]);
	zassert_equal(wanted, 1);
	rows_pool[0] = 0;
	for (size_t y = 1; wanted == 1; y++) {
		wanted = vmcu_push_row(&ctx, &golden_inputs[0][y * ROW_BYTES]);
	}
	zassert_equal(wanted, -EFAULT);
	zassert_true(log_has("<err> vmcu: rows: byte -16 of pool 0, "));
	zassert_true(log_has(" was written during stage 0, layers 0 to "));
}

ZTEST_SUITE(vmcu_guard, NULL, NULL, before, NULL, NULL);
