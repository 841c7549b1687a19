/*
 * SPDX-License-Identifier: Apache-2.0
 */

/**
 * @file
 * @brief Flash partitions. The test defines the functions.
 */

#ifndef TEST_ZEPHYR_FLASH_MAP_H_
#define TEST_ZEPHYR_FLASH_MAP_H_

#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>

struct flash_area {
	uint8_t fa_id;
	size_t fa_size;
};

int flash_area_open(uint8_t id, const struct flash_area **area);
void flash_area_close(const struct flash_area *area);
int flash_area_read(const struct flash_area *area, off_t at, void *to, size_t size);
int flash_area_write(const struct flash_area *area, off_t at, const void *from, size_t size);
int flash_area_erase(const struct flash_area *area, off_t at, size_t size);
uint32_t flash_area_align(const struct flash_area *area);
uint8_t flash_area_erased_val(const struct flash_area *area);

#endif /* TEST_ZEPHYR_FLASH_MAP_H_ */
