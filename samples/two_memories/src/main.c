/*
 * SPDX-License-Identifier: Apache-2.0
 */

/* A model that fits in neither of two memories: it has a pool in each. */

#include <string.h>

#include <zephyr/kernel.h>
#include <zephyr/sys/printk.h>
#include <zephyr/sys/util.h>

#include <vmcu/vmcu.h>

#include "digits.h"
#include "test_images.h"

#define IMAGES 12

/* One in each of the memories that CMakeLists.txt names, in that order. */
VMCU_POOLS_DEFINE(pools, digits);

static const char *const names[VMCU_MODEL_DIGITS_POOLS] = {"tcm", "sram"};

static unsigned int best(const struct vmcu_context *ctx)
{
	const int8_t *scores = vmcu_output(ctx, 0);
	unsigned int winner = 0;

	for (unsigned int i = 1; i < vmcu_output_size(ctx, 0); i++) {
		if (scores[i] > scores[winner]) {
			winner = i;
		}
	}
	return winner;
}

int main(void)
{
	struct vmcu_context ctx;
	unsigned int differing = 0;
	int err = vmcu_init_pools(&ctx, &digits_model, pools, ARRAY_SIZE(pools));

	for (size_t i = 0; i < ARRAY_SIZE(pools); i++) {
		printk("%s: %u bytes at 0x%lx\n", names[i], (unsigned int)pools[i].size,
		       (unsigned long)(uintptr_t)pools[i].start);
	}
	for (unsigned int image = 0; err == 0 && image < IMAGES; image++) {
		memcpy(vmcu_input(&ctx, 0), test_images[image], TEST_IMAGE_BYTES);
		err = vmcu_invoke(&ctx);
		differing += (err == 0 && best(&ctx) == onnxruntime_answers[image]) ? 0U : 1U;
	}
	if (err != 0) {
		printk("two_memories: error %d\n", err);
	}
	printk("two_memories: %u inferences, differing answers: %u\n", (unsigned int)IMAGES,
	       differing);
	printk("two_memories: %s\n", (err == 0 && differing == 0U) ? "PASS" : "FAIL");
	return err;
}
