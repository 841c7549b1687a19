/*
 * SPDX-License-Identifier: Apache-2.0
 */

/**
 * @file
 * @brief Attributes, for tests on this computer.
 */

#ifndef TEST_ZEPHYR_TOOLCHAIN_H_
#define TEST_ZEPHYR_TOOLCHAIN_H_

#define __weak __attribute__((weak))

#endif /* TEST_ZEPHYR_TOOLCHAIN_H_ */
