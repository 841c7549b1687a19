/*
 * SPDX-License-Identifier: Apache-2.0
 */

/**
 * @file
 * @brief A serial flash that is not memory-mapped: a file of the host, with latency and bandwidth.
 */

#ifndef SIMULATED_FLASH_H_
#define SIMULATED_FLASH_H_

#include <stddef.h>
#include <stdint.h>

enum fault {
	FAULT_NONE,
	FAULT_ERROR, /**< the read fails */
	FAULT_SHORT, /**< the last byte is missing */
};

struct simulated_flash {
	const char *path;
	uint32_t bytes_per_ms;
	uint32_t latency_us;
	enum fault fault;
	uint32_t fault_at; /**< offset of the read with the fault */
	uint64_t busy_us;  /**< time of all reads */
};

/** @brief Reads as vmcu/weights.h requires; @a source is a struct simulated_flash. */
int simulated_flash_read(void *source, uint32_t offset, void *to, size_t bytes);

#endif /* SIMULATED_FLASH_H_ */
