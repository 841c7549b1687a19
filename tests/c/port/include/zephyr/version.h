/*
 * SPDX-License-Identifier: Apache-2.0
 */

/**
 * @file
 * @brief A version that has named trace events.
 */

#ifndef TEST_ZEPHYR_VERSION_H_
#define TEST_ZEPHYR_VERSION_H_

#define KERNEL_VERSION_NUMBER 0x040100

#endif /* TEST_ZEPHYR_VERSION_H_ */
