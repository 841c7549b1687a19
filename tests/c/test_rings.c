/*
 * SPDX-License-Identifier: Apache-2.0
 */

#include <vmcu/model.h>

#include "check.h"

static int8_t bytes[100];

static const struct vmcu_pool pool = {.start = bytes, .size = sizeof(bytes)};

static void test_rows_follow_each_other(void)
{
	const struct vmcu_tensor t = {
		.base = 10, .stride = 7, .height = 5, .width = 7, .channels = 1, .capacity = 5};

	for (uint32_t y = 0; y < t.height; y++) {
		CHECK(vmcu_row(&pool, &t, y) == bytes + 10 + 7 * y);
	}
}

static void test_ring_reuses_slots(void)
{
	const struct vmcu_tensor t = {
		.base = 3, .stride = 8, .height = 40, .width = 2, .channels = 4, .capacity = 3};

	CHECK(vmcu_row(&pool, &t, 2) == bytes + 3 + 16);
	CHECK(vmcu_row(&pool, &t, 3) == bytes + 3);
	CHECK(vmcu_row(&pool, &t, 38) == bytes + 3 + 16);
}

static void test_rows_wrap_at_the_pools_end(void)
{
	const struct vmcu_tensor t = {
		.base = 80, .stride = 10, .height = 5, .width = 10, .channels = 1, .capacity = 5};

	CHECK(vmcu_row(&pool, &t, 1) == bytes + 90);
	CHECK(vmcu_row(&pool, &t, 2) == bytes);
	CHECK(vmcu_row(&pool, &t, 4) == bytes + 20);
}

static void test_ring_wraps_too(void)
{
	const struct vmcu_tensor t = {
		.base = 90, .stride = 10, .height = 9, .width = 10, .channels = 1, .capacity = 2};

	CHECK(vmcu_row(&pool, &t, 6) == bytes + 90);
	CHECK(vmcu_row(&pool, &t, 7) == bytes);
}

int main(void)
{
	test_rows_follow_each_other();
	test_ring_reuses_slots();
	test_rows_wrap_at_the_pools_end();
	test_ring_wraps_too();
	return 0;
}
