/*
 * SPDX-License-Identifier: Apache-2.0
 */

/* Counters of two models: what ran, how it ended, what it answered. */

#include <errno.h>
#include <string.h>

#include <zephyr/ztest.h>

#include <vmcu/counters.h>
#include <vmcu/vmcu.h>

#include "golden.h"
#include "rows.h"
#include "tiny.h"

#define RUNS 3

static VMCU_POOL_DEFINE(pool, VMCU_MODEL_POOL_BYTES(tiny));

static struct vmcu_context ctx;
static struct vmcu_counters counters;

BUILD_ASSERT(CONFIG_VMCU_COUNTERS_MODELS * sizeof(struct vmcu_counters) <= 256U);

static void before(void *fixture)
{
	ARG_UNUSED(fixture);
	vmcu_counters_reset();
}

static void run_tiny(void)
{
	zassert_ok(vmcu_init(&ctx, &tiny_model, pool, sizeof(pool)));
	for (size_t i = 0; i < RUNS; i++) {
		memcpy(vmcu_input(&ctx, 0), golden_inputs[i % GOLDEN_COUNT],
		       vmcu_input_size(&ctx, 0));
		zassert_ok(vmcu_invoke(&ctx));
	}
}

/** The greatest of a sample's outputs, the first of those. */
static size_t answer_of(size_t sample)
{
	const size_t size = GOLDEN_OUTPUT_BYTES;
	size_t answer = 0U;

	for (size_t i = 1; i < size; i++) {
		answer = (golden_outputs[sample][i] > golden_outputs[sample][answer]) ? i : answer;
	}
	return answer;
}

ZTEST(vmcu_counters, test_two_models)
{
	uint32_t expected[VMCU_COUNTERS_ANSWERS] = {0};
	int wanted = 1;

	zassert_equal(vmcu_counters_get(0, &counters), -ENOENT);
	run_tiny();
	zassert_ok(vmcu_init(&ctx, &rows_model, pool, sizeof(pool)));
	for (size_t y = 0; wanted == 1; y++) {
		wanted = vmcu_push_row(&ctx, &golden_inputs[0][y * VMCU_MODEL_ROW_BYTES(rows)]);
	}
	zassert_ok(vmcu_counters_get(0, &counters));
	zassert_equal(strcmp(counters.name, "tiny"), 0);
	zassert_equal(counters.runs, RUNS);
	zassert_equal(counters.errors + counters.cancelled + counters.version, 0U);
	zassert_true(counters.least <= counters.most);
	zassert_true(counters.total >= (uint64_t)counters.least + counters.most);
	for (size_t i = 0; i < RUNS; i++) {
		expected[MIN(answer_of(i % GOLDEN_COUNT), VMCU_COUNTERS_ANSWERS - 1)]++;
	}
	zassert_mem_equal(counters.answers, expected, sizeof(expected));
	zassert_ok(vmcu_counters_get(1, &counters));
	zassert_equal(strcmp(counters.name, "rows"), 0);
	zassert_equal(counters.runs, 1U);
	zassert_equal(vmcu_counters_get(2, &counters), -ENOENT);
}

ZTEST(vmcu_counters, test_a_cancelled_call_is_no_answer)
{
	zassert_ok(vmcu_init(&ctx, &tiny_model, pool, sizeof(pool)));
	vmcu_cancel(&ctx);
	zassert_equal(vmcu_invoke(&ctx), -ECANCELED);
	zassert_ok(vmcu_counters_get(0, &counters));
	zassert_equal(counters.cancelled, 1U);
	zassert_equal(counters.runs + counters.errors, 0U);
}

ZTEST_SUITE(vmcu_counters, NULL, NULL, before, NULL, NULL);
