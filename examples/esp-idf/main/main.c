/*
 * SPDX-License-Identifier: Apache-2.0
 */

/* Listens for all wake words at once, in the main task. */

#include <stdio.h>

#include "microphone.h"
#include "wake_words.h"

void app_main(void);

static void print_word(void *user, unsigned int word, uint8_t mean)
{
	const unsigned long *blocks = user;

	printf("%lu ms: %s, probability %u/255\n",
	       *blocks * (1000UL * MICROPHONE_BLOCK / MICROPHONE_RATE), wake_words[word].name,
	       (unsigned int)mean);
}

void app_main(void)
{
	static int16_t block[MICROPHONE_BLOCK];
	unsigned long blocks = 0;
	int err = wake_words_init();

	for (unsigned int word = 0; word < WAKE_WORDS_COUNT; word++) {
		wake_words_start(word);
	}
	err = (err == 0) ? microphone_start() : err;
	while (err == 0) {
		err = microphone_read(block);
		blocks++;
		err = (err == 0) ? wake_words_push(block, MICROPHONE_BLOCK, print_word, &blocks)
				 : err;
	}
	printf("stopped: %d\n", err);
}
