/*
 * SPDX-License-Identifier: Apache-2.0
 */

/*
 * Compares inferences of two workers with vmcu_invoke() in a pool of its own:
 *
 *   program threads|turns INFERENCES SEED
 *
 * The workers are two threads, which spin for a random time before each task, or take turns in one.
 * Prints a line for each inference that is right: a hash of what each worker had seen of the other
 * before each of its tasks.
 */

#define _POSIX_C_SOURCE 200809L

#include <pthread.h>
#include <sched.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "net.h"

/* The runtime's own source, with something to do in front of each task and while a worker waits. */
static void before_task(void);
#define VMCU_ASSERT(promise) before_task()
#define VMCU_RELAX()         ((void)sched_yield())
#include <workers.c>

#define BYTES VMCU_MODEL_POOL_BYTES(net)

static struct vmcu_context alone;
static struct vmcu_context shared;
static struct vmcu_team_context team;
static struct vmcu_team_progress progress;
static int8_t own_pool[BYTES] __attribute__((aligned(VMCU_POOL_ALIGN)));
static int8_t pool[BYTES] __attribute__((aligned(VMCU_POOL_ALIGN)));
static int8_t scratch[VMCU_MODEL_SCRATCH_BYTES(net) + 1] __attribute__((aligned(VMCU_POOL_ALIGN)));

static unsigned int inferences;
static uint32_t hashes[VMCU_WORKERS];
static __thread unsigned int worker;
static __thread uint32_t state;

static uint32_t draw(void)
{
	state ^= state << 13;
	state ^= state >> 17;
	state ^= state << 5;
	return state;
}

static void before_task(void)
{
	const uint32_t spins = (draw() % 4U == 0U) ? draw() % 2000U : draw() % 50U;
	uint32_t seen;

	for (volatile uint32_t i = 0; i < spins; i++) {
	}
	/* The workers may share a core. */
	if (draw() % 4U == 0U) {
		(void)sched_yield();
	}
	seen = __atomic_load_n(&progress.done[1U - worker], __ATOMIC_RELAXED);
	if (progress.done[worker] == 0U) {
		hashes[worker] = 0U;
	}
	hashes[worker] = (hashes[worker] ^ seen) * 16777619U + 1U;
}

static void *second(void *seed)
{
	worker = 1;
	state = (uint32_t)(uintptr_t)seed;
	for (unsigned int i = 0; i < inferences; i++) {
		if (vmcu_team_run(&team, 1) != 0) {
			exit(EXIT_FAILURE);
		}
	}
	return NULL;
}

/* Both workers in one thread. */
static int take_turns(void)
{
	int err;

	do {
		worker = 0;
		err = vmcu_team_step(&team, 0);
		worker = 1;
		while (err > 0 && draw() % 2U != 0U) {
			(void)vmcu_team_step(&team, 1);
		}
	} while (err > 0);
	return err;
}

/* The same random bytes for both contexts; all other bytes of the shared memory are garbage. */
static void write_inputs(void)
{
	memset(pool, (int)draw(), BYTES);
	memset(scratch, (int)draw(), sizeof(scratch));
	for (unsigned int k = 0; k < alone.model->input_count; k++) {
		for (size_t i = 0; i < vmcu_input_size(&alone, k); i++) {
			vmcu_input(&alone, k)[i] = (int8_t)draw();
		}
		memcpy(vmcu_input(&shared, k), vmcu_input(&alone, k), vmcu_input_size(&alone, k));
	}
}

static int compare(int turns)
{
	write_inputs();
	if (vmcu_invoke(&alone) != 0 || (turns ? take_turns() : vmcu_team_run(&team, 0)) != 0) {
		return 1;
	}
	for (unsigned int k = 0; k < alone.model->output_count; k++) {
		if (memcmp(vmcu_output(&alone, k), vmcu_output(&shared, k),
			   vmcu_output_size(&alone, k)) != 0) {
			return 1;
		}
	}
	printf("%08x%08x\n", (unsigned int)hashes[0], (unsigned int)hashes[1]);
	return 0;
}

int main(int argc, char **argv)
{
	const int turns = argc > 1 && strcmp(argv[1], "turns") == 0;
	unsigned int differing = 0U;
	pthread_t thread;

	if (argc != 4 || vmcu_init(&alone, &net_model, own_pool, BYTES) != 0 ||
	    vmcu_init(&shared, &net_model, pool, BYTES) != 0 ||
	    vmcu_team_init(&team, &shared, &net_team, &progress, scratch, sizeof(scratch)) != 0) {
		return EXIT_FAILURE;
	}
	inferences = (unsigned int)atoi(argv[2]);
	state = (uint32_t)atoi(argv[3]) * 2654435761U + 1U;
	if (!turns && pthread_create(&thread, NULL, second, (void *)(uintptr_t)draw()) != 0) {
		return EXIT_FAILURE;
	}
	/* All of them, whatever the bytes: a data race need not show in the first one. */
	for (unsigned int i = 0; i < inferences; i++) {
		differing += compare(turns) != 0;
	}
	if (!turns && pthread_join(thread, NULL) != 0) {
		return EXIT_FAILURE;
	}
	return (differing == 0U) ? EXIT_SUCCESS : EXIT_FAILURE;
}
