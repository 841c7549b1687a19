/*
 * SPDX-License-Identifier: Apache-2.0
 */

/* A thread of higher priority keeps its period of 1 ms while another infers. */

#include <string.h>

#include <zephyr/kernel.h>
#include <zephyr/ztest.h>

#include <vmcu/pool.h>
#include <vmcu/vmcu.h>

#include "golden.h"
#include "tiny.h"

#define PERIODS      200
#define STACK_BYTES  1024
/* Of the period: the switch from one thread to the other, and an interrupt that runs. */
#define JITTER_PARTS 20

static VMCU_POOL_DEFINE(pool, VMCU_MODEL_POOL_BYTES(tiny));
static K_THREAD_STACK_DEFINE(stack, STACK_BYTES);

static struct vmcu_context ctx;
static struct k_thread control;
static uint32_t releases[PERIODS];
static volatile bool inferring;
static volatile bool finished;
static unsigned int preempted;

static K_TIMER_DEFINE(period, NULL, NULL);

static void keep_time(void *a, void *b, void *c)
{
	ARG_UNUSED(a);
	ARG_UNUSED(b);
	ARG_UNUSED(c);
	/* Here: the first period is what is left of the tick, which may be next to nothing. */
	k_timer_start(&period, K_MSEC(1), K_MSEC(1));
	for (unsigned int i = 0; i < PERIODS; i++) {
		/* More than one: a period was missed. */
		if (k_timer_status_sync(&period) != 1U) {
			break;
		}
		releases[i] = k_cycle_get_32();
		preempted += inferring ? 1U : 0U;
	}
	finished = true;
}

/** Infers until the other thread has had all its periods; how often it gave the right bytes. */
static unsigned int infer(unsigned int *wrong)
{
	unsigned int count = 0;

	while (!finished) {
		const unsigned int i = count % GOLDEN_COUNT;

		memcpy(vmcu_input(&ctx, 0), golden_inputs[i], GOLDEN_INPUT_BYTES);
		inferring = true;
		zassert_ok(vmcu_invoke(&ctx));
		inferring = false;
		*wrong += memcmp(vmcu_output(&ctx, 0), golden_outputs[i], GOLDEN_OUTPUT_BYTES) != 0;
		count++;
	}
	return count;
}

ZTEST(vmcu_priority, test_period)
{
	const uint32_t cycles = sys_clock_hw_cycles_per_sec() / 1000U;
	uint32_t shortest = UINT32_MAX;
	uint32_t longest = 0;
	unsigned int wrong = 0;
	unsigned int count;

	/* Its time does not pass while code runs. */
	Z_TEST_SKIP_IFDEF(CONFIG_ARCH_POSIX);

	zassert_ok(vmcu_init(&ctx, &tiny_model, pool, sizeof(pool)));
	/* Threads of ztest are cooperative. */
	k_thread_priority_set(k_current_get(), K_PRIO_PREEMPT(8));
	k_thread_create(&control, stack, K_THREAD_STACK_SIZEOF(stack), keep_time, NULL, NULL, NULL,
			K_PRIO_PREEMPT(1), 0, K_NO_WAIT);
	count = infer(&wrong);
	k_timer_stop(&period);
	zassert_ok(k_thread_join(&control, K_SECONDS(1)));

	/* The first end of a period is later where little of a tick is left: a driver's choice. */
	for (unsigned int i = 2; i < PERIODS; i++) {
		const uint32_t length = releases[i] - releases[i - 1];

		shortest = MIN(shortest, length);
		longest = MAX(longest, length);
	}
	TC_PRINT("%u inferences, %u of %u releases within one; period %u to %u of %u cycles\n",
		 count, preempted, PERIODS, shortest, longest, cycles);
	zassert_equal(wrong, 0);
	zassert_true(count > 1 && preempted > PERIODS / 2);
	zassert_true(longest <= cycles + cycles / JITTER_PARTS);
	zassert_true(shortest >= cycles - cycles / JITTER_PARTS);
}

ZTEST_SUITE(vmcu_priority, NULL, NULL, NULL, NULL, NULL);
