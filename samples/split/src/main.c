/*
 * SPDX-License-Identifier: Apache-2.0
 */

/* A node of a language model on two microcontrollers. The first reads the words of a story, the
 * second expects the next word.
 */

#include <string.h>

#include <zephyr/kernel.h>
#include <zephyr/sys/printk.h>
#include <zephyr/sys/util.h>

#include "uart.h"
#include "words.h"

#if NODE == 0
#include "story_node0.h"
#define TABLE     story_node0
#define RAM_BYTES STORY_NODE0_RAM_BYTES
#else
#include "story_node1.h"
#define TABLE     story_node1
#define RAM_BYTES STORY_NODE1_RAM_BYTES
#endif

static VMCU_POOL_DEFINE(memory, RAM_BYTES);
static uint8_t received[256];
static struct uart_link uart;

/* The word with the highest score. */
static unsigned int best(const int8_t *scores)
{
	unsigned int winner = 0;

	for (unsigned int i = 1; i < WORDS; i++) {
		winner = (scores[i] > scores[winner]) ? i : winner;
	}
	return winner;
}

int main(void)
{
	struct vmcu_link link = {.port = &uart.port, .timeout_ms = 200, .gap_ms = 20, .tries = 20};
	const unsigned int count = ARRAY_SIZE(prompt) + ARRAY_SIZE(onnxruntime_story) - 1U;
	struct vmcu_node node;
	unsigned int differing = 0;
	int err = vmcu_node_init(&node, &TABLE, &link, memory, sizeof(memory));

	if (err == 0) {
		err = uart_link_init(&uart, DEVICE_DT_GET(DT_CHOSEN(zephyr_uart_pipe)), received,
				     sizeof(received));
	}
	for (unsigned int i = 0; i < count && err == 0; i++) {
		if (NODE == 0) {
			const int32_t word = (i < ARRAY_SIZE(prompt))
						     ? prompt[i]
						     : onnxruntime_story[i - ARRAY_SIZE(prompt)];

			memcpy(vmcu_node_input(&node, 0), &word, sizeof(word));
		}
		err = vmcu_node_run(&node);
		if (NODE == 1 && err == 0 && i + 1U >= ARRAY_SIZE(prompt)) {
			const unsigned int word = best(vmcu_output(&node.ctx, 0));

			printk("%s ", words[word]);
			differing += word != onnxruntime_story[i + 1U - ARRAY_SIZE(prompt)];
		}
	}
	printk("\nnode %d: %u bytes of RAM, %u words, error %d, differing from ONNX Runtime: %u\n",
	       NODE, (unsigned int)sizeof(memory), count, err, differing);
	return 0;
}
