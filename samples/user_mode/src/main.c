/*
 * SPDX-License-Identifier: Apache-2.0
 */

/* A user thread infers. It may touch its stack and one partition, and a fault in it stops it alone.
 */

#include <string.h>

#include <zephyr/fatal.h>
#include <zephyr/kernel.h>

#include <vmcu/user.h>
#include <vmcu/vmcu.h>

#include "hello.h"

#define STACK_BYTES CONFIG_VMCU_THREAD_STACK_SIZE
#define SECRET      0x5ec4e7U

K_APPMEM_PARTITION_DEFINE(inference);
VMCU_USER_POOL_DEFINE(pool, VMCU_MODEL_POOL_BYTES(hello), inference);
K_APP_BMEM(inference) static struct vmcu_context ctx;

static struct k_mem_domain domain;
static struct k_thread thread;
static K_THREAD_STACK_DEFINE(stack, STACK_BYTES);

/* The kernel's: no user thread may write it. */
static uint32_t secret = SECRET;

/** Names the hue of a colour: 0 to 255 for red, green and blue. */
static void name_hue(const uint8_t *colour)
{
	static const char *const hues[] = {"red", "yellow", "green", "cyan", "blue", "magenta"};
	const int8_t *scores;
	unsigned int best = 0;
	int err = vmcu_init(&ctx, &hello_model, pool, sizeof(pool));

	if (err == 0) {
		for (unsigned int i = 0; i < vmcu_input_size(&ctx, 0); i++) {
			vmcu_input(&ctx, 0)[i] = (int8_t)(colour[i] - 128);
		}
		err = vmcu_invoke(&ctx);
	}
	if (err != 0) {
		printk("user thread: error %d\n", err);
		return;
	}
	scores = vmcu_output(&ctx, 0);
	for (unsigned int i = 1; i < vmcu_output_size(&ctx, 0); i++) {
		best = (scores[i] > scores[best]) ? i : best;
	}
	printk("user thread: %s\n", hues[best]);
}

static void infer(void *colour, void *astray, void *unused)
{
	ARG_UNUSED(unused);
	name_hue(colour);
	if (astray != NULL) {
		printk("user thread: writes to the kernel's %p\n", astray);
		*(volatile uint32_t *)astray = 0U;
		printk("user thread: nobody stopped it\n");
	}
}

/** Runs the thread without privileges and waits for its end. */
static void run(const uint8_t *colour, uint32_t *astray)
{
	k_thread_create(&thread, stack, K_THREAD_STACK_SIZEOF(stack), infer, (void *)colour, astray,
			NULL, K_PRIO_PREEMPT(5), K_USER, K_FOREVER);
	k_mem_domain_add_thread(&domain, &thread);
	k_thread_start(&thread);
	k_thread_join(&thread, K_FOREVER);
}

/* Without it a fault in any thread halts the system. */
void k_sys_fatal_error_handler(unsigned int reason, const struct arch_esf *esf)
{
	ARG_UNUSED(esf);
	if (k_current_get() != &thread) {
		k_fatal_halt(reason);
	}
	printk("kernel: the thread was stopped\n");
}

int main(void)
{
	static const uint8_t yellow[] = {255, 215, 0};
	static const uint8_t blue[] = {65, 105, 225};
	struct k_mem_partition *partitions[] = {&inference};

	if (k_mem_domain_init(&domain, ARRAY_SIZE(partitions), partitions) != 0) {
		printk("no memory domain\n");
		return 0;
	}
	run(yellow, &secret);
	printk("kernel: %s was changed\n", (secret == SECRET) ? "nothing" : "something");
	run(blue, NULL);
	printk("done\n");
	return 0;
}
