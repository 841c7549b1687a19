/*
 * SPDX-License-Identifier: Apache-2.0
 */

/* A language model tells a story, word by word. Each step reads one word; the keys and values of
 * the words before it stay in the pool.
 */

#include <string.h>

#include <zephyr/kernel.h>
#include <zephyr/sys/printk.h>
#include <zephyr/sys/util.h>

#include <vmcu/vmcu.h>

#include "storyteller.h"
#include "words.h"

BUILD_ASSERT(VMCU_MODEL_ROW_BYTES(storyteller) == sizeof(int32_t));
BUILD_ASSERT(WORDS <= VMCU_MODEL_STORYTELLER_OUTPUT0_BYTES);

VMCU_POOL_DEFINE(pool, VMCU_MODEL_POOL_BYTES(storyteller));

/* Reads a word; 0 once the scores of the next one are there. */
static int step(struct vmcu_context *ctx, unsigned int word)
{
	const int32_t number = (int32_t)word;
	int8_t row[sizeof(number)];

	memcpy(row, &number, sizeof(row));
	return vmcu_push_row(ctx, row);
}

static unsigned int best(const int8_t *scores, unsigned int count)
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
	unsigned int told = 0;
	int err = vmcu_init(&ctx, &storyteller_model, pool, sizeof(pool));

	for (unsigned int i = 0; err == 0 && i < ARRAY_SIZE(prompt); i++) {
		printk("%s ", words[prompt[i]]);
		err = step(&ctx, prompt[i]);
	}
	while (err == 0 && told < ARRAY_SIZE(onnxruntime_story)) {
		const unsigned int word = best(vmcu_output(&ctx, 0), WORDS);

		differing += (word == onnxruntime_story[told]) ? 0U : 1U;
		told++;
		printk("%s ", words[word]);
		if (word == END) {
			break;
		}
		err = step(&ctx, word);
	}
	printk("\n");
	if (err != 0) {
		printk("storyteller: error %d\n", err);
	}
	printk("storyteller: %u bytes of RAM\n", (unsigned int)sizeof(pool));
	printk("storyteller: %u words told, differing from ONNX Runtime: %u\n", told, differing);
	printk("storyteller: %s\n", (err == 0 && told > 0U && differing == 0U) ? "PASS" : "FAIL");
	return err;
}
