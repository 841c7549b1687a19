/*
 * SPDX-License-Identifier: Apache-2.0
 */

/*
 * An interrupt may submit a job again wherever interrupts are not locked. It gets -EBUSY, or the
 * job runs once more and raises the signal with its own result.
 */

#include <errno.h>

#include <vmcu/async.h>

#include "../check.h"

struct k_work_q k_sys_work_q;

static struct vmcu_context ctx;
static struct vmcu_model model;
static struct vmcu_async job;
static struct k_poll_signal done;

static struct {
	unsigned int calls; /**< of the kernel: before and after each, an interrupt is possible */
	unsigned int at;    /**< the one at which the interrupt comes */
	int result;         /**< of the submission, 1 before it */
	bool locked;
	int inferences;
} test;

static void interrupt(void)
{
	if (!test.locked && test.calls++ == test.at) {
		test.result = vmcu_invoke_async(&job, NULL, &done);
	}
}

/** Each inference has another result. */
int vmcu_invoke(struct vmcu_context *used)
{
	CHECK(used == &ctx);
	interrupt();
	return -100 - test.inferences++;
}

int vmcu_cancel(struct vmcu_context *used)
{
	used->cancelled = true;
	return 0;
}

k_spinlock_key_t k_spin_lock(struct k_spinlock *lock)
{
	interrupt();
	CHECK(!lock->locked);
	lock->locked = true;
	test.locked = true;
	return 0;
}

void k_spin_unlock(struct k_spinlock *lock, k_spinlock_key_t key)
{
	ARG_UNUSED(key);
	lock->locked = false;
	test.locked = false;
	interrupt();
}

void k_work_init(struct k_work *work, void (*handler)(struct k_work *work))
{
	work->handler = handler;
}

int k_work_submit_to_queue(struct k_work_q *queue, struct k_work *work)
{
	CHECK(queue->next == NULL);
	queue->next = work;
	return 1;
}

void k_poll_signal_reset(struct k_poll_signal *signal)
{
	signal->signaled = false;
}

int k_poll_signal_raise(struct k_poll_signal *signal, int result)
{
	interrupt();
	CHECK(!signal->signaled);
	signal->signaled = true;
	signal->result = result;
	interrupt();
	return 0;
}

/** The queue's thread. */
static void run(void)
{
	struct k_work *work = k_sys_work_q.next;

	k_sys_work_q.next = NULL;
	work->handler(work);
}

int main(void)
{
	unsigned int accepted = 0;

	ctx.model = &model;
	for (unsigned int at = 0; test.result != 1 || at == 0U; at++) {
		CHECK(vmcu_async_init(&job, &ctx) == 0);
		test.at = UINT32_MAX;
		test.inferences = 0;
		CHECK(vmcu_invoke_async(&job, NULL, &done) == 0);
		test.calls = 0;
		test.at = at;
		test.result = 1;
		run();
		test.at = UINT32_MAX;
		if (test.result == 0) {
			accepted++;
			CHECK(!done.signaled && test.inferences == 1);
			CHECK(vmcu_async_cancel(&job) == 0);
			run();
		} else {
			CHECK(test.result == -EBUSY || test.result == 1);
		}
		CHECK(done.signaled && done.result == -99 - test.inferences);
		CHECK(test.inferences == ((test.result == 0) ? 2 : 1));
		CHECK(vmcu_async_cancel(&job) == -EALREADY && !ctx.cancelled);
	}
	CHECK(accepted > 0U);
	return 0;
}
