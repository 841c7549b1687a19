/*
 * SPDX-License-Identifier: Apache-2.0
 */

/* Updates: after whatever cut of power the device runs the old model or the new one. */

#include <errno.h>
#include <string.h>

#include <zephyr/kernel.h>
#include <zephyr/ztest.h>

#include <vmcu/partitions.h>
#include <vmcu/self_test.h>

#include <slots.h>

#include "device.h"
#include "power.h"

#define ARENA_BYTES 6144

static const uint8_t tiny_bytes[] __aligned(VMCU_CONTAINER_ALIGN) = {
#include <tiny.update.inc>
};
static const uint8_t hello_bytes[] __aligned(VMCU_CONTAINER_ALIGN) = {
#include <hello.update.inc>
};
static const uint8_t rows_bytes[] __aligned(VMCU_CONTAINER_ALIGN) = {
#include <rows.update.inc>
};

static const uint8_t hops_bytes[] __aligned(VMCU_CONTAINER_ALIGN) = {
#include <hops.update.inc>
};

const struct update tiny = {"tiny", tiny_bytes, sizeof(tiny_bytes)};
const struct update hello = {"hello", hello_bytes, sizeof(hello_bytes)};
const struct update rows = {"rows", rows_bytes, sizeof(rows_bytes)};
struct vmcu_slots slots;
static const struct update hops = {"hops", hops_bytes, sizeof(hops_bytes)};
uint32_t device_product;
uint8_t scratch[4096] __aligned(VMCU_CONTAINER_ALIGN);

static uint8_t arena[ARENA_BYTES] __aligned(VMCU_POOL_ALIGN);

void device_new(void)
{
	(void)power_on();
	memset(&slots, 0, sizeof(slots));
	find_slots(&slots);
	for (int i = 0; i < 2; i++) {
		const struct flash_area *area;

		zassert_ok(flash_area_open(slots.slot[i].area, &area));
		zassert_ok(flash_area_erase(area, 0, area->fa_size));
		flash_area_close(area);
	}
	zassert_equal(device_reset(), -ENOENT);
}

int device_reset(void)
{
	(void)power_on();
	memset(arena, 0x77, sizeof(arena));
	memset(&slots, 0x77, sizeof(slots));
	slots.copy = NULL;
	slots.arena = arena;
	slots.arena_size = sizeof(arena);
	slots.product = device_product;
	slots.minimum = 0U;
	find_slots(&slots);
	return vmcu_slots_open(&slots);
}

void device_take(const struct update *update)
{
	zassert_ok(vmcu_slots_update(&slots, update->data, update->size));
	device_runs(update);
}

void device_runs(const struct update *update)
{
	zassert_not_null(slots.ctx.model);
	zassert_str_equal(slots.model.name, update->name);
	/* Not the vector of the slot: the one that the build made. */
	zassert_ok(vmcu_self_test(&slots.ctx, update->data, update->size));
}

uint8_t *copy_of(const struct update *update)
{
	zassert_true(update->size <= sizeof(scratch), "%zu bytes", update->size);
	memcpy(scratch, update->data, update->size);
	return scratch;
}

/** Cuts power in one operation of an update, then tries again. Returns whether there was one. */
static bool cut(const struct update *old, const struct update *new, unsigned int number,
		enum power_cut how)
{
	bool failed;
	int err;

	power_fail_at(number, how);
	err = vmcu_slots_update(&slots, new->data, new->size);
	failed = power_on();
	zassert_equal(failed, err != 0, "operation %u: error %d", number, err);
	err = device_reset();
	if (old == NULL && err == -ENOENT) {
		zassert_true(failed);
	} else {
		zassert_ok(err, "operation %u, cut %d", number, (int)how);
		device_runs((strcmp(slots.model.name, new->name) == 0) ? new : old);
		zassert_true(failed || strcmp(slots.model.name, new->name) == 0);
	}
	if (failed) {
		device_take(new);
		zassert_ok(device_reset());
		device_runs(new);
	}
	return failed;
}

/** All cuts of an update from one model to another. */
static void cut_everywhere(const struct update *old, const struct update *new, bool stale)
{
	unsigned int number = 0;
	bool failed;

	do {
		failed = false;
		for (int how = 0; how < POWER_CUTS; how++) {
			device_new();
			if (stale) {
				/* The slot that is written has had an update before. */
				device_take(new);
			}
			if (old != NULL) {
				device_take(old);
			}
			failed = cut(old, new, number, how);
		}
		number++;
	} while (failed);
	TC_PRINT("%u operations, each cut in %d ways\n", number - 1U, POWER_CUTS);
	zassert_true(number > 1U + new->size / VMCU_SLOT_CHUNK);
}

ZTEST(vmcu_slots, test_power_cut_in_the_first_update)
{
	cut_everywhere(NULL, &tiny, false);
}

ZTEST(vmcu_slots, test_power_cut_in_an_update)
{
	cut_everywhere(&tiny, &hello, false);
}

ZTEST(vmcu_slots, test_power_cut_over_an_older_update)
{
	cut_everywhere(&hello, &tiny, true);
}

ZTEST(vmcu_slots, test_power_cut_again_and_again)
{
	device_new();
	device_take(&tiny);
	/* Whatever state a cut leaves, the next may be cut too. */
	for (unsigned int number = 0; number < 40U; number++) {
		int err;

		power_fail_at((number * 7U) % 24U, number % POWER_CUTS);
		err = vmcu_slots_update(&slots, hello.data, hello.size);
		zassert_ok(device_reset(), "cut %u", number);
		if (err == 0 || strcmp(slots.model.name, hello.name) == 0) {
			device_runs(&hello);
			device_take(&tiny);
		} else {
			device_runs(&tiny);
		}
	}
}

ZTEST(vmcu_slots, test_updates_in_turn)
{
	const struct update *const updates[] = {&tiny, &hello, &rows, &hops};

	device_new();
	for (unsigned int i = 0; i < 9U; i++) {
		device_take(updates[i % ARRAY_SIZE(updates)]);
		zassert_ok(device_reset());
		device_runs(updates[i % ARRAY_SIZE(updates)]);
	}
}

ZTEST(vmcu_slots, test_number_of_updates_wraps_around)
{
	device_new();
	slots.sequence = UINT32_MAX - 1U;
	device_take(&tiny);
	device_take(&hello);
	zassert_equal(slots.sequence, 0U);
	zassert_ok(device_reset());
	device_runs(&hello);
}

ZTEST(vmcu_slots, test_flash_that_is_not_mapped)
{
	device_new();
	device_take(&tiny);
	slots.slot[0].mapped = NULL;
	slots.slot[1].mapped = NULL;
	zassert_equal(vmcu_slots_open(&slots), -ENOMEM);
	slots.copy = scratch;
	slots.copy_size = sizeof(scratch);
	zassert_ok(vmcu_slots_open(&slots));
	device_runs(&tiny);
	device_take(&hello);
	device_runs(&hello);
}

ZTEST(vmcu_slots, test_an_update_that_rots_gives_way_to_the_one_before)
{
	device_new();
	device_take(&tiny);
	device_take(&hello);
	flash_rots(slots.slot[1].mapped, hello.size / 2U, 1U);
	zassert_ok(device_reset());
	device_runs(&tiny);
	/* The next one takes the place of the one that is lost, not of the one in use. */
	device_take(&rows);
	zassert_ok(device_reset());
	device_runs(&rows);
}

ZTEST(vmcu_slots, test_a_record_that_rots_is_none)
{
	device_new();
	device_take(&tiny);
	device_take(&hello);
	/* The older update would be the newer one by the number in its record. */
	flash_rots(slots.slot[0].mapped, PARTITION_SIZE(model_a) - VMCU_SLOT_RECORD_ROOM + 4U,
		   0x10U);
	zassert_ok(device_reset());
	device_runs(&hello);
}

ZTEST_SUITE(vmcu_slots, NULL, NULL, NULL, NULL, NULL);
