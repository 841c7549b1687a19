/*
 * SPDX-License-Identifier: Apache-2.0
 */

/**
 * @file
 * @brief Little-endian numbers in bytes, for tests on this computer.
 */

#ifndef TEST_ZEPHYR_BYTEORDER_H_
#define TEST_ZEPHYR_BYTEORDER_H_

#include <stdint.h>
#include <string.h>

static inline uint32_t sys_get_le32(const uint8_t *bytes)
{
	uint32_t value;

	(void)memcpy(&value, bytes, sizeof(value));
	return value;
}

static inline void sys_put_le32(uint32_t value, uint8_t *bytes)
{
	(void)memcpy(bytes, &value, sizeof(value));
}

#endif /* TEST_ZEPHYR_BYTEORDER_H_ */
