/*
 * SPDX-License-Identifier: Apache-2.0
 */

/**
 * @file
 * @brief Plans that are made on the device, of layers one by one and whole tensors.
 *
 * A plan needs no trust: it is checked as the container's own tables are.
 */

#ifndef VMCU_ONLINE_H_
#define VMCU_ONLINE_H_

#include <stdbool.h>
#include <stdint.h>

#include "load.h"

/** A layer, as a planner sees it. */
struct vmcu_container_step {
	uint32_t scratch;  /**< bytes of the pool that it takes, 0: none */
	uint16_t distance; /**< that of its first input; those of the others follow */
	uint8_t descends;  /**< 1: it may run from the last row to the first */
	uint8_t reserved;
};

/**
 * How near a layer's output may come to an input that dies in it: distances, of the input's address
 * from the output's, from `below` on and up to `above` are safe. [0]: from the first row to the
 * last, [1]: the other way.
 */
struct vmcu_container_distance {
	int32_t below[2];
	int32_t above[2];
};

/** Step 0 is before the first layer, 1 the first layer; the outputs live until after the last. */
struct vmcu_buffer {
	int32_t size;
	int32_t base;
	uint16_t first;
	uint16_t last;
};

/** The model that is planned, and the data for it. The arrays have an entry for each tensor. */
struct vmcu_online {
	const struct vmcu_model *model;
	const struct vmcu_container_step *steps;
	const struct vmcu_container_distance *distances;
	struct vmcu_tensor *tensors;
	struct vmcu_layer *layers;
	struct vmcu_buffer *buffers;
	uint16_t *order; /**< tensors: inputs, then outputs layer by layer */
	uint16_t *work;  /**< for a planner */
	uint32_t count;  /**< of tensors */
	int32_t pool;    /**< bytes that the plan needs */
};

/** The larger of two. */
static inline int32_t vmcu_online_larger(int32_t a, int32_t b)
{
	return (a > b) ? a : b;
}

/** Up to a multiple of @a unit, a power of two. */
static inline int32_t vmcu_online_up(int32_t x, int32_t unit)
{
	return (x + unit - 1) & ~(unit - 1);
}

/**
 * @brief The lowest place for a layer's scratch, beside the tensors that are alive at its step.
 *
 * @return -1 if there is none in a pool of @a pool bytes.
 */
int32_t vmcu_online_gap(const struct vmcu_online *o, uint32_t layer, int32_t pool);

/** Plans as TensorFlow Lite Micro's GreedyMemoryPlanner does, scratch beside it or on top. */
void vmcu_online_greedy(struct vmcu_online *o);

/**
 * @brief Plans layers that overlap, in the bytes of the worst of them.
 *
 * @return False if that is not found: branches stand in the way.
 */
bool vmcu_online_segments(struct vmcu_online *o);

/** Makes a plan and the tables that it is in. 1: greedy, though segments are asked for. */
int vmcu_online_plan(struct vmcu_model *model, struct vmcu_loading *l, enum vmcu_planner how);

#endif /* VMCU_ONLINE_H_ */
