/*
 * SPDX-License-Identifier: Apache-2.0
 */

/* Moves Zephyr's emulated accelerometer: its registers change whether somebody reads them or not.
 */

#include <zephyr/drivers/emul.h>
#include <zephyr/drivers/emul_sensor.h>
#include <zephyr/init.h>
#include <zephyr/kernel.h>

#include "motions.h"

/* What the emulator takes: q31 fractions of 2^SHIFT m/s^2. */
#define SHIFT 8

static const struct emul *const target = EMUL_DT_GET(DT_ALIAS(accel0));
static struct k_timer clock;

static void tick(struct k_timer *timer)
{
	static uint32_t n;
	int32_t accel[3];

	ARG_UNUSED(timer);
	motions_sample(n++, accel);
	for (uint16_t axis = 0; axis < 3; axis++) {
		const q31_t value = (q31_t)(((int64_t)accel[axis] << (31 - SHIFT)) / 1000);
		const struct sensor_chan_spec channel = {SENSOR_CHAN_ACCEL_X + axis, 0};

		(void)emul_sensor_backend_set_channel(target, channel, &value, SHIFT);
	}
}

static int start(void)
{
	k_timer_init(&clock, tick, NULL);
	/* Between the moments at which the sample reads. */
	k_timer_start(&clock, K_MSEC(MOTIONS_STEP_MS / 2), K_MSEC(MOTIONS_STEP_MS));
	return 0;
}

SYS_INIT(start, APPLICATION, CONFIG_APPLICATION_INIT_PRIORITY);
