/*
 * SPDX-License-Identifier: Apache-2.0
 */

/* A model from a container gives ONNX Runtime's bytes; one that is damaged is never bound. */

#include <errno.h>
#include <string.h>

#include <zephyr/kernel.h>
#include <zephyr/ztest.h>

#include <vmcu/container.h>

#include "golden.h"

#define ARENA_BYTES 8192

static const uint8_t tiny[] __aligned(VMCU_CONTAINER_ALIGN) = {
#include <tiny.vmcu.inc>
};

static uint8_t damaged[sizeof(tiny)] __aligned(VMCU_CONTAINER_ALIGN);
static uint8_t arena[ARENA_BYTES] __aligned(VMCU_POOL_ALIGN);
static struct vmcu_model model;
static struct vmcu_model second;
static struct vmcu_context ctx;

static void run_all(const struct vmcu_model *loaded, size_t head)
{
	zassert_ok(vmcu_init(&ctx, loaded, arena, head));
	for (unsigned int i = 0; i < GOLDEN_COUNT; i++) {
		memcpy(vmcu_input(&ctx, 0), golden_inputs[i], GOLDEN_INPUT_BYTES);
		zassert_ok(vmcu_invoke(&ctx));
		zassert_mem_equal(vmcu_output(&ctx, 0), golden_outputs[i], GOLDEN_OUTPUT_BYTES,
				  "case %u", i);
	}
}

ZTEST(vmcu_container, test_golden)
{
	struct vmcu_arena_report report;

	zassert_ok(vmcu_model_load(&model, tiny, sizeof(tiny), arena, sizeof(arena)));
	zassert_ok(vmcu_arena_report(&model, sizeof(arena), &report));
	zassert_equal(report.head + report.free + report.tail, sizeof(arena));
	run_all(&model, vmcu_arena_head(&model, sizeof(arena)));
}

ZTEST(vmcu_container, test_two_models_share_the_head)
{
	size_t left;

	zassert_ok(vmcu_model_load(&model, tiny, sizeof(tiny), arena, sizeof(arena)));
	left = vmcu_arena_head(&model, sizeof(arena));
	zassert_ok(vmcu_model_load(&second, tiny, sizeof(tiny), arena, left));
	left = vmcu_arena_head(&second, left);
	run_all(&model, left);
	run_all(&second, left);
	run_all(&model, left);
}

ZTEST(vmcu_container, test_damaged)
{
	struct vmcu_refusal refusal;

	for (size_t at = 0; at < sizeof(tiny); at += 97) {
		memcpy(damaged, tiny, sizeof(tiny));
		damaged[at] ^= 0x10;
		if (at >= 48U && at < 112U) {
			/* The signature, which this build does not ask for. */
			continue;
		}
		zassert_true(vmcu_model_load_saying(&model, damaged, sizeof(damaged), arena,
						    sizeof(arena), &refusal) < 0,
			     "byte %zu", at);
		zassert_not_null(refusal.what);
		zassert_equal(vmcu_init(&ctx, &model, arena, sizeof(arena)), -EINVAL);
	}
	zassert_equal(vmcu_model_load(&model, tiny, sizeof(tiny) - 1U, arena, sizeof(arena)),
		      -EBADMSG);
}

ZTEST(vmcu_container, test_arguments)
{
	zassert_equal(vmcu_model_load(NULL, tiny, sizeof(tiny), arena, sizeof(arena)), -EINVAL);
	zassert_equal(vmcu_model_load(&model, NULL, sizeof(tiny), arena, sizeof(arena)), -EINVAL);
	zassert_equal(vmcu_model_load(&model, tiny + 4, sizeof(tiny) - 4U, arena, sizeof(arena)),
		      -EINVAL);
	zassert_equal(vmcu_model_load(&model, tiny, sizeof(tiny), NULL, sizeof(arena)), -EINVAL);
	zassert_equal(vmcu_model_load(&model, tiny, sizeof(tiny), arena, 64U), -ENOMEM);
	zassert_equal(vmcu_arena_head(&model, sizeof(arena)), 0U);
}

ZTEST_SUITE(vmcu_container, NULL, NULL, NULL, NULL, NULL);
