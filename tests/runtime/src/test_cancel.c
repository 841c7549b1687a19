/*
 * SPDX-License-Identifier: Apache-2.0
 */

/* A compiled model that is cancelled at any of its calls, or by an interrupt, is none the worse. */

#include <errno.h>
#include <string.h>

#include <zephyr/kernel.h>
#include <zephyr/ztest.h>

#include <vmcu/pool.h>
#include <vmcu/vmcu.h>

#include "golden.h"
#include "rows.h"
#include "tiny.h"

#define POOL_BYTES VMCU_MODEL_POOL_BYTES(tiny)
#define ROW_BYTES  VMCU_MODEL_ROW_BYTES(rows)
#define ROWS       (GOLDEN_INPUT_BYTES / ROW_BYTES)
#define LAYERS_MAX 16

static VMCU_POOL_DEFINE(pool, POOL_BYTES);

static struct vmcu_context ctx;
static struct vmcu_model model;
static struct vmcu_layer layers[LAYERS_MAX];
static const struct vmcu_layer *compiled;
static unsigned int calls;
static unsigned int cancel_at;

static void call_and_cancel(const struct vmcu_call *call)
{
	compiled[call->layer - layers].kernel(call);
	calls++;
	if (calls == cancel_at) {
		zassert_ok(vmcu_cancel(&ctx));
	}
}

/** Makes @a model a copy of a compiled one that cancels itself in call number @a at. */
static void start(const struct vmcu_model *of, unsigned int at)
{
	zassert_true(of->layer_count <= LAYERS_MAX);
	compiled = of->layers;
	model = *of;
	model.layers = layers;
	for (unsigned int i = 0; i < of->layer_count; i++) {
		layers[i] = compiled[i];
		layers[i].kernel = call_and_cancel;
	}
	calls = 0;
	cancel_at = at;
	memset(pool, 0x5a, sizeof(pool));
	zassert_ok(vmcu_init(&ctx, &model, pool, sizeof(pool)));
}

static int invoke(unsigned int i)
{
	memcpy(vmcu_input(&ctx, 0), golden_inputs[i], GOLDEN_INPUT_BYTES);
	return vmcu_invoke(&ctx);
}

static int push(unsigned int i)
{
	int wanted = 1;

	for (unsigned int y = 0; y < ROWS && wanted == 1; y++) {
		wanted = vmcu_push_row(&ctx, &golden_inputs[i][y * ROW_BYTES]);
	}
	return wanted;
}

static void check_every_call(const struct vmcu_model *of, int (*run)(unsigned int i))
{
	unsigned int total;

	start(of, 0);
	zassert_ok(run(0));
	total = calls;
	zassert_true(total > of->layer_count);
	for (unsigned int at = 1; at <= total; at++) {
		start(of, at);
		zassert_equal(run(0), -ECANCELED, "call %u", at);
		zassert_equal(calls, at);
		zassert_ok(run(1));
		zassert_mem_equal(vmcu_output(&ctx, 0), golden_outputs[1], GOLDEN_OUTPUT_BYTES,
				  "after call %u", at);
	}
}

ZTEST(vmcu_cancel, test_every_call)
{
	check_every_call(&tiny_model, invoke);
}

ZTEST(vmcu_cancel, test_every_call_by_rows)
{
	check_every_call(&tiny_model, push);
}

ZTEST(vmcu_cancel, test_every_call_of_a_streamed_model)
{
	check_every_call(&rows_model, push);
}

ZTEST(vmcu_cancel, test_refuses)
{
	struct vmcu_context blank = {0};

	zassert_equal(vmcu_cancel(NULL), -EINVAL);
	zassert_equal(vmcu_cancel(&blank), -EINVAL);
}

static void cancel(struct k_timer *timer)
{
	ARG_UNUSED(timer);
	(void)vmcu_cancel(&ctx);
}

static K_TIMER_DEFINE(timer, cancel, NULL);

ZTEST(vmcu_cancel, test_from_an_interrupt)
{
	unsigned int stopped = 0;

	/* Its time does not pass while code runs. */
	Z_TEST_SKIP_IFDEF(CONFIG_ARCH_POSIX);

	zassert_ok(vmcu_init(&ctx, &tiny_model, pool, sizeof(pool)));
	k_timer_start(&timer, K_MSEC(3), K_MSEC(3));
	for (unsigned int i = 0; i < 1000 && stopped < 5; i++) {
		const int err = invoke(i % GOLDEN_COUNT);

		if (err == -ECANCELED) {
			stopped++;
			continue;
		}
		zassert_ok(err);
		zassert_mem_equal(vmcu_output(&ctx, 0), golden_outputs[i % GOLDEN_COUNT],
				  GOLDEN_OUTPUT_BYTES);
	}
	k_timer_stop(&timer);
	zassert_equal(stopped, 5);
}

ZTEST_SUITE(vmcu_cancel, NULL, NULL, NULL, NULL, NULL);
