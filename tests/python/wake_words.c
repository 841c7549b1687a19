/*
 * SPDX-License-Identifier: Apache-2.0
 */

/**
 * @file
 * @brief Runs examples/wake_words on a file. Arguments: what the file has, its name.
 *
 * rows:   records of a change (word + 1 to start, its negative to stop, or 0) and 40 features
 * sound:  samples, for all words
 * main:   samples, for app_main() of examples/esp-idf
 *
 * The first two write the words' probabilities and a mask of detections after each record or block.
 */

#include <errno.h>
#include <stdbool.h>
#include <stdio.h>
#include <string.h>

#include "check.h"
#include "microphone.h"
#include "wake_words.h"

#define ALL 80000

void app_main(void);
void __sanitizer_malloc_hook(const volatile void *memory, size_t size);

static uint8_t answers[ALL][WAKE_WORDS_COUNT + 1];
static unsigned int count;
static unsigned int allocations;
static FILE *file;

void __sanitizer_malloc_hook(const volatile void *memory, size_t size)
{
	(void)memory;
	(void)size;
	allocations++;
}

int microphone_start(void)
{
	return 0;
}

int microphone_read(int16_t *samples)
{
	return (fread(samples, sizeof(*samples), MICROPHONE_BLOCK, file) == MICROPHONE_BLOCK) ? 0
											      : -1;
}

static void note(void *user, unsigned int word, uint8_t mean)
{
	CHECK(user == answers && mean >= wake_words[word].cutoff);
	answers[count][WAKE_WORDS_COUNT] |= (uint8_t)(1U << word);
}

/** Changes a word, and pushes a row; false at the end. */
static bool push_record(void)
{
	int8_t record[1 + WAKE_WORDS_CHANNELS];

	if (fread(record, 1, sizeof(record), file) != sizeof(record)) {
		return false;
	}
	if (record[0] > 0) {
		CHECK(wake_words_start((unsigned int)(record[0] - 1)) == 0);
	} else if (record[0] < 0) {
		CHECK(wake_words_stop((unsigned int)(-record[0] - 1)) == 0);
	}
	CHECK(wake_words_push_row(&record[1], note, answers) == 0);
	return true;
}

/** Pushes a block, in two pieces. */
static bool push_block(void)
{
	const size_t first = count % MICROPHONE_BLOCK;
	int16_t block[MICROPHONE_BLOCK];

	if (microphone_read(block) != 0) {
		return false;
	}
	CHECK(wake_words_push(block, first, note, answers) == 0);
	CHECK(wake_words_push(&block[first], MICROPHONE_BLOCK - first, note, answers) == 0);
	return true;
}

int main(int argc, char **argv)
{
	static char buffer[BUFSIZ];
	const bool is_sound = argc == 3 && strcmp(argv[1], "sound") == 0;

	file = fopen(argv[2], "rb");
	CHECK(file != NULL && setvbuf(file, buffer, _IOFBF, sizeof(buffer)) == 0);
	if (strcmp(argv[1], "main") == 0) {
		app_main();
		return 0;
	}
	allocations = 0;
	CHECK(wake_words_init() == 0 && wake_words_start(WAKE_WORDS_COUNT) == -EINVAL);
	for (unsigned int word = 0; is_sound && word < WAKE_WORDS_COUNT; word++) {
		CHECK(wake_words_start(word) == 0);
	}
	while (is_sound ? push_block() : push_record()) {
		for (unsigned int word = 0; word < WAKE_WORDS_COUNT; word++) {
			answers[count][word] = wake_words_probability(word);
		}
		count++;
		CHECK(count < ALL);
	}
	CHECK(allocations == 0);
	fwrite(answers, sizeof(answers[0]), count, stdout);
	CHECK(allocations > 0);
	return 0;
}
