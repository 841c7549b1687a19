/*
 * SPDX-License-Identifier: Apache-2.0
 */

/* Models whose weights are not in their containers: each slot has its own reader. */

#include "slots_device.h"

/** The model in use is read by its slot's reader. */
static void check_reader(void)
{
	CHECK(slots.ctx.reader == &readers[slots.used]);
}

static void test_each_slot_has_its_reader(void)
{
	new_device(4U, 0xffU);
	for (uint32_t version = 1U; version <= 4U; version++) {
		CHECK(update(version) == 0 && running() == version);
		check_reader();
		CHECK(reset() == 0 && running() == version);
		check_reader();
	}
}

/** An update into a slot without a reader leaves the model in use. */
static void test_a_slot_without_a_reader(void)
{
	new_device(4U, 0xffU);
	CHECK(update(1U) == 0);
	bare[1 - slots.used] = true;
	CHECK(reset() == 0 && running() == 1U);
	CHECK(update(2U) == -EINVAL && strcmp(slots.refusal.what, "reader") == 0);
	CHECK(running() == 1U);
	check_reader();
	CHECK(reset() == 0 && running() == 1U);
}

int main(void)
{
	test_each_slot_has_its_reader();
	test_a_slot_without_a_reader();
	return 0;
}
