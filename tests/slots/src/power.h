/*
 * SPDX-License-Identifier: Apache-2.0
 */

/** @file @brief A supply that fails while flash is written or erased. */

#ifndef TEST_POWER_H_
#define TEST_POWER_H_

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/** How much of the operation that it fails in is done. */
enum power_cut {
	POWER_CUT_BEFORE, /**< nothing */
	POWER_CUT_WITHIN, /**< a half, and bits of what comes next */
	POWER_CUT_AFTER,  /**< all, but nobody learns of it */
	POWER_CUTS,
};

/** Fails in operation @a number, from 0 on: a write, or one page of an erasure. */
void power_fail_at(unsigned int number, enum power_cut cut);

/** Comes back, and stays. Returns whether it had failed. */
bool power_on(void);

/** Bits of mapped flash change on their own; skips the test where flash is not simulated. */
void flash_rots(const void *mapped, size_t at, uint8_t bits);

#endif /* TEST_POWER_H_ */
