/*
 * SPDX-License-Identifier: Apache-2.0
 */

/* What make_containers.py writes. */

#ifndef CONTAINER_CONTAINERS_H_
#define CONTAINER_CONTAINERS_H_

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include <zephyr/toolchain.h>

#include <vmcu/container.h>

/** A container, its inputs one after the other, and its outputs. */
struct built {
	const char *name;
	const uint8_t *file;
	size_t size;
	const int8_t *inputs;
	const int8_t *outputs;
	bool online; /**< a device can plan it */
};

/** A container whose model keeps rows, a stream of them, and its answers one after the other. */
struct kept {
	const char *name;
	const uint8_t *file;
	size_t size;
	const int8_t *rows;
	const int8_t *answers;
	unsigned int row_count;
	unsigned int window;
	unsigned int hop;
};

/** A container with something wrong, and what it is refused by. */
struct damage {
	unsigned int of;           /**< which container it was */
	enum vmcu_planner planner; /**< how it is loaded */
	bool replay;
	int err;
	const char *what;
	int32_t index; /**< -1: any */
	/** What differs but the digest: where (2 bytes), how many bytes, these; then 0, 0, 0. */
	const uint8_t *runs;
};

extern const struct built built[];
extern const unsigned int built_count;

extern const struct kept kept[];
extern const unsigned int kept_count;

extern const struct damage damages[];
extern const unsigned int damage_count;

#endif /* CONTAINER_CONTAINERS_H_ */
