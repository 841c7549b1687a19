/*
 * SPDX-License-Identifier: Apache-2.0
 */

/* Learns a digit that the model was not trained on, from a few examples. Plain C99: the same file
 * runs on Zephyr, on bare metal and on a PC.
 */

#include <stdint.h>
#include <stdio.h>
#include <string.h>

#include <vmcu/vmcu.h>

#include "learn.h"
#include "learn_weights.h"

#include "examples.h"
#include "test_images.h"

/* The inputs of `vmcu train-head`, behind those of the model. */
#define LABEL   1
#define WEIGHTS 2
/* The outputs: scores, and the weights after a call. */
#define SCORES  0
#define LEARNED 1

#define NO_LABEL (-1)
#define EPOCHS   10

static VMCU_POOL_DEFINE(pool, VMCU_MODEL_POOL_BYTES(learn));

static struct vmcu_context ctx;
/* In a product, these bytes are in flash. */
static int8_t saved[sizeof(learn_weights0)];

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

/** Starts with an empty pool and the weights @a weights. */
static int start(const int8_t *weights)
{
	int err = vmcu_init(&ctx, &learn_model, pool, sizeof(pool));

	if (err == 0) {
		memcpy(vmcu_input(&ctx, WEIGHTS), weights, vmcu_input_size(&ctx, WEIGHTS));
	}
	return err;
}

/** Computes the scores of an image, and takes a step of training if it has a label. */
static int call(const int8_t *image, int label)
{
	memcpy(vmcu_input(&ctx, 0), image, vmcu_input_size(&ctx, 0));
	*vmcu_input(&ctx, LABEL) = (int8_t)label;
	/* The weights are where the call before has left them. */
	return vmcu_invoke(&ctx);
}

static int learn(void)
{
	int err = 0;

	for (unsigned int n = 0; err == 0 && n < EPOCHS * EXAMPLE_COUNT; n++) {
		const unsigned int i = n % EXAMPLE_COUNT;

		err = call(examples[i], example_labels[i]);
	}
	return err;
}

/** Prints how many test images are recognised; @a good: more than 90 % of the new digit are. */
static int test(const char *when, bool *good)
{
	unsigned int count[2] = {0};
	unsigned int correct[2] = {0};

	for (unsigned int i = 0; i < TEST_IMAGE_COUNT; i++) {
		const unsigned int kind = (test_labels[i] == NEW_DIGIT) ? 1U : 0U;
		const int err = call(test_images[i], NO_LABEL);

		if (err != 0) {
			return err;
		}
		count[kind]++;
		if (best(vmcu_output(&ctx, SCORES), vmcu_output_size(&ctx, SCORES)) ==
		    test_labels[i]) {
			correct[kind]++;
		}
	}
	printf("%s: digit %u: %u of %u, others: %u of %u\n", when, NEW_DIGIT, correct[1], count[1],
	       correct[0], count[0]);
	*good = 10U * correct[1] > 9U * count[1];
	return 0;
}

/** A number that tells weights apart: FNV-1a. */
static uint32_t sum_of(const int8_t *bytes, size_t size)
{
	uint32_t sum = 2166136261U;

	for (size_t i = 0; i < size; i++) {
		sum = (sum ^ (uint8_t)bytes[i]) * 16777619U;
	}
	return sum;
}

static int run(bool *good)
{
	int err = start(learn_weights0);

	if (err == 0) {
		err = test("before", good);
	}
	if (err == 0) {
		err = learn();
	}
	if (err != 0) {
		return err;
	}
	memcpy(saved, vmcu_output(&ctx, LEARNED), sizeof(saved));
	printf("learned from %u examples: weights 0x%08lx\n", EXAMPLE_COUNT,
	       (unsigned long)sum_of(saved, sizeof(saved)));
	err = start(saved);
	return (err == 0) ? test("after", good) : err;
}

int main(void)
{
	bool good = false;
	int err = run(&good);

	printf("learn: %u bytes of RAM, %u of them weights\n", (unsigned int)sizeof(pool),
	       (unsigned int)sizeof(learn_weights0));
	if (err != 0) {
		printf("learn: error %d\n", err);
	}
	printf("learn: %s\n", (err == 0 && good) ? "PASS" : "FAIL");
	return (err == 0 && good) ? 0 : 1;
}
