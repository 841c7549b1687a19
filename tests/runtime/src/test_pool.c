/*
 * SPDX-License-Identifier: Apache-2.0
 */

/* Where rows lie in the pool, and where the pool lies in memory. */

#include <zephyr/devicetree.h>
#include <zephyr/ztest.h>

#include <vmcu/pool.h>
#include <vmcu/access.h>
#include <vmcu/vmcu.h>

#include "tiny.h"

static VMCU_POOL_DEFINE(bytes, 100);

#if DT_HAS_CHOSEN(vmcu_pool)
/* As large as the whole region: the image does not link unless the linker drops what is unused. */
static VMCU_POOL_DEFINE(unused, DT_REG_SIZE(DT_CHOSEN(vmcu_pool)));

void vmcu_nobody_calls_this(void);

void vmcu_nobody_calls_this(void)
{
	unused[0] = 0;
}

/* In the same region, chosen here. */
static VMCU_POOL_DEFINE_IN(DT_CHOSEN(vmcu_pool), more, 16);
#endif

VMCU_MODEL_FITS(tiny, VMCU_MODEL_POOL_BYTES(tiny));

static const struct vmcu_pool pool = {.start = (int8_t *)bytes, .size = sizeof(bytes)};

static void expect_row(const struct vmcu_tensor *t, uint32_t y, uint32_t offset)
{
	zassert_equal_ptr(vmcu_row(&pool, t, y), &pool.start[offset], "row %u is not at %u", y,
			  offset);
}

ZTEST(vmcu_pool, test_whole_tensor)
{
	const struct vmcu_tensor t = {
		.base = 8, .ring = 48, .height = 4, .width = 4, .channels = 3};

	expect_row(&t, 0, 8);
	expect_row(&t, 1, 20);
	expect_row(&t, 3, 44);
}

ZTEST(vmcu_pool, test_ring_of_rows)
{
	const struct vmcu_tensor t = {
		.base = 10, .ring = 36, .height = 9, .width = 4, .channels = 3};

	for (uint32_t y = 0; y < t.height; y++) {
		expect_row(&t, y, 10 + (y % 3) * 12);
	}
}

ZTEST(vmcu_pool, test_wrap)
{
	const struct vmcu_tensor t = {
		.base = 76, .ring = 48, .height = 4, .width = 4, .channels = 3};

	/* The third row would start at the pool's very end, which is its start. */
	expect_row(&t, 0, 76);
	expect_row(&t, 1, 88);
	expect_row(&t, 2, 0);
	expect_row(&t, 3, 12);
}

ZTEST(vmcu_pool, test_ring_that_wraps)
{
	const struct vmcu_tensor t = {
		.base = 80, .ring = 30, .height = 8, .width = 5, .channels = 2};
	static const uint32_t offsets[] = {80, 90, 0, 80, 90, 0, 80, 90};

	for (uint32_t y = 0; y < t.height; y++) {
		expect_row(&t, y, offsets[y]);
	}
}

ZTEST(vmcu_pool, test_placement)
{
	zassert_equal((uintptr_t)bytes % VMCU_POOL_ALIGN, 0);
	zassert_equal(sizeof(bytes), 100);

#if DT_HAS_CHOSEN(vmcu_pool)
	uintptr_t start = DT_REG_ADDR(DT_CHOSEN(vmcu_pool));

	zassert_true((uintptr_t)bytes >= start);
	zassert_true((uintptr_t)bytes + sizeof(bytes) <= start + DT_REG_SIZE(DT_CHOSEN(vmcu_pool)));
	zassert_true((uintptr_t)more >= start);
	zassert_equal((uintptr_t)more % VMCU_POOL_ALIGN, 0);
#endif
}

ZTEST_SUITE(vmcu_pool, NULL, NULL, NULL, NULL, NULL);
