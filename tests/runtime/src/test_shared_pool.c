/*
 * SPDX-License-Identifier: Apache-2.0
 */

/* Models of different size take turns in one pool, whichever thread they are in. */

#include <errno.h>
#include <string.h>

#include <zephyr/kernel.h>
#include <zephyr/ztest.h>

#include <vmcu/pool.h>
#include <vmcu/shared_pool.h>
#include <vmcu/vmcu.h>

#include "golden.h"
#include "rows.h"
#include "tiny.h"

#define ROW_BYTES   VMCU_MODEL_ROW_BYTES(rows)
#define ROWS        (GOLDEN_INPUT_BYTES / ROW_BYTES)
#define ROUNDS      16
#define THREADS     3
#define STACK_BYTES (CONFIG_VMCU_THREAD_STACK_SIZE + 1024)

static VMCU_POOL_DEFINE(pool, VMCU_MODEL_POOL_BYTES(tiny));
static K_THREAD_STACK_ARRAY_DEFINE(stacks, THREADS, STACK_BYTES);

static struct vmcu_shared_pool shared;
static struct vmcu_context ctx;

static void before(void *fixture)
{
	ARG_UNUSED(fixture);
	zassert_ok(vmcu_shared_pool_init(&shared, pool, sizeof(pool)));
}

/** One inference in the shared pool; true if it gives the right bytes. */
static bool infer(const struct vmcu_model *model, unsigned int i)
{
	struct vmcu_context own;
	bool right;
	int err = vmcu_shared_pool_acquire(&shared, &own, model, K_FOREVER);

	if (err != 0) {
		return false;
	}
	if (model->streamed) {
		for (unsigned int y = 0; y < ROWS; y++) {
			err = vmcu_push_row(&own, &golden_inputs[i][y * ROW_BYTES]);
		}
	} else {
		memcpy(vmcu_input(&own, 0), golden_inputs[i], GOLDEN_INPUT_BYTES);
		/* Somebody else's turn, if it could be, with the input in place. */
		k_yield();
		err = vmcu_invoke(&own);
	}
	k_yield();
	right = err == 0 &&
		memcmp(vmcu_output(&own, 0), golden_outputs[i], GOLDEN_OUTPUT_BYTES) == 0;
	return vmcu_shared_pool_release(&shared) == 0 && right;
}

static void run_rounds(void *model, void *offset, void *right)
{
	for (unsigned int round = 0; round < ROUNDS; round++) {
		const unsigned int i = (round + POINTER_TO_UINT(offset)) % GOLDEN_COUNT;

		*(unsigned int *)right += infer(model, i) ? 1U : 0U;
		k_yield();
	}
}

ZTEST(vmcu_shared_pool, test_contention)
{
	static const struct vmcu_model *const models[] = {&tiny_model, &rows_model, &tiny_model};
	static struct k_thread threads[THREADS];
	static unsigned int right[THREADS];

	for (unsigned int t = 0; t < THREADS; t++) {
		right[t] = 0;
		k_thread_create(&threads[t], stacks[t], K_THREAD_STACK_SIZEOF(stacks[t]),
				run_rounds, (void *)models[t], UINT_TO_POINTER(t), &right[t],
				K_PRIO_PREEMPT(5), 0, K_NO_WAIT);
	}
	for (unsigned int t = 0; t < THREADS; t++) {
		zassert_ok(k_thread_join(&threads[t], K_FOREVER));
		zassert_equal(right[t], ROUNDS, "thread %u: %u right", t, right[t]);
	}
}

static K_SEM_DEFINE(taken, 0, 1);
static K_SEM_DEFINE(enough, 0, 1);
static struct k_thread holder;
static int holder_result;

static void hold(void *a, void *b, void *c)
{
	struct vmcu_context own;

	ARG_UNUSED(a);
	ARG_UNUSED(b);
	ARG_UNUSED(c);
	holder_result = vmcu_shared_pool_acquire(&shared, &own, &tiny_model, K_NO_WAIT);
	k_sem_give(&taken);
	k_sem_take(&enough, K_FOREVER);
	holder_result |= vmcu_shared_pool_release(&shared);
}

ZTEST(vmcu_shared_pool, test_timeout)
{
	int64_t start;

	k_thread_create(&holder, stacks[0], K_THREAD_STACK_SIZEOF(stacks[0]), hold, NULL, NULL,
			NULL, K_PRIO_PREEMPT(1), 0, K_NO_WAIT);
	zassert_ok(k_sem_take(&taken, K_SECONDS(1)));
	zassert_equal(vmcu_shared_pool_acquire(&shared, &ctx, &tiny_model, K_NO_WAIT), -EAGAIN);
	start = k_uptime_get();
	zassert_equal(vmcu_shared_pool_acquire(&shared, &ctx, &tiny_model, K_MSEC(20)), -EAGAIN);
	zassert_between_inclusive(k_uptime_get() - start, 20, 25);
	zassert_equal(vmcu_shared_pool_release(&shared), -EPERM);
	k_sem_give(&enough);
	zassert_ok(k_thread_join(&holder, K_SECONDS(1)));
	zassert_ok(holder_result);
	zassert_true(infer(&tiny_model, 0));
}

ZTEST(vmcu_shared_pool, test_bound_to_nothing_after_release)
{
	zassert_ok(vmcu_shared_pool_acquire(&shared, &ctx, &tiny_model, K_NO_WAIT));
	zassert_not_null(vmcu_input(&ctx, 0));
	zassert_ok(vmcu_shared_pool_release(&shared));
	zassert_is_null(vmcu_input(&ctx, 0));
	zassert_equal(vmcu_invoke(&ctx), -EINVAL);
}

ZTEST(vmcu_shared_pool, test_errors)
{
	struct vmcu_shared_pool small;

	zassert_equal(vmcu_shared_pool_init(NULL, pool, sizeof(pool)), -EINVAL);
	zassert_equal(vmcu_shared_pool_init(&small, NULL, sizeof(pool)), -EINVAL);
	zassert_equal(vmcu_shared_pool_init(&small, pool + 1, sizeof(pool) - 1), -EINVAL);
	zassert_equal(vmcu_shared_pool_acquire(NULL, &ctx, &tiny_model, K_NO_WAIT), -EINVAL);
	zassert_equal(vmcu_shared_pool_acquire(&shared, NULL, &tiny_model, K_NO_WAIT), -EINVAL);
	zassert_equal(vmcu_shared_pool_acquire(&shared, &ctx, NULL, K_NO_WAIT), -EINVAL);
	zassert_equal(vmcu_shared_pool_release(NULL), -EINVAL);
	zassert_equal(vmcu_shared_pool_release(&shared), -EPERM);

	/* Who is refused does not keep the pool. */
	zassert_ok(vmcu_shared_pool_init(&small, pool, VMCU_MODEL_POOL_BYTES(tiny) - 1));
	zassert_equal(vmcu_shared_pool_acquire(&small, &ctx, &tiny_model, K_NO_WAIT), -ENOMEM);
	zassert_equal(vmcu_shared_pool_release(&small), -EPERM);
	zassert_ok(vmcu_shared_pool_acquire(&small, &ctx, &rows_model, K_NO_WAIT));
	zassert_equal(vmcu_shared_pool_acquire(&small, &ctx, &rows_model, K_NO_WAIT), -EDEADLK);
	zassert_ok(vmcu_shared_pool_release(&small));
	zassert_equal(vmcu_shared_pool_release(&small), -EPERM);
}

ZTEST_SUITE(vmcu_shared_pool, NULL, NULL, before, NULL, NULL);
