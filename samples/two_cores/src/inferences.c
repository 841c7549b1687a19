/*
 * SPDX-License-Identifier: Apache-2.0
 */

#include "inferences.h"

#include <string.h>

#include <zephyr/kernel.h>
#include <zephyr/sys/printk.h>

#include "digits.h"
#include "test_images.h"

#define IMAGES 12

/* The fastest of so many inferences: QEMU's cores share the computer with other programs. */
#define REPEATS 10

BUILD_ASSERT(sizeof(test_images[0]) == VMCU_MODEL_DIGITS_INPUT0_BYTES);

static VMCU_POOL_DEFINE(pool_alone, VMCU_MODEL_POOL_BYTES(digits));

struct result {
	int8_t scores[VMCU_MODEL_DIGITS_OUTPUT0_BYTES];
	uint32_t cycles;
};

/* Infers on one core, or with the team if there is one. */
static int infer(struct vmcu_context *ctx, struct vmcu_team_context *team, const int8_t *image,
		 struct result *result)
{
	int err = 0;

	result->cycles = UINT32_MAX;
	for (unsigned int i = 0; err == 0 && i < REPEATS; i++) {
		memcpy(vmcu_input(ctx, 0), image, vmcu_input_size(ctx, 0));

		const uint32_t start = k_cycle_get_32();

		err = (team == NULL) ? vmcu_invoke(ctx) : vmcu_team_run(team, 0);
		result->cycles = MIN(result->cycles, k_cycle_get_32() - start);
	}
	memcpy(result->scores, vmcu_output(ctx, 0), sizeof(result->scores));
	return err;
}

static unsigned int best(const int8_t *scores)
{
	unsigned int winner = 0;

	for (unsigned int i = 1; i < VMCU_MODEL_DIGITS_OUTPUT0_BYTES; i++) {
		if (scores[i] > scores[winner]) {
			winner = i;
		}
	}
	return winner;
}

int run_inferences(struct vmcu_team_context *team, int err)
{
	struct vmcu_context alone;
	struct result one;
	struct result two;
	unsigned int differing = 0;

	if (err == 0) {
		err = vmcu_init(&alone, &digits_model, pool_alone, sizeof(pool_alone));
	}
	for (unsigned int i = 0; err == 0 && i < IMAGES; i++) {
		err = infer(&alone, NULL, test_images[i], &one);
		if (err == 0) {
			err = infer(team->ctx, team, test_images[i], &two);
		}
		if (err != 0) {
			break;
		}

		const bool same = memcmp(one.scores, two.scores, sizeof(one.scores)) == 0;

		printk("a %u, %s scores, cycles: %u on one core, %u on two\n", best(two.scores),
		       same ? "the same" : "other", one.cycles, two.cycles);
		differing += (same && best(two.scores) == onnxruntime_answers[i]) ? 0U : 1U;
	}
	if (err != 0) {
		printk("two_cores: error %d\n", err);
	}
	printk("two_cores: %u images, differing answers: %u\n", IMAGES, differing);
	printk("two_cores: %s\n", (err == 0 && differing == 0U) ? "PASS" : "FAIL");
	return err;
}
