/*
 * SPDX-License-Identifier: Apache-2.0
 */

/* Plain C99: the same file runs on Zephyr, on bare metal and on a PC. */

#include <stdint.h>
#include <stdio.h>
#include <string.h>

#include <vmcu/vmcu.h>

#include "digits.h"
#include "test_images.h"

static VMCU_POOL_DEFINE(pool, VMCU_MODEL_POOL_BYTES(digits));

static unsigned int best(const int8_t *scores, size_t count)
{
	unsigned int winner = 0;

	for (unsigned int i = 1; i < count; i++) {
		if (scores[i] > scores[winner]) {
			winner = i;
		}
	}
	return winner;
}

static int run(struct vmcu_context *ctx)
{
	unsigned int correct = 0;
	unsigned int expected_correct = 0;
	unsigned int differing = 0;

	for (unsigned int i = 0; i < TEST_IMAGE_COUNT; i++) {
		memcpy(vmcu_input(ctx, 0), test_images[i], TEST_IMAGE_BYTES);

		int err = vmcu_invoke(ctx);

		if (err != 0) {
			printf("vmcu_invoke: error %d\n", err);
			return err;
		}

		unsigned int answer = best(vmcu_output(ctx, 0), vmcu_output_size(ctx, 0));

		correct += (answer == test_labels[i]);
		expected_correct += (onnxruntime_answers[i] == test_labels[i]);
		differing += (answer != onnxruntime_answers[i]);
	}

	printf("%u of %u correct; onnxruntime: %u of %u; differing predictions: %u\n", correct,
	       TEST_IMAGE_COUNT, expected_correct, TEST_IMAGE_COUNT, differing);
	return (differing == 0) ? 0 : 1;
}

int main(void)
{
	struct vmcu_context ctx;
	int err = vmcu_init(&ctx, &digits_model, pool, sizeof(pool));

	if (err != 0) {
		printf("vmcu_init: error %d\n", err);
	} else if (vmcu_input_size(&ctx, 0) != TEST_IMAGE_BYTES) {
		printf("test_images.h does not belong to this model\n");
		err = 1;
	} else {
		printf("digits: %u bytes of RAM\n", (unsigned int)sizeof(pool));
		err = run(&ctx);
	}
	printf("digits: %s\n", (err == 0) ? "PASS" : "FAIL");
	return (err == 0) ? 0 : 1;
}
