/*
 * SPDX-License-Identifier: Apache-2.0
 */

/* A network with 4 MB of weights, which are read from a slow flash while it computes. */

#include <errno.h>
#include <stdbool.h>
#include <string.h>

#include <zephyr/kernel.h>
#include <zephyr/sys/printk.h>
#include <zephyr/sys/util.h>

#include <vmcu/weights.h>

#include "big.h"
#include "expected.h"
#include "simulated_flash.h"

/* Above that of main(), so that a read starts as soon as the one before ends. */
#define PRIORITY -1

static VMCU_POOL_DEFINE(pool, VMCU_MODEL_POOL_BYTES(big));
K_THREAD_STACK_DEFINE(stack, 1024);

static struct simulated_flash flash = {
	.path = WEIGHTS_FILE, .bytes_per_ms = 8000U, .latency_us = 50U};
static struct vmcu_weights_thread thread;

/* On native_sim, computation takes no simulated time, so that it hides nothing. */
#define LEAST_HIDDEN (IS_ENABLED(CONFIG_ARCH_POSIX) ? 0U : 80U)

/** Time that vmcu_invoke() waits for reads. */
static uint64_t waited_us;

static int measured_wait(void *user)
{
	const int64_t before = k_uptime_ticks();
	const int result = thread.reader.wait(user);

	waited_us += k_ticks_to_us_near64((uint64_t)(k_uptime_ticks() - before));
	return result;
}

static int infer(struct vmcu_context *ctx, enum fault fault, uint32_t at)
{
	flash.fault = fault;
	flash.fault_at = at;
	flash.busy_us = 0U;
	waited_us = 0U;
	memcpy(vmcu_input(ctx, 0), image, sizeof(image));
	return vmcu_invoke(ctx);
}

static bool is_right(const struct vmcu_context *ctx)
{
	return memcmp(vmcu_output(ctx, 0), expected, sizeof(expected)) == 0;
}

int main(void)
{
	const struct vmcu_chunk *last = &big_model.chunks[big_model.chunk_count - 1U];
	const struct vmcu_chunk *third = &big_model.chunks[2];
	struct vmcu_reader measured;
	struct vmcu_context ctx;
	unsigned int hidden;
	bool passed;
	int err;

	measured = *vmcu_weights_start(&thread, simulated_flash_read, &flash, stack,
				       K_THREAD_STACK_SIZEOF(stack), PRIORITY);
	measured.wait = measured_wait;
	err = vmcu_init(&ctx, &big_model, pool, sizeof(pool));
	if (err == 0) {
		err = vmcu_set_reader(&ctx, &measured);
	}
	printk("big_model: %u bytes of weights, %u of RAM for them\n",
	       (unsigned int)VMCU_MODEL_BIG_WEIGHTS_BYTES,
	       (unsigned int)VMCU_MODEL_BIG_WEIGHTS_RAM_BYTES);
	passed = err == 0 && infer(&ctx, FAULT_ERROR, third->offset) == -EIO;
	printk("big_model: read error: %s\n", passed ? "reported" : "FAIL");
	passed = passed && infer(&ctx, FAULT_SHORT, third->offset) == -EIO;
	printk("big_model: short read: %s\n", passed ? "reported" : "FAIL");
	passed = passed && infer(&ctx, FAULT_SHORT, last->offset) == -EIO;
	printk("big_model: short read at the end: %s\n", passed ? "reported" : "FAIL");
	passed = passed && infer(&ctx, FAULT_NONE, 0U) == 0 && is_right(&ctx);
	hidden = (waited_us < flash.busy_us)
			 ? (unsigned int)(100U * (flash.busy_us - waited_us) / flash.busy_us)
			 : 0U;
	printk("big_model: reads %u ms, waits %u ms, hidden %u %%\n",
	       (unsigned int)(flash.busy_us / 1000U), (unsigned int)(waited_us / 1000U), hidden);
	printk("big_model: %s\n", (passed && hidden >= LEAST_HIDDEN) ? "PASS" : "FAIL");
	return 0;
}
