/*
 * SPDX-License-Identifier: Apache-2.0
 */

/* Inference on a work queue: its result, its signal, its refusals. */

#include <errno.h>
#include <string.h>

#include <zephyr/kernel.h>
#include <zephyr/ztest.h>

#include <vmcu/async.h>
#include <vmcu/pool.h>
#include <vmcu/vmcu.h>

#include "golden.h"
#include "rows.h"
#include "tiny.h"

#define STACK_BYTES CONFIG_VMCU_THREAD_STACK_SIZE

static VMCU_POOL_DEFINE(pool, VMCU_MODEL_POOL_BYTES(tiny));
static VMCU_POOL_DEFINE(other_pool, VMCU_MODEL_POOL_BYTES(tiny));
static K_THREAD_STACK_DEFINE(stack, STACK_BYTES);

static struct k_work_q queue;
static struct vmcu_context ctx;
static struct vmcu_context other_ctx;
static struct vmcu_async job;
static struct vmcu_async other_job;
static struct k_poll_signal done;
static struct k_poll_signal other_done;

static void *setup(void)
{
	k_work_queue_start(&queue, stack, K_THREAD_STACK_SIZEOF(stack), K_PRIO_PREEMPT(4), NULL);
	return NULL;
}

static void before(void *fixture)
{
	ARG_UNUSED(fixture);
	zassert_ok(vmcu_init(&ctx, &tiny_model, pool, sizeof(pool)));
	zassert_ok(vmcu_init(&other_ctx, &tiny_model, other_pool, sizeof(other_pool)));
	zassert_ok(vmcu_async_init(&job, &ctx));
	zassert_ok(vmcu_async_init(&other_job, &other_ctx));
	k_poll_signal_init(&done);
	k_poll_signal_init(&other_done);
}

static void load(struct vmcu_context *to, unsigned int i)
{
	memcpy(vmcu_input(to, 0), golden_inputs[i], GOLDEN_INPUT_BYTES);
}

/** Waits for a signal; what it was raised with. */
static int wait(struct k_poll_signal *signal)
{
	struct k_poll_event event =
		K_POLL_EVENT_INITIALIZER(K_POLL_TYPE_SIGNAL, K_POLL_MODE_NOTIFY_ONLY, signal);
	unsigned int raised;
	int result;

	zassert_ok(k_poll(&event, 1, K_SECONDS(5)));
	k_poll_signal_check(signal, &raised, &result);
	zassert_equal(raised, 1);
	return result;
}

static void check_rounds(struct k_work_q *on)
{
	for (unsigned int i = 0; i < GOLDEN_COUNT; i++) {
		load(&ctx, i);
		zassert_ok(vmcu_invoke_async(&job, on, &done));
		zassert_ok(wait(&done));
		zassert_mem_equal(vmcu_output(&ctx, 0), golden_outputs[i], GOLDEN_OUTPUT_BYTES,
				  "case %u", i);
	}
}

ZTEST(vmcu_async, test_own_queue)
{
	check_rounds(&queue);
}

ZTEST(vmcu_async, test_system_queue)
{
	check_rounds(NULL);
}

ZTEST(vmcu_async, test_two_jobs)
{
	load(&ctx, 0);
	load(&other_ctx, 1);
	zassert_ok(vmcu_invoke_async(&job, &queue, &done));
	zassert_ok(vmcu_invoke_async(&other_job, &queue, &other_done));
	zassert_ok(wait(&other_done));
	zassert_ok(wait(&done));
	zassert_mem_equal(vmcu_output(&ctx, 0), golden_outputs[0], GOLDEN_OUTPUT_BYTES);
	zassert_mem_equal(vmcu_output(&other_ctx, 0), golden_outputs[1], GOLDEN_OUTPUT_BYTES);
}

ZTEST(vmcu_async, test_busy)
{
	unsigned int raised;
	int result;

	load(&ctx, 2);
	/* The queue's thread cannot run before this one waits. */
	k_sched_lock();
	zassert_ok(vmcu_invoke_async(&job, &queue, &done));
	zassert_equal(vmcu_invoke_async(&job, &queue, &other_done), -EBUSY);
	zassert_equal(vmcu_invoke_async(&job, NULL, &done), -EBUSY);
	k_poll_signal_check(&done, &raised, &result);
	zassert_equal(raised, 0);
	k_sched_unlock();
	zassert_ok(wait(&done));
	k_poll_signal_check(&other_done, &raised, &result);
	zassert_equal(raised, 0);
	zassert_mem_equal(vmcu_output(&ctx, 0), golden_outputs[2], GOLDEN_OUTPUT_BYTES);
}

ZTEST(vmcu_async, test_cancel_in_the_queue)
{
	k_sched_lock();
	zassert_ok(vmcu_invoke_async(&job, &queue, &done));
	zassert_ok(vmcu_async_cancel(&job));
	k_sched_unlock();
	zassert_equal(wait(&done), -ECANCELED);
	check_rounds(&queue);
}

/** A copy of the model whose first call asks for its end, so that it is certainly running. */
ZTEST(vmcu_async, test_cancel_while_running)
{
	static struct vmcu_layer layers[8];
	static struct vmcu_model model;

	model = tiny_model;
	zassert_true(model.layer_count <= ARRAY_SIZE(layers));
	memcpy(layers, model.layers, model.layer_count * sizeof(layers[0]));
	extern void cancel_job(const struct vmcu_call *call);
	layers[0].kernel = cancel_job;
	model.layers = layers;
	zassert_ok(vmcu_init(&ctx, &model, pool, sizeof(pool)));
	zassert_ok(vmcu_invoke_async(&job, &queue, &done));
	zassert_equal(wait(&done), -ECANCELED);
	zassert_ok(vmcu_init(&ctx, &tiny_model, pool, sizeof(pool)));
	check_rounds(&queue);
}

void cancel_job(const struct vmcu_call *call)
{
	ARG_UNUSED(call);
	zassert_ok(vmcu_async_cancel(&job));
}

ZTEST(vmcu_async, test_nothing_to_cancel)
{
	zassert_equal(vmcu_async_cancel(&job), -EALREADY);
	load(&ctx, 3);
	zassert_ok(vmcu_invoke_async(&job, &queue, &done));
	zassert_ok(wait(&done));
	zassert_equal(vmcu_async_cancel(&job), -EALREADY);
	check_rounds(&queue);
}

ZTEST(vmcu_async, test_errors)
{
	struct vmcu_async blank = {0};
	struct vmcu_context unset = {0};
	static struct k_work_q idle;

	zassert_equal(vmcu_async_init(NULL, &ctx), -EINVAL);
	zassert_equal(vmcu_async_init(&blank, NULL), -EINVAL);
	zassert_equal(vmcu_invoke_async(NULL, &queue, &done), -EINVAL);
	zassert_equal(vmcu_invoke_async(&blank, &queue, &done), -EINVAL);
	zassert_equal(vmcu_invoke_async(&job, &queue, NULL), -EINVAL);
	zassert_equal(vmcu_async_cancel(NULL), -EINVAL);
	zassert_ok(vmcu_async_init(&blank, &unset));
	zassert_equal(vmcu_invoke_async(&blank, &queue, &done), -EINVAL);
	/* A refused job is not busy. */
	zassert_equal(vmcu_invoke_async(&job, &idle, &done), -ENODEV);
	zassert_equal(vmcu_invoke_async(&job, &idle, &done), -ENODEV);
	zassert_ok(vmcu_init(&ctx, &rows_model, pool, sizeof(pool)));
	zassert_equal(vmcu_invoke_async(&job, &queue, &done), -ENOTSUP);
}

ZTEST(vmcu_async, test_draining_queue)
{
	zassert_true(k_work_queue_drain(&queue, true) >= 0);
	zassert_equal(vmcu_invoke_async(&job, &queue, &done), -EBUSY);
	zassert_ok(k_work_queue_unplug(&queue));
	check_rounds(&queue);
}

ZTEST_SUITE(vmcu_async, NULL, setup, before, NULL, NULL);
