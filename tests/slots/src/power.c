/*
 * SPDX-License-Identifier: Apache-2.0
 */

#include <errno.h>

#include <zephyr/drivers/flash.h>
#include <zephyr/storage/flash_map.h>
#include <zephyr/sys/util.h>
#include <zephyr/ztest.h>

#if defined(CONFIG_FLASH_SIMULATOR)
#include <zephyr/drivers/flash/flash_simulator.h>
#endif

#include "power.h"

static struct {
	bool armed;
	bool off;
	unsigned int left;
	enum power_cut cut;
} power;

int __real_flash_area_write(const struct flash_area *area, off_t at, const void *data, size_t size);
int __real_flash_area_erase(const struct flash_area *area, off_t at, size_t size);

void power_fail_at(unsigned int number, enum power_cut cut)
{
	power.armed = true;
	power.off = false;
	power.left = number;
	power.cut = cut;
}

bool power_on(void)
{
	const bool failed = power.off;

	power.armed = false;
	power.off = false;
	return failed;
}

/** True if this is the operation that power fails in. */
static bool fails_now(void)
{
	return power.armed && power.left-- == 0U;
}

#if defined(CONFIG_FLASH_SIMULATOR)
/** The bytes of the flash themselves. */
static uint8_t *memory_of(const struct flash_area *area, off_t at)
{
	size_t size;
	uint8_t *memory = flash_simulator_get_memory(flash_area_get_device(area), &size);

	return &memory[area->fa_off + at];
}

/** Writes a part: what is done is half, and of the next byte the bits that were quick. */
static void write_half(const struct flash_area *area, off_t at, const uint8_t *data, size_t size)
{
	uint8_t *memory = memory_of(area, at);

	for (size_t i = 0; i < size / 2U; i++) {
		memory[i] &= data[i];
	}
	memory[size / 2U] &= data[size / 2U] | 0x5aU;
}

/** Erases a part of a page: some bits of it have changed. */
static void erase_half(const struct flash_area *area, off_t at, size_t size)
{
	uint8_t *memory = memory_of(area, at);

	for (size_t i = 0; i < size; i++) {
		memory[i] |= (i < size / 2U) ? 0xffU : 0x24U;
	}
}
#else
/* A board's own flash has no half blocks: power fails between two of them. */

static void write_half(const struct flash_area *area, off_t at, const uint8_t *data, size_t size)
{
	(void)__real_flash_area_write(area, at, data,
				      ROUND_DOWN(size / 2U, flash_area_align(area)));
}

static void erase_half(const struct flash_area *area, off_t at, size_t size)
{
	ARG_UNUSED(area);
	ARG_UNUSED(at);
	ARG_UNUSED(size);
}
#endif

void flash_rots(const void *mapped, size_t at, uint8_t bits)
{
	if (!IS_ENABLED(CONFIG_FLASH_SIMULATOR)) {
		ztest_test_skip();
	}
	((uint8_t *)(uintptr_t)mapped)[at] ^= bits;
}

int __wrap_flash_area_write(const struct flash_area *area, off_t at, const void *data, size_t size);
int __wrap_flash_area_erase(const struct flash_area *area, off_t at, size_t size);

int __wrap_flash_area_write(const struct flash_area *area, off_t at, const void *data, size_t size)
{
	if (power.off) {
		return -EIO;
	}
	if (!fails_now()) {
		return __real_flash_area_write(area, at, data, size);
	}
	power.off = true;
	if (power.cut == POWER_CUT_WITHIN) {
		write_half(area, at, data, size);
	} else if (power.cut == POWER_CUT_AFTER) {
		(void)__real_flash_area_write(area, at, data, size);
	}
	return -EIO;
}

int __wrap_flash_area_erase(const struct flash_area *area, off_t at, size_t size)
{
	const off_t end = at + (off_t)size;
	struct flash_pages_info page;

	while (at < end) {
		int err = flash_get_page_info_by_offs(flash_area_get_device(area),
						      area->fa_off + at, &page);

		if (err != 0 || power.off) {
			return -EIO;
		}
		if (fails_now()) {
			power.off = true;
			if (power.cut == POWER_CUT_WITHIN) {
				erase_half(area, at, page.size);
				return -EIO;
			}
			if (power.cut == POWER_CUT_BEFORE) {
				return -EIO;
			}
		}
		err = __real_flash_area_erase(area, at, page.size);
		if (err != 0) {
			return err;
		}
		at += (off_t)page.size;
	}
	return power.off ? -EIO : 0;
}
