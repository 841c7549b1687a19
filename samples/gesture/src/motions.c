/*
 * SPDX-License-Identifier: Apache-2.0
 */

#include <stddef.h>
#include <string.h>

#include <zephyr/sys/util.h>

#include "motions.h"
#include "sine.h"

/* How long each takes to begin and to end. */
#define EDGE_MS 100

/* Of an axis: mm/s^2, thousandths of a hertz, and where it begins in its turn. */
struct swing {
	int16_t much;
	uint16_t millihertz;
	uint16_t phase;
};

struct motion {
	uint16_t ms;
	struct swing axis[3];
};

/* The device leans a little. */
static const int32_t gravity[3] = {1500, -1000, 9640};

static const struct motion motions[] = {
	{.ms = 1500},
	/* A shake. */
	{.ms = 840, .axis = {{15000, 4500, 0}}},
	{.ms = 1200},
	/* A knock. */
	{.ms = 60, .axis = {{9000, 12000, 0}, {0}, {15000, 12000, 0}}},
	{.ms = 1000},
	/* Two circles. */
	{.ms = 1000, .axis = {{9000, 2000, 0}, {9000, 2000, QUARTER}}},
	{.ms = 1300},
	/* Some steps. */
	{.ms = 2600, .axis = {{800, 950, 0}, {700, 950, 0}, {2500, 1900, 0}}},
	{.ms = 1000},
	/* A lift. */
	{.ms = 640, .axis = {{0}, {0}, {9000, 1563, 0}}},
	{.ms = 1200},
	/* A turn to one side and back. */
	{.ms = 2000, .axis = {{6500, 250, 0}, {0}, {-2500, 250, 0}}},
	{.ms = 1000},
	/* A shake, faster. */
	{.ms = 760, .axis = {{18000, 5200, 0}, {500, 5200, 0}}},
};

static int32_t swung(const struct swing *swing, uint32_t ms)
{
	const uint32_t phase =
		swing->phase + (uint32_t)((uint64_t)swing->millihertz * ms * TURN / 1000000U);

	return sine(phase) * swing->much / 4096;
}

void motions_sample(uint32_t n, int32_t accel[3])
{
	uint32_t ms = n * MOTIONS_STEP_MS;
	uint32_t noise = n * 1664525U + 1013904223U;

	memcpy(accel, gravity, sizeof(gravity));
	for (size_t i = 0; i < ARRAY_SIZE(motions); i++) {
		const struct motion *now = &motions[i];

		if (ms < now->ms) {
			/* Nothing begins or ends at once. */
			const int32_t edge = MIN((int32_t)MIN(ms, now->ms - ms), EDGE_MS);

			for (size_t axis = 0; axis < 3; axis++) {
				accel[axis] += swung(&now->axis[axis], ms) * edge / EDGE_MS;
			}
			break;
		}
		ms -= now->ms;
	}
	for (size_t axis = 0; axis < 3; axis++) {
		noise = noise * 1664525U + 1013904223U;
		accel[axis] += (int32_t)(noise >> 25) - 64;
	}
}
