/*
 * SPDX-License-Identifier: Apache-2.0
 */

/*
 * Thousands of updates of devices that lose power, whose flash rots, and which are offered older
 * models and those of other products.
 */

#include <stdio.h>
#include <stdlib.h>

#include "slots_device.h"

#define UPDATES 4000
#define CUTS    1000
#define ROTS    400

static uint32_t state;

static uint32_t draw(uint32_t below)
{
	state = state * 1664525U + 1013904223U;
	return (state >> 8) % below;
}

/** What a device has to have: the model that it runs, and whether the other slot has one too. */
struct device {
	uint32_t version;
	uint32_t other;   /**< version in the slot that is not in use, or 0 */
	uint32_t minimum; /**< no older version is accepted any more */
};

static void check(const struct device *device)
{
	CHECK(running() == device->version);
	CHECK(slots.minimum >= device->minimum);
}

/** An update, complete or cut. */
static void take(struct device *device, bool cut)
{
	const uint32_t version = device->minimum + draw(2U);
	const size_t size = UPDATE_BYTES - draw(32U);
	int err;

	flash.left = cut ? (int)draw(UPDATE_BYTES + 60U) : POWERED;
	err = vmcu_slots_update(&slots, image_of(version, size), size);
	CHECK(cut || err == 0);
	CHECK(reset() == 0);
	if (running() == device->version && err != 0) {
		device->other = 0U;
	} else {
		CHECK(running() == version);
		device->other = device->version;
		device->version = version;
		device->minimum = version;
	}
	check(device);
}

/** An older model, or one of another product, changes nothing but the slot that it is written to.
 */
static void refuse(struct device *device)
{
	static uint8_t bytes[UPDATE_BYTES];
	struct image image;
	const bool older = device->minimum > 1U && draw(2U) == 0U;
	const uint32_t version = older ? 1U + draw(device->minimum - 1U) : device->minimum + 9U;

	memcpy(bytes, image_of(version, UPDATE_BYTES), sizeof(bytes));
	memcpy(&image, bytes, sizeof(image));
	image.product += older ? 0U : 1U;
	memcpy(bytes, &image, sizeof(image));
	image.sum = sum_behind(bytes, sizeof(bytes));
	memcpy(bytes, &image, sizeof(image.sum));
	CHECK(vmcu_slots_update(&slots, bytes, sizeof(bytes)) == (older ? -EACCES : -EXDEV));
	CHECK(running() == device->version && reset() == 0);
	device->other = 0U;
	check(device);
}

/** A bit changes: of any slot if both have models, else of the one that is not in use. */
static void rot(struct device *device)
{
	const int in_use = slots.used;
	const int slot = (device->other != 0U && draw(2U) == 0U) ? in_use : 1 - in_use;

	flash.bytes[slot][draw(SLOT_BYTES)] ^= (uint8_t)(1U << draw(8U));
	CHECK(reset() == 0);
	if (slot == in_use && slots.used != in_use) {
		device->version = device->other;
	}
	/* It may have been a byte of no use, but the next bit may not. */
	device->other = 0U;
	check(device);
}

static void run(uint32_t block, bool ecc)
{
	struct device device = {.version = 1U, .minimum = 1U};

	state = block + (ecc ? 100U : 0U);
	flash.ecc = ecc;
	new_device(block, 0xffU);
	CHECK(update(1U) == 0);
	for (int i = 0; i < UPDATES; i++) {
		take(&device, (uint32_t)i % (UPDATES / CUTS) == 0U);
		if (i % (UPDATES / ROTS) == 5) {
			rot(&device);
		}
		if (i % 20 == 7) {
			refuse(&device);
		}
	}
}

int main(void)
{
	static const uint32_t blocks[] = {1U, 4U, 8U, 16U, 32U};

	for (size_t i = 0; i < sizeof(blocks) / sizeof(blocks[0]); i++) {
		run(blocks[i], false);
		run(blocks[i], true);
	}
	return 0;
}
