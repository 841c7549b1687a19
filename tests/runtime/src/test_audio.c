/*
 * SPDX-License-Identifier: Apache-2.0
 */

/* The front end's rows are those that its meaning in numpy gives. */

#include <errno.h>
#include <string.h>

#include <zephyr/ztest.h>

#include <vmcu/audio.h>

#include "front_end.h"
#include "sound.h"

#define ROWS (ARRAY_SIZE(sound_rows) / FRONT_END_CHANNELS)

static uint32_t state[FRONT_END_STATE_BYTES / 4U];
static uint32_t work[FRONT_END_WORK_BYTES / 4U];
static struct vmcu_audio_context ctx;

static void before(void *fixture)
{
	ARG_UNUSED(fixture);
	zassert_ok(vmcu_audio_init(&ctx, &front_end, state, sizeof(state), work, sizeof(work)));
}

/** Pushes the sound, some samples at a time; all rows have to come. */
static void listen(size_t at_once)
{
	uint16_t features[FRONT_END_CHANNELS];
	size_t rows = 0, taken;

	for (size_t at = 0; at < ARRAY_SIZE(sound); at += taken) {
		size_t left = MIN(ARRAY_SIZE(sound) - at, at_once);
		int ready = vmcu_audio_push(&ctx, sound + at, left, &taken, features);

		zassert_true(ready >= 0);
		if (ready > 0) {
			zassert_true(rows < ROWS);
			zassert_mem_equal(features, sound_rows + rows * FRONT_END_CHANNELS,
					  sizeof(features), "row %zu", rows);
			rows++;
			/* Nothing is kept there. */
			(void)memset(work, 0xa5, sizeof(work));
		}
	}
	zassert_equal(rows, ROWS);
}

ZTEST(vmcu_audio, test_rows_are_those_of_numpy)
{
	listen(FRONT_END_HOP);
}

ZTEST(vmcu_audio, test_samples_may_come_in_any_number_and_again_after_a_reset)
{
	listen(77);
	vmcu_audio_reset(&ctx);
	listen(ARRAY_SIZE(sound));
}

ZTEST(vmcu_audio, test_bytes_are_rounded_and_cut)
{
	static const uint16_t features[] = {0, 1, 2, 333, 665, 666, 669, UINT16_MAX};
	static const int8_t expected[] = {-128, -128, -127, 0, 127, 127, 127, 127};
	int8_t bytes[ARRAY_SIZE(features)];

	vmcu_audio_bytes(features, ARRAY_SIZE(features), bytes);
	zassert_mem_equal(bytes, expected, sizeof(bytes));
}

ZTEST(vmcu_audio, test_bad_use_is_refused)
{
	uint16_t features[FRONT_END_CHANNELS];
	size_t taken;

	zassert_equal(vmcu_audio_push(&ctx, NULL, 1, &taken, features), -EINVAL);
	zassert_equal(vmcu_audio_push(&ctx, sound, 1, NULL, features), -EINVAL);
	zassert_equal(vmcu_audio_push(&ctx, sound, 1, &taken, NULL), -EINVAL);
	zassert_equal(vmcu_audio_push(NULL, sound, 1, &taken, features), -EINVAL);
	zassert_equal(
		vmcu_audio_init(&ctx, &front_end, state, sizeof(state) - 1U, work, sizeof(work)),
		-ENOMEM);
	/* What was bound before is not used any more. */
	zassert_equal(vmcu_audio_push(&ctx, sound, 1, &taken, features), -EINVAL);
	zassert_equal(
		vmcu_audio_init(&ctx, &front_end, state, sizeof(state), work, sizeof(work) - 1U),
		-ENOMEM);
	zassert_equal(vmcu_audio_init(&ctx, &front_end, state, sizeof(state), NULL, sizeof(work)),
		      -EINVAL);
	zassert_equal(vmcu_audio_init(&ctx, NULL, state, sizeof(state), work, sizeof(work)),
		      -EINVAL);
	zassert_equal(vmcu_audio_init(NULL, &front_end, state, sizeof(state), work, sizeof(work)),
		      -EINVAL);
	vmcu_audio_reset(NULL);
}

ZTEST_SUITE(vmcu_audio, NULL, NULL, before, NULL, NULL);
