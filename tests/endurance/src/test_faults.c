/*
 * SPDX-License-Identifier: Apache-2.0
 */

/* Jobs that end in the midst leak no place, and overflows are caught wherever a stack is. */

#include <errno.h>

#include <zephyr/fatal.h>
#include <zephyr/kernel.h>
#include <zephyr/ztest.h>

#include <vmcu/worker.h>

#define WORKERS     3U
#define STACK_BYTES 512U
#define MOVES       40U

#if !defined(ROUNDS)
#define ROUNDS 600U
#endif

VMCU_STACK_HEAP_DEFINE(heap, 6144);

static struct vmcu_worker workers[WORKERS];
static volatile unsigned int faults;
static unsigned int reason;

void k_sys_fatal_error_handler(unsigned int why, const struct arch_esf *esf)
{
	ARG_UNUSED(esf);
	reason = why;
	faults++;
}

enum ending {
	RETURNS,
	FAULTS,
	SLEEPS,
	IS_CANCELLED,
	ENDINGS,
};

static void cancel(struct k_work *work)
{
	ARG_UNUSED(work);
	vmcu_worker_cancel(&workers[0]);
}

static K_WORK_DELAYABLE_DEFINE(canceller, cancel);

static int job(void *data)
{
	switch (*(const enum ending *)data) {
	case FAULTS:
		k_oops();
		break;
	case SLEEPS:
	case IS_CANCELLED:
		k_sleep(K_FOREVER);
		break;
	default:
		break;
	}
	return 7;
}

static void begin(void)
{
	zassert_ok(vmcu_stack_heap_init(&heap));
	for (unsigned int i = 0; i < WORKERS; i++) {
		zassert_ok(vmcu_worker_init(&workers[i], &heap, STACK_BYTES, K_PRIO_PREEMPT(1), 0));
	}
}

/** No two stacks overlap, and each is inside. */
static void check_places(void)
{
	for (unsigned int i = 0; i < WORKERS; i++) {
		const struct vmcu_stack *a = &workers[i].stack;

		zassert_true(a->start + a->size <= heap.setting.bytes);
		for (unsigned int j = 0; j < i; j++) {
			const struct vmcu_stack *b = &workers[j].stack;

			zassert_true(a->start + a->size <= b->start ||
				     b->start + b->size <= a->start);
		}
	}
}

static uint32_t live(void)
{
	uint32_t count = 0;

	for (const struct vmcu_stack *s = heap.stacks.first; s != NULL; s = s->next) {
		count++;
	}
	return count;
}

ZTEST(faults, test_jobs_that_end_anyhow_leak_no_place)
{
	const int expected[] = {7, -EFAULT, -ETIMEDOUT, -ECANCELED};
	const unsigned int oops = faults;
	unsigned int faulted = 0;
	uint32_t state = 1U;

	begin();
	for (unsigned int round = 0; round < ROUNDS; round++) {
		const uint32_t looks = heap.stacks.counts.looks;
		struct vmcu_worker *worker;
		enum ending ending;

		state = state * 1103515245U + 12345U;
		ending = (enum ending)((state >> 16) % ENDINGS);
		worker = &workers[(ending == IS_CANCELLED) ? 0U : (state >> 8) % WORKERS];
		if (ending == IS_CANCELLED) {
			k_work_schedule(&canceller, K_MSEC(1));
		}
		zassert_equal(vmcu_worker_run(worker, job, &ending,
					      (ending == SLEEPS) ? K_MSEC(1) : K_FOREVER),
			      expected[ending]);
		faulted += (ending == FAULTS) ? 1U : 0U;
		zassert_true(heap.stacks.counts.looks - looks <=
			     vmcu_stacks_bound(&heap.stacks, WORKERS));
		check_places();
		if ((state >> 20) % 8U == 0U) {
			vmcu_worker_release(worker);
			zassert_ok(
				vmcu_worker_init(worker, &heap, STACK_BYTES, K_PRIO_PREEMPT(1), 0));
		}
		zassert_equal(live(), WORKERS);
	}
	zassert_equal(faults - oops, faulted);
	zassert_true(heap.stacks.counts.moves > ROUNDS / 4U);
}

static int deeper(volatile uint8_t *above, unsigned int depth)
{
	volatile uint8_t block[64];

	block[0] = *above;
	return (depth == 0U) ? block[0] : deeper(block, depth - 1U) + block[0];
}

static int overflow(void *data)
{
	uint8_t byte = 0;

	ARG_UNUSED(data);
	return deeper(&byte, 4U * STACK_BYTES / 64U);
}

static int fill(void *data)
{
	uint8_t byte = 0;

	ARG_UNUSED(data);
	return deeper(&byte, 1U);
}

ZTEST(faults, test_an_overflow_is_caught_before_and_after_each_move)
{
	if (!IS_ENABLED(CONFIG_HW_STACK_PROTECTION)) {
		ztest_test_skip();
	}
	begin();
	for (unsigned int i = 0; i < MOVES; i++) {
		const uint32_t start = workers[1].stack.start;
		const unsigned int before = faults;

		zassert_equal(vmcu_worker_run(&workers[1], overflow, NULL, K_FOREVER), -EFAULT);
		zassert_equal(faults, before + 1U);
		zassert_equal(reason, K_ERR_STACK_CHK_FAIL);
		zassert_ok(vmcu_worker_run(&workers[1], fill, NULL, K_FOREVER));
		zassert_true(i < 3U || IS_ENABLED(CONFIG_VMCU_STACK_CIRCULAR) ||
			     start != workers[1].stack.start);
	}
}

ZTEST(faults, test_a_walk_resumes_after_a_restart)
{
	enum ending ending = RETURNS;
	uint32_t start;

	begin();
	/* Places that are taken would be left out. */
	vmcu_worker_release(&workers[1]);
	vmcu_worker_release(&workers[2]);
	for (unsigned int i = 0; i < MOVES; i++) {
		zassert_equal(vmcu_worker_run(&workers[0], job, &ending, K_FOREVER), 7);
	}
	start = workers[0].stack.start;
	vmcu_worker_release(&workers[0]);
	zassert_ok(vmcu_worker_init(&workers[0], &heap, STACK_BYTES, K_PRIO_PREEMPT(1), 0));
	vmcu_worker_resume(&workers[0], MOVES - 2U);
	zassert_equal(vmcu_worker_run(&workers[0], job, &ending, K_FOREVER), 7);
	zassert_true(IS_ENABLED(CONFIG_VMCU_STACK_CIRCULAR) || workers[0].stack.start == start);
}

ZTEST(faults, test_what_workers_refuse)
{
	struct vmcu_worker more;

	begin();
	zassert_equal(vmcu_stack_heap_init(NULL), -EINVAL);
	zassert_equal(vmcu_worker_init(NULL, &heap, 512, 1, 0), -EINVAL);
	zassert_equal(vmcu_worker_init(&more, NULL, 512, 1, 0), -EINVAL);
	zassert_equal(vmcu_worker_init(&more, &heap, 512, 1, K_USER), -EINVAL);
	zassert_equal(vmcu_worker_init(&more, &heap, heap.setting.bytes, 1, 0), -ENOMEM);
	zassert_equal(vmcu_worker_run(&workers[0], NULL, NULL, K_FOREVER), -EINVAL);
	vmcu_worker_cancel(&workers[0]);
}

ZTEST_SUITE(faults, NULL, NULL, NULL, NULL, NULL);
