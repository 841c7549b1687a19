/*
 * SPDX-License-Identifier: Apache-2.0
 */

/**
 * @file
 * @brief Circular allocation by three states.
 */

#ifndef VMCU_CIRCULAR_H_
#define VMCU_CIRCULAR_H_

#include <vmcu/endurance.h>

/** Of a block; no two neighbours are free. */
enum vmcu_block_state {
	VMCU_BLOCK_FREE,
	VMCU_BLOCK_WAITING,
	VMCU_BLOCK_TAKEN,
};

/** One free block. */
void vmcu_circular_init(struct vmcu_stacks *stacks);

/** Takes the first stack's place: 0 or -ENOMEM. */
int vmcu_circular_add(struct vmcu_stacks *stacks, struct vmcu_stack *stack, uint32_t bytes);

void vmcu_circular_remove(struct vmcu_stacks *stacks, const struct vmcu_stack *stack);

/** A stride, then the stack; true if it moved. */
bool vmcu_circular_move(struct vmcu_stacks *stacks, struct vmcu_stack *stack);

uint32_t vmcu_circular_bound(const struct vmcu_stacks *stacks);

#endif /* VMCU_CIRCULAR_H_ */
