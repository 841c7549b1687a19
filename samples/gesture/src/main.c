/*
 * SPDX-License-Identifier: Apache-2.0
 */

/* An accelerometer, a row of three bytes every 20 ms, an answer for every fourth row, and a gesture
 * where two answers in a row agree.
 */

#include <zephyr/device.h>
#include <zephyr/drivers/sensor.h>
#include <zephyr/kernel.h>
#include <zephyr/sys/printk.h>
#include <zephyr/sys/util.h>

#include <vmcu/vmcu.h>

#include "gesture.h"

/* What train.py trains with. */
#define SAMPLE_MS 20
/* Micrometres per second squared of a step of the input. */
#define STEP_UM   ((int64_t)(VMCU_MODEL_GESTURE_INPUT0_SCALE * 1000000.0f))
/* For how long no other gesture is told. */
#define QUIET_MS  800
#define AXES      3

BUILD_ASSERT(VMCU_MODEL_ROW_BYTES(gesture) == AXES);

static const char *const names[] = {"none", "shake", "circle", "lift"};

BUILD_ASSERT(ARRAY_SIZE(names) == VMCU_MODEL_GESTURE_OUTPUT0_BYTES);

static VMCU_POOL_DEFINE(pool, VMCU_MODEL_POOL_BYTES(gesture));

static const struct device *const accel = DEVICE_DT_GET(DT_ALIAS(accel0));
static struct vmcu_context ctx;
static struct k_timer clock;

/* A sample as the network takes it. */
static int read_row(int8_t *row)
{
	struct sensor_value values[AXES];
	int err = sensor_sample_fetch(accel);

	err = (err == 0) ? sensor_channel_get(accel, SENSOR_CHAN_ACCEL_XYZ, values) : err;
	if (err != 0) {
		return err;
	}
	for (unsigned int axis = 0; axis < AXES; axis++) {
		const int64_t steps =
			DIV_ROUND_CLOSEST(sensor_value_to_micro(&values[axis]), STEP_UM);

		row[axis] = (int8_t)CLAMP(steps + VMCU_MODEL_GESTURE_INPUT0_ZERO_POINT, INT8_MIN,
					  INT8_MAX);
	}
	return 0;
}

static unsigned int best(const int8_t *scores)
{
	unsigned int found = 0;

	for (unsigned int i = 1; i < ARRAY_SIZE(names); i++) {
		found = (scores[i] > scores[found]) ? i : found;
	}
	return found;
}

/* Tells a gesture that this answer and the one before agree on; 1 if it did. */
static unsigned int tell(unsigned int answer, uint32_t now)
{
	static unsigned int before;
	static uint32_t until;
	const bool agreed = answer != 0U && answer == before;

	before = answer;
	if (!agreed || now < until) {
		return 0;
	}
	printk("gesture: %s at %u.%u s\n", names[answer], now / 1000U, now / 100U % 10U);
	until = now + QUIET_MS;
	return 1;
}

int main(void)
{
	uint32_t now = 0, late = 0;
	unsigned int told = 0;
	int8_t row[AXES];
	int err = device_is_ready(accel) ? 0 : -ENODEV;

	err = (err == 0) ? vmcu_init(&ctx, &gesture_model, pool, sizeof(pool)) : err;
	k_timer_init(&clock, NULL, NULL);
	k_timer_start(&clock, K_MSEC(SAMPLE_MS), K_MSEC(SAMPLE_MS));
	while (err >= 0 && (CONFIG_SAMPLE_SECONDS == 0 || now < CONFIG_SAMPLE_SECONDS * 1000U)) {
		/* The thread sleeps, and the core with it. */
		late += k_timer_status_sync(&clock) - 1U;
		now += SAMPLE_MS;
		err = read_row(row);
		err = (err == 0) ? vmcu_push_row(&ctx, row) : err;
		if (err == 0) {
			told += tell(best(vmcu_output(&ctx, 0)), now);
		}
	}
	if (err < 0) {
		printk("gesture: error %d\n", err);
		return err;
	}
	printk("gesture: %u bytes of RAM, %u s, %u gestures, samples that came too late: %u\n",
	       (unsigned int)sizeof(pool), now / 1000U, told, late);
	return 0;
}
