/*
 * SPDX-License-Identifier: Apache-2.0
 */

/* Calls and cycles of layers. */

#include <errno.h>

#include <zephyr/sys/util.h>
#include <zephyr/ztest.h>

#include <vmcu/profile.h>
#include <vmcu/vmcu.h>

#include "golden.h"
#include "rows.h"
#include "tiny.h"

#define WINDOW CONFIG_VMCU_PROFILE_LAYERS

static VMCU_POOL_DEFINE(pool, MAX(VMCU_MODEL_POOL_BYTES(tiny), VMCU_MODEL_POOL_BYTES(rows)));

static struct vmcu_context ctx;
static struct vmcu_profile profile;

BUILD_ASSERT(sizeof(struct vmcu_profile) - sizeof(profile.layers) +
			     20U * sizeof(struct vmcu_layer_profile) <
		     200U,
	     "a profile of the default size takes 200 bytes or more");

/** How many calls an inference makes of a layer's kernel, if no ring's end makes two of one. */
static uint32_t calls_of(const struct vmcu_layer *layer)
{
	return (uint32_t)layer->rows * DIV_ROUND_UP(layer->width, layer->columns);
}

static void expect(const struct vmcu_model *model, uint16_t first, uint32_t inferences)
{
	zassert_equal(profile.first, first);
	zassert_equal(profile.count, MIN(WINDOW, model->layer_count - first));
	for (uint16_t i = 0; i < profile.count; i++) {
		const struct vmcu_layer *layer = &model->layers[first + i];
		const uint32_t least = inferences * calls_of(layer);

		zassert_true(profile.layers[i].calls >= least, "layer %u", first + i);
		zassert_true(layer->splits != 0U || profile.layers[i].calls == least, "layer %u",
			     first + i);
		/* QEMU has no DWT, and time stands still while native_sim computes. */
		if (!IS_ENABLED(CONFIG_CPU_CORTEX_M_HAS_DWT) && !IS_ENABLED(CONFIG_ARCH_POSIX)) {
			zassert_true(profile.layers[i].cycles > 0U);
		}
	}
}

static void before(void *fixture)
{
	ARG_UNUSED(fixture);
	zassert_ok(vmcu_init(&ctx, &tiny_model, pool, sizeof(pool)));
}

ZTEST(vmcu_profile, test_all_layers_by_and_by)
{
	zassert_true(tiny_model.layer_count > WINDOW);
	for (uint16_t first = 0; first < tiny_model.layer_count; first += WINDOW) {
		zassert_ok(vmcu_profile_start(&ctx, &profile, first));
		zassert_ok(vmcu_invoke(&ctx));
		expect(&tiny_model, first, 1);
	}
}

ZTEST(vmcu_profile, test_counts_until_stopped)
{
	zassert_ok(vmcu_profile_start(&ctx, &profile, 1));
	zassert_ok(vmcu_invoke(&ctx));
	zassert_ok(vmcu_invoke(&ctx));
	vmcu_profile_stop(&ctx);
	zassert_ok(vmcu_invoke(&ctx));
	expect(&tiny_model, 1, 2);
}

ZTEST(vmcu_profile, test_rows_of_the_input)
{
	const size_t bytes = VMCU_MODEL_ROW_BYTES(rows);
	int wanted = 1;

	zassert_ok(vmcu_init(&ctx, &rows_model, pool, sizeof(pool)));
	zassert_ok(vmcu_profile_start(&ctx, &profile, 0));
	for (size_t y = 0; wanted == 1; y++) {
		wanted = vmcu_push_row(&ctx, &golden_inputs[0][y * bytes]);
	}
	zassert_ok(wanted);
	expect(&rows_model, 0, 1);
}

ZTEST(vmcu_profile, test_init_ends_it)
{
	zassert_ok(vmcu_profile_start(&ctx, &profile, 0));
	zassert_ok(vmcu_init(&ctx, &tiny_model, pool, sizeof(pool)));
	zassert_ok(vmcu_invoke(&ctx));
	zassert_equal(profile.layers[0].calls, 0);
}

ZTEST(vmcu_profile, test_errors)
{
	struct vmcu_context blank = {0};

	zassert_equal(vmcu_profile_start(NULL, &profile, 0), -EINVAL);
	zassert_equal(vmcu_profile_start(&blank, &profile, 0), -EINVAL);
	zassert_equal(vmcu_profile_start(&ctx, NULL, 0), -EINVAL);
	zassert_equal(vmcu_profile_start(&ctx, &profile, tiny_model.layer_count), -ERANGE);
	vmcu_profile_stop(NULL);
}

ZTEST_SUITE(vmcu_profile, NULL, NULL, before, NULL, NULL);
