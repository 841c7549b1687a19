/*
 * SPDX-License-Identifier: Apache-2.0
 */

#include <vmcu/access.h>

#include "check.h"

static int8_t bytes[100];

static const struct vmcu_pool pool = {.start = bytes, .size = sizeof(bytes)};

static void test_rows_follow_each_other(void)
{
	const struct vmcu_tensor t = {
		.base = 10, .ring = 35, .height = 5, .width = 7, .channels = 1};

	for (uint32_t y = 0; y < t.height; y++) {
		CHECK(vmcu_row(&pool, &t, y) == bytes + 10 + 7 * y);
	}
}

static void test_ring_reuses_slots(void)
{
	const struct vmcu_tensor t = {
		.base = 3, .ring = 24, .height = 40, .width = 2, .channels = 4};

	CHECK(vmcu_row(&pool, &t, 2) == bytes + 3 + 16);
	CHECK(vmcu_row(&pool, &t, 3) == bytes + 3);
	CHECK(vmcu_row(&pool, &t, 38) == bytes + 3 + 16);
}

static void test_rows_wrap_at_the_pools_end(void)
{
	const struct vmcu_tensor t = {
		.base = 80, .ring = 50, .height = 5, .width = 10, .channels = 1};

	CHECK(vmcu_row(&pool, &t, 1) == bytes + 90);
	CHECK(vmcu_row(&pool, &t, 2) == bytes);
	CHECK(vmcu_row(&pool, &t, 4) == bytes + 20);
}

static void test_ring_wraps_too(void)
{
	const struct vmcu_tensor t = {
		.base = 90, .ring = 20, .height = 9, .width = 10, .channels = 1};

	CHECK(vmcu_row(&pool, &t, 6) == bytes + 90);
	CHECK(vmcu_row(&pool, &t, 7) == bytes);
}

/* Two rows of six bytes and a pixel: a row is split where the ring starts over. */
static void test_tiles_split_rows(void)
{
	const struct vmcu_tensor t = {
		.base = 20, .ring = 14, .height = 9, .width = 3, .channels = 2};

	CHECK(vmcu_row(&pool, &t, 1) == bytes + 26);
	CHECK(vmcu_pixel(&pool, &t, 1, 2) == bytes + 30);
	CHECK(vmcu_pixel(&pool, &t, 2, 0) == bytes + 32);
	CHECK(vmcu_pixel(&pool, &t, 2, 1) == bytes + 20);
	CHECK(vmcu_pixel(&pool, &t, 8, 2) == bytes + 20 + 52 % 14);
}

int main(void)
{
	test_tiles_split_rows();
	test_rows_follow_each_other();
	test_ring_reuses_slots();
	test_rows_wrap_at_the_pools_end();
	test_ring_wraps_too();
	return 0;
}
