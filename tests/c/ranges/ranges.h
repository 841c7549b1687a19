/*
 * SPDX-License-Identifier: Apache-2.0
 */

/**
 * @file
 * @brief Calls of kernels for ranges of columns, as tests/python/test_ranges.py draws them.
 */

#ifndef VMCU_TESTS_RANGES_H_
#define VMCU_TESTS_RANGES_H_

#include <stddef.h>
#include <stdint.h>

#define RANGE_POOL_BYTES 8192
#define RANGE_INPUTS     3

/** A ring, and the pixels of a tensor that a call may read in it: rows `step` apart. */
struct range_view {
	uint16_t base;
	uint16_t ring;
	uint16_t phase;
	uint16_t row;
	uint16_t rows;
	uint16_t step;
	uint16_t column;
	uint16_t columns;
};

/** One call of a layer's kernel; `out` has the pixels to compute. */
struct range_call {
	uint16_t layer;
	struct range_view out;
	struct range_view inputs[RANGE_INPUTS];
};

extern const struct range_call range_calls[];
extern const size_t range_count;

#endif /* VMCU_TESTS_RANGES_H_ */
