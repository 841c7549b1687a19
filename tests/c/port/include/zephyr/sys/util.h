/*
 * SPDX-License-Identifier: Apache-2.0
 */

/**
 * @file
 * @brief The macros of Zephyr that the port uses, for tests on this computer.
 */

#ifndef TEST_ZEPHYR_UTIL_H_
#define TEST_ZEPHYR_UTIL_H_

#include <stddef.h>
#include <sys/types.h>

#define MIN(a, b)               (((a) < (b)) ? (a) : (b))
#define MAX(a, b)               (((a) > (b)) ? (a) : (b))
#define ARRAY_SIZE(array)       (sizeof(array) / sizeof((array)[0]))
#define ROUND_UP(x, align)      (((x) + (align) - 1U) / (align) * (align))
#define BUILD_ASSERT(condition) _Static_assert(condition, "")
#define ARG_UNUSED(x)           (void)(x)
#define CONTAINER_OF(member, type, field)                                                          \
	((type *)(void *)((char *)(member) - offsetof(type, field)))

#endif /* TEST_ZEPHYR_UTIL_H_ */
