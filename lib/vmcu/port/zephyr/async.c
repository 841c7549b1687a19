/*
 * SPDX-License-Identifier: Apache-2.0
 */

#include <errno.h>

#include <vmcu/async.h>

static void run_job(struct k_work *work)
{
	struct vmcu_async *job = CONTAINER_OF(work, struct vmcu_async, work);
	struct k_poll_signal *done = job->done;
	const int result = vmcu_invoke(job->ctx);
	k_spinlock_key_t key = k_spin_lock(&job->lock);

	/* A request that came too late must not stop the next inference. */
	job->ctx->cancelled = false;
	job->busy = false;
	/* Under the lock: the next submitter of the job has not reset the signal yet. */
	(void)k_poll_signal_raise(done, result);
	k_spin_unlock(&job->lock, key);
}

int vmcu_async_init(struct vmcu_async *job, struct vmcu_context *ctx)
{
	if (job == NULL || ctx == NULL) {
		return -EINVAL;
	}
	*job = (struct vmcu_async){.ctx = ctx};
	k_work_init(&job->work, run_job);
	return 0;
}

/** Marks a job as busy; false if it is already. */
static bool take_job(struct vmcu_async *job)
{
	k_spinlock_key_t key = k_spin_lock(&job->lock);
	const bool taken = !job->busy;

	job->busy = true;
	k_spin_unlock(&job->lock, key);
	return taken;
}

int vmcu_invoke_async(struct vmcu_async *job, struct k_work_q *queue, struct k_poll_signal *done)
{
	int err;

	if (job == NULL || job->ctx == NULL || job->ctx->model == NULL || done == NULL) {
		return -EINVAL;
	}
	if (job->ctx->model->streamed) {
		return -ENOTSUP;
	}
	if (!take_job(job)) {
		return -EBUSY;
	}
	job->done = done;
	k_poll_signal_reset(done);
	err = k_work_submit_to_queue((queue == NULL) ? &k_sys_work_q : queue, &job->work);
	if (err < 0) {
		job->busy = false;
		return err;
	}
	return 0;
}

int vmcu_async_cancel(struct vmcu_async *job)
{
	k_spinlock_key_t key;
	int err = -EALREADY;

	if (job == NULL) {
		return -EINVAL;
	}
	key = k_spin_lock(&job->lock);
	if (job->busy) {
		err = vmcu_cancel(job->ctx);
	}
	k_spin_unlock(&job->lock, key);
	return err;
}
