/*
 * SPDX-License-Identifier: Apache-2.0
 */

/**
 * @file
 * @brief vmcu_invoke() of a model for two workers: threads where there are some, else steps of both
 * in turn.
 */

#ifndef TEAM_H_
#define TEAM_H_

#include "bound.h"

#if defined(IMAGE_TEAM)
#define TEAM_OF_(name)         name##_team
#define TEAM_OF(name)          TEAM_OF_(name)
#define SCRATCH_BYTES_OF(name) VMCU_MODEL_SCRATCH_BYTES(name)

static struct vmcu_team_context team;
static struct vmcu_team_progress progress;
static uint8_t team_scratch[SCRATCH_BYTES_OF(IMAGE_NAME) + 1U]
	__attribute__((aligned(VMCU_POOL_ALIGN)));

#if defined(__unix__)
#include <pthread.h>

static void *run_second(void *unused)
{
	while (vmcu_team_run(&team, 1U) == 0) {
	}
	return unused;
}

static int start_second(void)
{
	pthread_t thread;

	return pthread_create(&thread, NULL, run_second, NULL);
}

static int invoke(struct vmcu_context *ctx)
{
	(void)ctx;
	return vmcu_team_run(&team, 0U);
}
#else
static int start_second(void)
{
	return 0;
}

/* The calls of both alternate, which vmcu_bench/cycles/model.py takes for granted. */
static int invoke(struct vmcu_context *ctx)
{
	int err = vmcu_team_step(&team, 0U);

	(void)ctx;
	while (err > 0) {
		(void)vmcu_team_step(&team, 1U);
		err = vmcu_team_step(&team, 0U);
	}
	return err;
}
#endif

static int bind_team(struct vmcu_context *ctx)
{
	const int err = vmcu_team_init(&team, ctx, &TEAM_OF(IMAGE_NAME), &progress, team_scratch,
				       SCRATCH_BYTES_OF(IMAGE_NAME));

	return (err == 0) ? start_second() : err;
}
#else
#define invoke(ctx)    vmcu_invoke(ctx)
#define bind_team(ctx) 0
#endif /* IMAGE_TEAM */

#endif /* TEAM_H_ */
