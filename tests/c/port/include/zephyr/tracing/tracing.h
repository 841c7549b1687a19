/*
 * SPDX-License-Identifier: Apache-2.0
 */

/**
 * @file
 * @brief Named events. The test defines the function.
 */

#ifndef TEST_ZEPHYR_TRACING_H_
#define TEST_ZEPHYR_TRACING_H_

#include <stdint.h>

void sys_trace_named_event(const char *name, uint32_t arg0, uint32_t arg1);

#endif /* TEST_ZEPHYR_TRACING_H_ */
