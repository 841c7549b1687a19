/*
 * SPDX-License-Identifier: Apache-2.0
 */

#include <stdint.h>
#include <stdio.h>

#include <vmcu/vmcu.h>

#include "hello.h"

static VMCU_POOL_DEFINE(pool, VMCU_MODEL_POOL_BYTES(hello));

static const char *const hues[VMCU_MODEL_HELLO_OUTPUT0_BYTES] = {
	"red", "yellow", "green", "cyan", "blue", "magenta",
};

static const uint8_t colours[][VMCU_MODEL_HELLO_INPUT0_BYTES] = {
	{255, 215, 0},
	{34, 139, 34},
	{220, 20, 60},
	{65, 105, 225},
};

static unsigned int best(const int8_t *scores)
{
	unsigned int winner = 0;

	for (unsigned int i = 1; i < VMCU_MODEL_HELLO_OUTPUT0_BYTES; i++) {
		if (scores[i] > scores[winner]) {
			winner = i;
		}
	}
	return winner;
}

static int name_hue(struct vmcu_context *ctx, const uint8_t *colour)
{
	int8_t *input = vmcu_input(ctx, 0);

	for (unsigned int i = 0; i < VMCU_MODEL_HELLO_INPUT0_BYTES; i++) {
		input[i] = (int8_t)(colour[i] + VMCU_MODEL_HELLO_INPUT0_ZERO_POINT);
	}

	int err = vmcu_invoke(ctx);

	if (err != 0) {
		return err;
	}

	const int8_t *scores = vmcu_output(ctx, 0);
	unsigned int answer = best(scores);

	printf("%3u %3u %3u: %s, score %d\n", colour[0], colour[1], colour[2], hues[answer],
	       scores[answer]);
	return 0;
}

int main(void)
{
	struct vmcu_context ctx;
	int err = vmcu_init(&ctx, &hello_model, pool, sizeof(pool));

	for (unsigned int i = 0; err == 0 && i < sizeof(colours) / sizeof(colours[0]); i++) {
		err = name_hue(&ctx, colours[i]);
	}
	if (err != 0) {
		printf("hello: error %d\n", err);
	}
	return err;
}
