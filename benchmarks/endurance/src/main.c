/*
 * SPDX-License-Identifier: Apache-2.0
 */

/* Inferences whose stores run.py counts: on a stack and in a pool that stay or, with moving.conf,
 * on stacks that move and in a pool that rotates.
 */

#include <stdio.h>
#include <string.h>

#include <zephyr/fatal.h>
#include <zephyr/kernel.h>

#include <vmcu/pool.h>
#include <vmcu/vmcu.h>

#include "digits.h"
#include "scores.h"
#include "test_images.h"

/* A mean rounds differently in ONNX Runtime, and what follows from it. */
#define STEPS_OFF 2

static VMCU_POOL_DEFINE(pool, VMCU_MODEL_POOL_BYTES(digits));

static struct vmcu_context ctx;

static int infer(void *data)
{
	memcpy(vmcu_input(&ctx, 0), data, TEST_IMAGE_BYTES);
	return vmcu_invoke(&ctx);
}

#if defined(CONFIG_VMCU_STACK_MIGRATION)
#include <vmcu/worker.h>

/* What a job takes, with a little to spare: the rest of a stack is never written. */
#define STACK_BYTES 1320

/* 1,250 places, so that 10,000 jobs are eight laps: within a lap some have been visited once more
 * than others.
 */
VMCU_STACK_HEAP_DEFINE(heap, 11464);

static struct vmcu_worker worker;

static int prepare(void)
{
	const int err = vmcu_stack_heap_init(&heap);

	return (err != 0) ? err
			  : vmcu_worker_init(&worker, &heap, STACK_BYTES, K_PRIO_PREEMPT(0), 0);
}

static int run(const int8_t *image)
{
	return vmcu_worker_run(&worker, infer, (void *)image, K_FOREVER);
}
#else
static int prepare(void)
{
	return 0;
}

static int run(const int8_t *image)
{
	return infer((void *)image);
}
#endif

/** True if the outputs are the image's. */
static bool correct(unsigned int image)
{
	const int8_t *found = vmcu_output(&ctx, 0);

	for (unsigned int i = 0; i < SCORES_BYTES; i++) {
		const int off = found[i] - scores[image][i];

		if (off > STEPS_OFF || off < -STEPS_OFF) {
			return false;
		}
	}
	return true;
}

/** What is counted; run.py knows the name. */
__attribute__((noinline)) unsigned int endurance_jobs(void)
{
	unsigned int wrong = 0;

	for (unsigned int job = 0; job < JOBS; job++) {
		const unsigned int image = job % TEST_IMAGE_COUNT;

		wrong += (run(test_images[image]) != 0 || !correct(image)) ? 1U : 0U;
	}
	return wrong;
}

/** Ends the emulator: semihosting's SYS_EXIT. */
static void leave(void)
{
	__asm__ volatile("movs r0, #0x18\n"
			 "ldr r1, =0x20026\n"
			 "bkpt 0xab\n"
			 :
			 :
			 : "r0", "r1", "memory");
}

/** A stack too small, say. */
void k_sys_fatal_error_handler(unsigned int reason, const struct arch_esf *esf)
{
	ARG_UNUSED(reason);
	ARG_UNUSED(esf);
	leave();
}

int main(void)
{
	int err = prepare();

	if (err == 0) {
		err = vmcu_init(&ctx, &digits_model, pool, sizeof(pool));
	}
	printf("%d jobs, wrong: %d\n", JOBS, (err != 0) ? err : (int)endurance_jobs());
	leave();
	return 0;
}
