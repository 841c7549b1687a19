/*
 * SPDX-License-Identifier: Apache-2.0
 */

/* A tune in place of a microphone: tones that slide, as train.py makes them, and a little noise. */

#include <errno.h>

#include <zephyr/kernel.h>

#include "microphone.h"
#include "sine.h"

#define BLOCK_MS (1000U * BLOCK_SAMPLES / FRONT_END_SAMPLE_RATE)

/* From one pitch to another, in hertz. */
struct slide {
	uint16_t ms;
	uint16_t from;
	uint16_t to;
	uint16_t loud;
};

static const struct slide tune[] = {
	{1000, 0, 0, 0},
	/* It rises. */
	{520, 400, 1200, 6000},
	{1000, 0, 0, 0},
	/* The word. */
	{260, 400, 1200, 6000},
	{260, 1200, 400, 6000},
	{1200, 0, 0, 0},
	/* It falls and rises. */
	{260, 1200, 400, 9000},
	{260, 400, 1200, 9000},
	{1000, 0, 0, 0},
	/* It stays. */
	{520, 700, 700, 6000},
	{1200, 0, 0, 0},
	/* The word, higher and less loud. */
	{260, 480, 1500, 2000},
	{260, 1500, 480, 2000},
	{1000, 0, 0, 0},
	/* It falls. */
	{520, 1200, 400, 6000},
	{480, 0, 0, 0},
};

static int16_t blocks[BLOCKS][BLOCK_SAMPLES];
static struct k_sem ready;
static struct k_timer clock;
static unsigned int lost;
static uint32_t made, taken;

/* The next sample; false behind the last. */
static bool sample(int16_t *value)
{
	static size_t slide;
	static uint32_t at, phase, noise = 1U;
	const struct slide *now = &tune[slide];
	uint32_t count = now->ms * (FRONT_END_SAMPLE_RATE / 1000U);
	int32_t pitch, edge, loud;

	if (slide == ARRAY_SIZE(tune)) {
		return false;
	}
	pitch = now->from + ((int32_t)now->to - now->from) * (int32_t)at / (int32_t)count;
	phase += (uint32_t)pitch * TURN / FRONT_END_SAMPLE_RATE;
	/* Each comes and goes within 20 ms. */
	edge = (int32_t)MIN(at, count - at);
	loud = MIN(edge * now->loud / (int32_t)(FRONT_END_SAMPLE_RATE / 50U), now->loud);
	noise = noise * 1664525U + 1013904223U;
	*value = (int16_t)(sine(phase) * loud / 4096 + (int32_t)(noise >> 28) - 8);
	if (++at == count) {
		at = 0;
		slide++;
	}
	return true;
}

/* What the hardware does every 20 ms. */
static void tick(struct k_timer *timer)
{
	if (made - taken == BLOCKS) {
		lost++;
		return;
	}
	for (unsigned int n = 0; n < BLOCK_SAMPLES; n++) {
		if (!sample(&blocks[made % BLOCKS][n])) {
			k_timer_stop(timer);
			break;
		}
	}
	made++;
	k_sem_give(&ready);
}

int microphone_start(void)
{
	(void)k_sem_init(&ready, 0, BLOCKS);
	k_timer_init(&clock, tick, NULL);
	k_timer_start(&clock, K_MSEC(BLOCK_MS), K_MSEC(BLOCK_MS));
	return 0;
}

int microphone_read(const int16_t **block)
{
	static bool holds;

	if (holds) {
		taken++;
	}
	/* The thread sleeps, and the core with it. */
	if (k_sem_take(&ready, K_MSEC(3U * BLOCK_MS)) != 0) {
		return -ENODATA;
	}
	holds = true;
	*block = blocks[taken % BLOCKS];
	return 0;
}

unsigned int microphone_lost(void)
{
	return lost;
}
