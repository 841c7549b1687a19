/*
 * SPDX-License-Identifier: Apache-2.0
 */

/* Updates of other products and of the past are refused, also after whatever cut of power. */

#include <errno.h>
#include <string.h>

#include <zephyr/ztest.h>

#include "device.h"
#include "power.h"

#define PRODUCT 7U

static const uint8_t first_bytes[] __aligned(VMCU_CONTAINER_ALIGN) = {
#include <first.update.inc>
};
static const uint8_t second_bytes[] __aligned(VMCU_CONTAINER_ALIGN) = {
#include <second.update.inc>
};
static const uint8_t alien_bytes[] __aligned(VMCU_CONTAINER_ALIGN) = {
#include <alien.update.inc>
};

static const struct update first = {"first", first_bytes, sizeof(first_bytes)};
static const struct update second = {"second", second_bytes, sizeof(second_bytes)};
static const struct update alien = {"alien", alien_bytes, sizeof(alien_bytes)};

static void make_device(void *fixture)
{
	ARG_UNUSED(fixture);
	device_product = PRODUCT;
	device_new();
	slots.product = PRODUCT;
}

static void end_device(void *fixture)
{
	ARG_UNUSED(fixture);
	device_product = 0U;
}

static void refuses(const struct update *update, int err, const char *what)
{
	zassert_equal(vmcu_slots_update(&slots, update->data, update->size), err);
	zassert_str_equal(slots.refusal.what, what);
}

ZTEST(vmcu_versions, test_another_product_is_refused)
{
	device_take(&first);
	refuses(&alien, -ENODEV, "product");
	refuses(&tiny, -ENODEV, "product");
	device_runs(&first);
	zassert_equal(slots.minimum, 1U);
	slots.product = 0U;
	device_take(&alien);
}

ZTEST(vmcu_versions, test_an_older_version_is_refused)
{
	device_take(&first);
	zassert_equal(slots.minimum, 1U);
	device_take(&first);
	device_take(&second);
	zassert_equal(slots.minimum, 2U);
	refuses(&first, -EACCES, "version of the model");
	device_runs(&second);
	zassert_ok(device_reset());
	zassert_equal(slots.minimum, 2U);
	refuses(&first, -EACCES, "version of the model");
	slots.product = 0U;
	refuses(&tiny, -EACCES, "version of the model");
	zassert_ok(device_reset());
	device_runs(&second);
}

ZTEST(vmcu_versions, test_the_application_may_ask_for_more)
{
	slots.minimum = 2U;
	refuses(&first, -EACCES, "version of the model");
	device_take(&second);
	slots.minimum = 3U;
	refuses(&second, -EACCES, "version of the model");
	/* What it asks for is not what the device has taken. */
	zassert_ok(device_reset());
	zassert_equal(slots.minimum, 2U);
}

ZTEST(vmcu_versions, test_what_fails_raises_nothing)
{
	uint8_t *bytes = copy_of(&second);

	device_take(&first);
	/* The last byte of the vector's input. */
	bytes[second.size - 1U] ^= 0x40U;
	zassert_equal(vmcu_slots_update(&slots, bytes, second.size), -EILSEQ);
	zassert_equal(slots.minimum, 1U);
	zassert_ok(device_reset());
	zassert_equal(slots.minimum, 1U);
	device_take(&first);
}

/** Power fails once in an update to the second version. Returns whether it did. */
static bool cut(unsigned int number, enum power_cut how)
{
	bool failed;

	power_fail_at(number, how);
	(void)vmcu_slots_update(&slots, second.data, second.size);
	failed = power_on();
	zassert_ok(device_reset(), "operation %u, cut %d", number, (int)how);
	return failed;
}

static void takes_the_second_only(void)
{
	device_take(&second);
	zassert_ok(device_reset());
	zassert_equal(slots.minimum, 2U);
	refuses(&first, -EACCES, "version of the model");
	zassert_ok(device_reset());
	device_runs(&second);
}

ZTEST(vmcu_versions, test_power_cut_as_the_version_rises)
{
	unsigned int number = 0;
	bool failed;

	do {
		failed = false;
		for (int how = 0; how < POWER_CUTS; how++) {
			make_device(NULL);
			device_take(&first);
			failed = cut(number, how);
			if (strcmp(slots.model.name, second.name) == 0) {
				zassert_equal(slots.minimum, 2U);
			} else {
				zassert_true(failed);
				zassert_equal(slots.minimum, 1U);
				device_runs(&first);
			}
			takes_the_second_only();
		}
		number++;
	} while (failed);
	zassert_true(number > 1U + second.size / VMCU_SLOT_CHUNK);
}

/** A device that runs the first version, since the second, which it has taken, has rotted. */
static void make_rotten(void)
{
	make_device(NULL);
	device_take(&first);
	device_take(&second);
	flash_rots(slots.slot[1].mapped, second.size / 2U, 1U);
	zassert_ok(device_reset());
	device_runs(&first);
	zassert_equal(slots.minimum, 2U);
}

ZTEST(vmcu_versions, test_power_cut_where_the_newest_model_has_rotted)
{
	unsigned int number = 0;
	bool failed;

	make_rotten();
	refuses(&first, -EACCES, "version of the model");
	zassert_ok(device_reset());
	zassert_equal(slots.minimum, 2U);
	do {
		failed = false;
		for (int how = 0; how < POWER_CUTS; how++) {
			make_rotten();
			failed = cut(number, how);
			zassert_equal(slots.minimum, 2U, "operation %u, cut %d", number, how);
			takes_the_second_only();
		}
		number++;
	} while (failed);
}

ZTEST(vmcu_versions, test_power_cut_in_each_copy_of_the_version)
{
	make_rotten();
	/* More than the blocks behind the record. */
	for (unsigned int cuts = 0; cuts < 20U; cuts++) {
		(void)cut(0U, POWER_CUT_WITHIN);
		zassert_equal(slots.minimum, 2U);
		device_runs(&first);
	}
	takes_the_second_only();
}

ZTEST_SUITE(vmcu_versions, NULL, NULL, make_device, end_device, NULL);
