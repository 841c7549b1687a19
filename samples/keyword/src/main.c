/*
 * SPDX-License-Identifier: Apache-2.0
 */

/* Every 20 ms of sound bring a row of features; the model takes each and keeps what it needs. */

#include <zephyr/kernel.h>
#include <zephyr/sys/printk.h>

#include <vmcu/vmcu.h>

#include "clips.h"
#include "keyword.h"

BUILD_ASSERT(BANDS == VMCU_MODEL_ROW_BYTES(keyword));
BUILD_ASSERT(FRAMES == VMCU_MODEL_KEYWORD_INPUT0_HEIGHT);

static VMCU_POOL_DEFINE(pool, VMCU_MODEL_POOL_BYTES(keyword));

/* One second of sound: 0 once the scores are there. */
static int listen(struct vmcu_context *ctx, const int8_t clip[FRAMES][BANDS])
{
	int wanted = 1;

	for (unsigned int frame = 0; wanted == 1 && frame < FRAMES; frame++) {
		wanted = vmcu_push_row(ctx, clip[frame]);
	}
	return wanted;
}

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

int main(void)
{
	struct vmcu_context ctx;
	unsigned int differing = 0;
	int err = vmcu_init(&ctx, &keyword_model, pool, sizeof(pool));

	for (unsigned int i = 0; err == 0 && i < CLIPS; i++) {
		unsigned int answer;

		err = listen(&ctx, clips[i]);
		if (err != 0) {
			break;
		}
		answer = best(vmcu_output(&ctx, 0), vmcu_output_size(&ctx, 0));
		printk("%s: %s\n", words[played[i]], words[answer]);
		differing += (answer == onnxruntime_answers[i]) ? 0U : 1U;
	}
	if (err != 0) {
		printk("keyword: error %d\n", err);
	}
	printk("keyword: %u bytes of RAM, a clip has %u\n", (unsigned int)sizeof(pool),
	       (unsigned int)sizeof(clips[0]));
	printk("keyword: %u clips, differing predictions: %u\n", CLIPS, differing);
	printk("keyword: %s\n", (err == 0 && differing == 0U) ? "PASS" : "FAIL");
	return err;
}
