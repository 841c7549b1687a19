/*
 * SPDX-License-Identifier: Apache-2.0
 */

/* Sound, a row of features every 20 ms, an answer for every row, and a decision over some answers.
 */

#include <errno.h>

#include <zephyr/kernel.h>
#include <zephyr/sys/printk.h>

#include <vmcu/audio.h>
#include <vmcu/vmcu.h>

#include "front_end.h"
#include "microphone.h"
#include "wake_word.h"

BUILD_ASSERT(FRONT_END_CHANNELS == VMCU_MODEL_ROW_BYTES(wake_word));

/* The most that an answer can say, how many are added up, what they must come to, and for how long
 * a word is not heard again.
 */
#define MOST      (INT8_MAX - VMCU_MODEL_WAKE_WORD_OUTPUT0_ZERO_POINT)
#define ANSWERS   5
#define ENOUGH    (ANSWERS * MOST * 3 / 4)
#define QUIET_MS  1000
#define BLOCKS_MS (1000U * FRONT_END_HOP / FRONT_END_SAMPLE_RATE)

static VMCU_POOL_DEFINE(pool, VMCU_MODEL_POOL_BYTES(wake_word));

static uint32_t state[FRONT_END_STATE_BYTES / 4U];
static uint32_t work[FRONT_END_WORK_BYTES / 4U];
static struct vmcu_audio_context ears;
static struct vmcu_context ctx;

/* A block of sound: 0 where there is an answer, 1 where there is none yet. */
static int listen(const int16_t *block)
{
	uint16_t features[FRONT_END_CHANNELS];
	int8_t row[FRONT_END_CHANNELS];
	size_t taken;
	int ready = vmcu_audio_push(&ears, block, BLOCK_SAMPLES, &taken, features);

	if (ready <= 0) {
		return (ready == 0) ? 1 : ready;
	}
	vmcu_audio_bytes(features, FRONT_END_CHANNELS, row);
	return vmcu_push_row(&ctx, row);
}

/* Whether the last answers together say that the word was there. */
static bool is_heard(int answer)
{
	static int last[ANSWERS];
	static unsigned int at;
	int sum = 0;

	last[at++ % ANSWERS] = answer - VMCU_MODEL_WAKE_WORD_OUTPUT0_ZERO_POINT;
	for (unsigned int n = 0; n < ANSWERS; n++) {
		sum += last[n];
	}
	return sum >= ENOUGH;
}

int main(void)
{
	unsigned int now = 0, heard = 0, until = 0;
	const int16_t *block;
	int err = vmcu_audio_init(&ears, &front_end, state, sizeof(state), work, sizeof(work));

	err = (err == 0) ? vmcu_init(&ctx, &wake_word_model, pool, sizeof(pool)) : err;
	err = (err == 0) ? microphone_start() : err;
	while (err >= 0) {
		err = microphone_read(&block);
		if (err != 0) {
			break;
		}
		now += BLOCKS_MS;
		err = listen(block);
		if (err == 0 && is_heard(vmcu_output(&ctx, 0)[0]) && now >= until) {
			printk("wake_word: heard it at %u.%u s\n", now / 1000U, now / 100U % 10U);
			heard++;
			until = now + QUIET_MS;
		}
	}
	if (err != -ENODATA) {
		printk("wake_word: error %d\n", err);
	}
	printk("wake_word: bytes of RAM: network %u, front end %u, sound %u\n",
	       (unsigned int)sizeof(pool), (unsigned int)(sizeof(state) + sizeof(work)),
	       (unsigned int)(BLOCKS * BLOCK_SAMPLES * sizeof(int16_t)));
	printk("wake_word: %u s of sound, heard %u times, blocks lost: %u\n", now / 1000U, heard,
	       microphone_lost());
	return (err == -ENODATA) ? 0 : err;
}
