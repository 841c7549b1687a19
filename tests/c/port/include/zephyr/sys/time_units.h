/*
 * SPDX-License-Identifier: Apache-2.0
 */

/** @file @brief A core of 8 MHz. */

#ifndef TEST_ZEPHYR_TIME_UNITS_H_
#define TEST_ZEPHYR_TIME_UNITS_H_

#include <stdint.h>

static inline uint64_t k_cyc_to_us_near64(uint64_t cycles)
{
	return (cycles + 4U) / 8U;
}

#endif /* TEST_ZEPHYR_TIME_UNITS_H_ */
