/*
 * SPDX-License-Identifier: Apache-2.0
 */

/* Two threads of one image, each on a core of its own. */

#include <zephyr/kernel.h>
#include <zephyr/sys/util.h>

#include "digits.h"
#include "inferences.h"

#define STACK_BYTES 4096
#define PRIORITY    K_PRIO_PREEMPT(1)

static VMCU_POOL_DEFINE(pool, VMCU_MODEL_POOL_BYTES(digits));
static VMCU_POOL_DEFINE(scratch, MAX(VMCU_MODEL_SCRATCH_BYTES(digits), 1));
static struct vmcu_context ctx;
static struct vmcu_team_context team;
static struct vmcu_team_progress progress;

static K_THREAD_STACK_ARRAY_DEFINE(stacks, VMCU_WORKERS, STACK_BYTES);
static struct k_thread threads[VMCU_WORKERS];

static void work(void *worker, void *unused1, void *unused2)
{
	ARG_UNUSED(unused1);
	ARG_UNUSED(unused2);
	if (POINTER_TO_UINT(worker) == 0U) {
		(void)run_inferences(&team, 0);
		return;
	}
	while (vmcu_team_run(&team, 1) == 0) {
	}
}

int main(void)
{
	int err = vmcu_init(&ctx, &digits_model, pool, sizeof(pool));

	if (err == 0) {
		err = vmcu_team_init(&team, &ctx, &digits_team, &progress, scratch,
				     sizeof(scratch));
	}
	for (unsigned int i = 0; err == 0 && i < VMCU_WORKERS; i++) {
		k_thread_create(&threads[i], stacks[i], STACK_BYTES, work, UINT_TO_POINTER(i), NULL,
				NULL, PRIORITY, 0, K_FOREVER);
		err = k_thread_cpu_pin(&threads[i], (int)i);
	}
	if (err != 0) {
		return run_inferences(&team, err);
	}
	for (unsigned int i = 0; i < VMCU_WORKERS; i++) {
		k_thread_start(&threads[i]);
	}
	return 0;
}
