/*
 * SPDX-License-Identifier: Apache-2.0
 */

/**
 * @file
 * @brief CRC-32 as Zephyr computes it, for tests on this computer.
 */

#ifndef TEST_ZEPHYR_CRC_H_
#define TEST_ZEPHYR_CRC_H_

#include <stddef.h>
#include <stdint.h>

static inline uint32_t crc32_ieee(const uint8_t *data, size_t size)
{
	uint32_t crc = UINT32_MAX;

	for (size_t i = 0; i < size; i++) {
		crc ^= data[i];
		for (int bit = 0; bit < 8; bit++) {
			crc = (crc >> 1) ^ (((crc & 1U) != 0U) ? 0xedb88320U : 0U);
		}
	}
	return ~crc;
}

#endif /* TEST_ZEPHYR_CRC_H_ */
