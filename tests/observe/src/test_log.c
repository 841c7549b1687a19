/*
 * SPDX-License-Identifier: Apache-2.0
 */

/* What the module logs. */

#include <errno.h>
#include <stdio.h>

#include <zephyr/ztest.h>

#include <vmcu/vmcu.h>

#include "log.h"
#include "tiny.h"

#define POOL_BYTES VMCU_MODEL_POOL_BYTES(tiny)

static VMCU_POOL_DEFINE(pool, POOL_BYTES);

static struct vmcu_context ctx;
static char wanted[80];

static void before(void *fixture)
{
	ARG_UNUSED(fixture);
	log_clear();
}

ZTEST(vmcu_log, test_init)
{
	zassert_ok(vmcu_init(&ctx, &tiny_model, pool, sizeof(pool)));
	snprintf(wanted, sizeof(wanted), "<inf> vmcu: tiny: pool of %u bytes, %u layers",
		 tiny_model.pool_bytes, tiny_model.layer_count);
	zassert_true(log_has(wanted));
}

ZTEST(vmcu_log, test_pool_too_small)
{
	zassert_equal(vmcu_init(&ctx, &tiny_model, pool, 64), -ENOMEM);
	snprintf(wanted, sizeof(wanted),
		 "<err> vmcu: tiny: pool of 64 bytes is too small, %u are needed", POOL_BYTES);
	zassert_true(log_has(wanted));
}

ZTEST(vmcu_log, test_bad_arguments)
{
	zassert_equal(vmcu_init(&ctx, NULL, pool, sizeof(pool)), -EINVAL);
	zassert_true(
		log_has("<err> vmcu: no context, no model, or a pool that is not aligned to 8"));
}

ZTEST(vmcu_log, test_stages)
{
	zassert_ok(vmcu_init(&ctx, &tiny_model, pool, sizeof(pool)));
	zassert_ok(vmcu_invoke(&ctx));
	for (uint16_t i = 0; i < tiny_model.stage_count; i++) {
		const struct vmcu_stage *stage = &tiny_model.stages[i];

		snprintf(wanted, sizeof(wanted),
			 "<dbg> vmcu: vmcu_hook_stage_begin: tiny: stage %u, "
			 "layers %u to %u",
			 i, stage->first, stage->first + stage->count - 1);
		zassert_true(log_has(wanted), "%s", wanted);
	}
}

ZTEST_SUITE(vmcu_log, NULL, NULL, before, NULL, NULL);
