/*
 * SPDX-License-Identifier: Apache-2.0
 */

#include <errno.h>
#include <string.h>

#include <vmcu/audio.h>

#include "front_end.h"
#include "wake_words.h"

/* Rows of quiet after a start and after a detection, as in ESPHome's micro_wake_word. */
#define QUIET_ROWS 100

static struct {
	struct vmcu_context ctx;
	volatile uint32_t wanted; /* number of the start that the caller wants; 0: stopped */
	uint32_t running;         /* number of the start that runs */
	uint8_t last;             /* index of the last probability */
	uint8_t quiet;            /* rows until the word can be detected */
	uint8_t probability;      /* the model's last output */
	uint8_t probabilities[WAKE_WORDS_LONGEST_WINDOW];
} words[WAKE_WORDS_COUNT];

static VMCU_POOL_DEFINE(pools, WAKE_WORDS_POOL_BYTES);
static uint32_t front_end_state[FRONT_END_STATE_BYTES / sizeof(uint32_t)];
static uint32_t front_end_work[FRONT_END_WORK_BYTES / sizeof(uint32_t)];
static struct vmcu_audio_context ears;

static void clear_window(unsigned int word)
{
	memset(words[word].probabilities, 0, sizeof(words[word].probabilities));
	words[word].quiet = QUIET_ROWS;
}

/* Starts or stops a word if the caller asked for it. */
static int follow_request(unsigned int word)
{
	const struct wake_word *w = &wake_words[word];
	const uint32_t wanted = words[word].wanted;

	if (wanted == words[word].running) {
		return 0;
	}
	words[word].running = wanted;
	words[word].probability = 0U;
	clear_window(word);
	return (wanted == 0U) ? 0
			      : vmcu_init(&words[word].ctx, w->model, &pools[w->pool],
					  w->model->pool_bytes);
}

/* Stores the model's new output, int8 here where the file has uint8. */
static void store_probability(unsigned int word)
{
	const uint8_t next = (uint8_t)(words[word].last + 1U);

	words[word].probability = (uint8_t)(vmcu_output(&words[word].ctx, 0)[0] - INT8_MIN);
	words[word].last = (next < wake_words[word].window) ? next : 0U;
	words[word].probabilities[words[word].last] = words[word].probability;
}

static void decide(unsigned int word, wake_words_detected_t detected, void *user)
{
	const struct wake_word *w = &wake_words[word];
	uint32_t sum = 0;

	/* Rows count only below the cutoff, so that one utterance is detected once. */
	if (words[word].quiet > 0U && words[word].probabilities[words[word].last] < w->cutoff) {
		words[word].quiet--;
	}
	if (words[word].quiet > 0U) {
		return;
	}
	for (unsigned int i = 0; i < w->window; i++) {
		sum += words[word].probabilities[i];
	}
	if (sum > (uint32_t)w->cutoff * w->window) {
		clear_window(word);
		detected(user, word, (uint8_t)(sum / w->window));
	}
}

int wake_words_init(void)
{
	return vmcu_audio_init(&ears, &front_end, front_end_state, sizeof(front_end_state),
			       front_end_work, sizeof(front_end_work));
}

static int request(unsigned int word, uint32_t wanted)
{
	if (word >= WAKE_WORDS_COUNT) {
		return -EINVAL;
	}
	words[word].wanted = wanted;
	return 0;
}

int wake_words_start(unsigned int word)
{
	static uint32_t starts;

	starts = starts % UINT32_MAX + 1U;
	return request(word, starts);
}

int wake_words_stop(unsigned int word)
{
	return request(word, 0U);
}

int wake_words_push_row(const int8_t *row, wake_words_detected_t detected, void *user)
{
	int err = 0;

	for (unsigned int word = 0; err >= 0 && word < WAKE_WORDS_COUNT; word++) {
		err = follow_request(word);
		if (err != 0 || words[word].running == 0U) {
			continue;
		}
		err = vmcu_push_row(&words[word].ctx, row);
		if (err == 0) {
			store_probability(word);
		}
		decide(word, detected, user);
	}
	return (err < 0) ? err : 0;
}

int wake_words_push(const int16_t *samples, size_t count, wake_words_detected_t detected,
		    void *user)
{
	uint16_t features[WAKE_WORDS_CHANNELS];
	int8_t row[WAKE_WORDS_CHANNELS];
	int err = 0;

	for (size_t taken; err >= 0 && count > 0; samples += taken, count -= taken) {
		err = vmcu_audio_push(&ears, samples, count, &taken, features);
		if (err > 0) {
			vmcu_audio_bytes(features, WAKE_WORDS_CHANNELS, row);
			err = wake_words_push_row(row, detected, user);
		}
	}
	return err;
}

uint8_t wake_words_probability(unsigned int word)
{
	return words[word].probability;
}
