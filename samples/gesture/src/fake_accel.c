/*
 * SPDX-License-Identifier: Apache-2.0
 */

/* An accelerometer that plays motions, by Zephyr's sensor API. */

#define DT_DRV_COMPAT vmcu_fake_accel

#include <errno.h>

#include <zephyr/device.h>
#include <zephyr/drivers/sensor.h>

#include "motions.h"

static uint32_t fetched;
static int32_t latest[3];

static int fetch(const struct device *dev, enum sensor_channel channel)
{
	ARG_UNUSED(dev);
	if (channel != SENSOR_CHAN_ALL && channel != SENSOR_CHAN_ACCEL_XYZ) {
		return -ENOTSUP;
	}
	motions_sample(fetched++, latest);
	return 0;
}

static int get(const struct device *dev, enum sensor_channel channel, struct sensor_value *values)
{
	ARG_UNUSED(dev);
	if (channel != SENSOR_CHAN_ACCEL_XYZ) {
		return -ENOTSUP;
	}
	for (size_t axis = 0; axis < 3; axis++) {
		values[axis].val1 = latest[axis] / 1000;
		values[axis].val2 = latest[axis] % 1000 * 1000;
	}
	return 0;
}

#if defined(DEVICE_API)
static DEVICE_API(sensor, api) = {
#else
static const struct sensor_driver_api api = {
#endif
	.sample_fetch = fetch,
	.channel_get = get,
};

SENSOR_DEVICE_DT_INST_DEFINE(0, NULL, NULL, NULL, NULL, POST_KERNEL, CONFIG_SENSOR_INIT_PRIORITY,
			     &api);
