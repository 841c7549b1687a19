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

#define ROW_BYTES VMCU_MODEL_ROW_BYTES(storyteller)

BUILD_ASSERT(ROW_BYTES == sizeof(int32_t) || ROW_BYTES == 2 * sizeof(int32_t));
BUILD_ASSERT(WORDS <= VMCU_MODEL_STORYTELLER_OUTPUT0_BYTES);

static VMCU_POOL_DEFINE(pool, VMCU_MODEL_POOL_BYTES(storyteller));

/* Reads a word and, if the model has an input for it, its position; 0 once the scores of the next
 * word are there. Adds to the cycles.
 */
static int step(struct vmcu_context *ctx, unsigned int word, unsigned int position,
		uint64_t *cycles)
{
	const int32_t numbers[] = {(int32_t)word, (int32_t)position};
	int8_t row[ROW_BYTES];
	uint32_t start;
	int err;

	memcpy(row, numbers, sizeof(row));
	start = k_cycle_get_32();
	err = vmcu_push_row(ctx, row);
	*cycles += k_cycle_get_32() - start;
	return err;
}

static void print_cost(uint64_t cycles, unsigned int words_read)
{
#ifdef CONFIG_QEMU_ICOUNT
	/* QEMU's clock advances by 2^shift ns with each instruction. */
	const uint64_t count = k_cyc_to_ns_floor64(cycles) >> CONFIG_QEMU_ICOUNT_SHIFT;
	const char *what = "instructions";
#else
	const uint64_t count = cycles;
	const char *what = "cycles";
#endif

	printk("storyteller: %u %s a word\n", (unsigned int)(count / MAX(words_read, 1U)), what);
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
	unsigned int position = 0;
	uint64_t cycles = 0;
	int err = vmcu_init(&ctx, &storyteller_model, pool, sizeof(pool));

	for (unsigned int i = 0; err == 0 && i < ARRAY_SIZE(prompt); i++) {
		printk("%s ", words[prompt[i]]);
		err = step(&ctx, prompt[i], position++, &cycles);
	}
	while (err == 0 && told < ARRAY_SIZE(onnxruntime_story)) {
		const unsigned int word = best(vmcu_output(&ctx, 0), WORDS);

		differing += (word == onnxruntime_story[told]) ? 0U : 1U;
		told++;
		printk("%s ", words[word]);
		if (word == END) {
			break;
		}
		err = step(&ctx, word, position++, &cycles);
	}
	printk("\n");
	if (err != 0) {
		printk("storyteller: error %d\n", err);
	}
	printk("storyteller: %u bytes of RAM\n", (unsigned int)sizeof(pool));
	print_cost(cycles, position);
	printk("storyteller: %u words told, differing from ONNX Runtime: %u\n", told, differing);
	printk("storyteller: %s\n", (err == 0 && told > 0U && differing == 0U) ? "PASS" : "FAIL");
	return err;
}
