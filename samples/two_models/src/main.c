/*
 * SPDX-License-Identifier: Apache-2.0
 */

/* One pool, as large as the larger model's: whichever model runs overwrites what the other left. */

#include <string.h>

#include <zephyr/kernel.h>
#include <zephyr/sys/printk.h>
#include <zephyr/sys/util.h>

#include <vmcu/vmcu.h>

#include "digits.h"
#include "hello.h"
#include "test_images.h"

#define TURNS 12

static VMCU_POOL_DEFINE(pool, MAX(VMCU_MODEL_POOL_BYTES(digits), VMCU_MODEL_POOL_BYTES(hello)));

static const char *const hues[VMCU_MODEL_HELLO_OUTPUT0_BYTES] = {
	"red", "yellow", "green", "cyan", "blue", "magenta",
};

/* Red, green and blue of each hue. */
static const uint8_t colours[][VMCU_MODEL_HELLO_INPUT0_BYTES] = {
	{255, 0, 0}, {255, 255, 0}, {0, 255, 0}, {0, 255, 255}, {0, 0, 255}, {255, 0, 255},
};

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

/* Inputs are written in a model's own turn, since they lie in the pool as well. */
static int digit_of(struct vmcu_context *ctx, const int8_t *image, unsigned int *answer)
{
	memcpy(vmcu_input(ctx, 0), image, TEST_IMAGE_BYTES);

	int err = vmcu_invoke(ctx);

	*answer = (err == 0) ? best(ctx) : 0U;
	return err;
}

static int hue_of(struct vmcu_context *ctx, const uint8_t *colour, unsigned int *answer)
{
	int8_t *input = vmcu_input(ctx, 0);
	int err;

	for (unsigned int i = 0; i < VMCU_MODEL_HELLO_INPUT0_BYTES; i++) {
		input[i] = (int8_t)(colour[i] + VMCU_MODEL_HELLO_INPUT0_ZERO_POINT);
	}
	err = vmcu_invoke(ctx);
	*answer = (err == 0) ? best(ctx) : 0U;
	return err;
}

/* One inference of each model; counts the answers that are not the expected ones. */
static int take_turns(struct vmcu_context *digits, struct vmcu_context *hello, unsigned int turn,
		      unsigned int *differing)
{
	const unsigned int colour = turn % ARRAY_SIZE(colours);
	unsigned int digit;
	unsigned int hue = 0;
	int err = digit_of(digits, test_images[turn], &digit);

	if (err == 0) {
		err = hue_of(hello, colours[colour], &hue);
	}
	if (err == 0) {
		printk("digits sees a %u, hello %s\n", digit, hues[hue]);
		*differing += (digit == onnxruntime_answers[turn]) ? 0U : 1U;
		*differing += (hue == colour) ? 0U : 1U;
	}
	return err;
}

int main(void)
{
	struct vmcu_context digits;
	struct vmcu_context hello;
	unsigned int differing = 0;
	int err = vmcu_init(&digits, &digits_model, pool, sizeof(pool));

	if (err == 0) {
		err = vmcu_init(&hello, &hello_model, pool, sizeof(pool));
	}
	printk("one pool of %u bytes: digits needs %u, hello %u\n", (unsigned int)sizeof(pool),
	       VMCU_MODEL_POOL_BYTES(digits), VMCU_MODEL_POOL_BYTES(hello));
	for (unsigned int turn = 0; err == 0 && turn < TURNS; turn++) {
		err = take_turns(&digits, &hello, turn, &differing);
	}
	if (err != 0) {
		printk("two_models: error %d\n", err);
	}
	printk("two_models: %u inferences, differing answers: %u\n", 2U * TURNS, differing);
	printk("two_models: %s\n", (err == 0 && differing == 0U) ? "PASS" : "FAIL");
	return err;
}
