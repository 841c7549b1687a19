/*
 * SPDX-License-Identifier: Apache-2.0
 */

/*
 * A window that moves gives, at each place, the bytes of the window on its own: the golden inputs,
 * one behind the other, are four of the windows. The model's first layer pads, so that all of its
 * layers look back at rows that the stream has kept.
 */

#include <errno.h>
#include <string.h>

#include <zephyr/ztest.h>

#include <vmcu/pool.h>
#include <vmcu/vmcu.h>

#include "golden.h"
#include "hops.h"

#define ROW_BYTES VMCU_MODEL_ROW_BYTES(hops)
#define HOP_ROWS  VMCU_MODEL_HOPS_HOP_ROWS
#define ROWS      (GOLDEN_INPUT_BYTES / ROW_BYTES)

BUILD_ASSERT(ROWS % HOP_ROWS == 0, "each golden input must be a place of the window");

static VMCU_POOL_DEFINE(hops_pool, VMCU_MODEL_POOL_BYTES(hops));

static struct vmcu_context ctx;
/* As large as the pool at most, with what tells it apart. */
static uint8_t state[VMCU_MODEL_POOL_BYTES(hops) + 256U];

static void before(void *fixture)
{
	ARG_UNUSED(fixture);
	memset(hops_pool, 0x5a, sizeof(hops_pool));
	zassert_ok(vmcu_init(&ctx, &hops_model, hops_pool, sizeof(hops_pool)));
}

/** Pushes rows of golden input @a i from @a first up to @a end; true if the last brings an answer.
 */
static bool push(unsigned int i, unsigned int first, unsigned int end)
{
	int wanted = 1;

	for (unsigned int y = first; y < end; y++) {
		wanted = vmcu_push_row(&ctx, &golden_inputs[i][y * ROW_BYTES]);
		zassert_true(wanted >= 0, "row %u of %u: %d", y, i, wanted);
	}
	return wanted == 0;
}

/** Pushes all of golden input @a i and checks the answer. */
static void expect(unsigned int i)
{
	zassert_true(push(i, 0, ROWS), "case %u", i);
	zassert_mem_equal(vmcu_output(&ctx, 0), golden_outputs[i], GOLDEN_OUTPUT_BYTES, "case %u",
			  i);
}

ZTEST(vmcu_hops, test_golden)
{
	for (unsigned int i = 0; i < 3U * GOLDEN_COUNT; i++) {
		expect(i % GOLDEN_COUNT);
	}
}

ZTEST(vmcu_hops, test_an_answer_a_hop)
{
	expect(0);
	for (unsigned int y = 0; y < ROWS; y++) {
		zassert_equal(push(1, y, y + 1U), (y + 1U) % HOP_ROWS == 0U, "row %u", y);
	}
}

ZTEST(vmcu_hops, test_reset)
{
	expect(0);
	(void)push(3, 0, 4);
	zassert_ok(vmcu_reset(&ctx));
	expect(2);
}

ZTEST(vmcu_hops, test_two_streams_take_turns)
{
	zassert_true(vmcu_state_size(&ctx) <= sizeof(state));
	expect(0);
	(void)push(1, 0, 4);
	zassert_ok(vmcu_state_save(&ctx, state, sizeof(state)));
	zassert_ok(vmcu_reset(&ctx));
	expect(3);
	zassert_ok(vmcu_state_restore(&ctx, state, sizeof(state)));
	zassert_true(push(1, 4, ROWS));
	zassert_mem_equal(vmcu_output(&ctx, 0), golden_outputs[1], GOLDEN_OUTPUT_BYTES);
}

ZTEST(vmcu_hops, test_a_state_that_is_none)
{
	const size_t size = vmcu_state_size(&ctx);

	expect(0);
	zassert_ok(vmcu_state_save(&ctx, state, sizeof(state)));
	zassert_equal(vmcu_state_save(&ctx, state, size - 1U), -ENOMEM);
	zassert_equal(vmcu_state_save(NULL, state, size), -EINVAL);
	zassert_equal(vmcu_state_restore(&ctx, state, size - 1U), -EINVAL);
	state[size - 1U] ^= 1U;
	zassert_equal(vmcu_state_restore(&ctx, state, size), -EILSEQ);
	state[0] ^= 1U;
	zassert_equal(vmcu_state_restore(&ctx, state, size), -EBADMSG);
	/* The context's own state is as it was. */
	expect(1);
}

ZTEST_SUITE(vmcu_hops, NULL, NULL, before, NULL, NULL);
