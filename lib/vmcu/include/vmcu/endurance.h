/*
 * SPDX-License-Identifier: Apache-2.0
 */

/**
 * @file
 * @brief Stacks that move within a heap, to spread the writes in a memory that wears out.
 *
 * These functions compute offsets only. They do not access the heap's memory. doc/endurance.md
 * compares the policies. vmcu/worker.h has Zephyr threads whose stacks move.
 */

#ifndef VMCU_ENDURANCE_H_
#define VMCU_ENDURANCE_H_

#include <stdbool.h>
#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif

/**
 * @defgroup vmcu_endurance Stacks that move
 * @{
 */

/** The policy that selects the next position of a stack. */
enum vmcu_stack_policy {
	/** Visits all positions with a step that is coprime to their number. */
	VMCU_STACK_WALK,
	/**
	 * Circular allocation with three states, after "Improving NVM Lifetime Using Task Stack
	 * Migration on Low-End MCU-Based Devices" (Lee et al., IEEE Access 2022). A block that a
	 * stack leaves waits in a queue. If a search finds no free block, the oldest one in the
	 * queue becomes free. Before each stack, the policy allocates a stride of random size.
	 */
	VMCU_STACK_CIRCULAR,
};

/** Constant settings of a heap. Sizes are in bytes. Only the circular policy uses @a header and the
 * strides, @a largest, @a merge and @a redraw.
 */
struct vmcu_stack_setting {
	uint32_t bytes;       /**< size of the heap */
	uint32_t align;       /**< distance between positions */
	uint32_t threshold;   /**< running time, in any unit, before a stack is due to move */
	uint32_t header;      /**< bytes before each block */
	uint32_t stride_size; /**< largest stride; 0: no strides */
	uint8_t stride_depth; /**< most searches for a stride */
	uint8_t depth;        /**< most searches, or most positions tried, for a stack */
	uint8_t policy;       /**< enum vmcu_stack_policy */
	bool largest;         /**< select the largest free block, not the lowest that fits */
	bool merge;           /**< join a released block with waiting neighbours */
	bool redraw;          /**< draw another size for each search for a stride */
};

/** A stack in a heap. The caller owns it and can read @a start and @a size. */
struct vmcu_stack {
	struct vmcu_stack *next;
	uint32_t start; /**< offset in the heap, in bytes */
	uint32_t size;  /**< bytes, with header and rounding */
	uint32_t ran;   /**< running time at this position */
	uint32_t place;
	uint32_t step;
};

/** A block of a circular heap. */
struct vmcu_stack_block {
	uint32_t start;
	uint32_t size;
	uint32_t stamp; /**< order in the queue */
	uint8_t state;
};

/** Counters for reports and tests. */
struct vmcu_stack_counts {
	uint32_t attempts;
	uint32_t moves;
	uint32_t stride_attempts;
	uint32_t strides;
	uint32_t numbers;  /**< random numbers drawn */
	uint32_t firsts;   /**< first searches */
	uint32_t searches; /**< further searches */
	uint32_t conversions;
	uint32_t looks; /**< visited or shifted blocks, stacks and positions: vmcu_stacks_bound() */
};

/** A heap of stacks. Calls for the same heap must not overlap. */
struct vmcu_stacks {
	const struct vmcu_stack_setting *setting;
	struct vmcu_stack *first;
	struct vmcu_stack_block *blocks;
	uint16_t room;
	uint16_t count;
	uint32_t clock;
	uint64_t random;
	uint32_t *headers; /**< NULL, or for each word of the heap: header writes */
	struct vmcu_stack_counts counts;
};

/**
 * @brief Sets up an empty heap.
 *
 * @param stacks  Heap to set up.
 * @param setting Settings. They must exist as long as the heap.
 * @param blocks  Array for the circular policy, at least three blocks for each stack and more for
 *                strides. If it is full, a stack uses a whole free block. Other policies: NULL.
 * @param room    Length of @a blocks.
 * @param seed    Seed of the random numbers, not 0.
 *
 * @retval 0       Ready.
 * @retval -EINVAL The alignment, a depth or the seed is 0, or a circular heap has no blocks.
 */
int vmcu_stacks_init(struct vmcu_stacks *stacks, const struct vmcu_stack_setting *setting,
		     struct vmcu_stack_block *blocks, uint16_t room, uint64_t seed);

/**
 * @brief Allocates a stack of @a bytes bytes at the lowest free position.
 *
 * The heap uses @a stack until vmcu_stacks_remove().
 *
 * @retval 0       @a stack->start is the offset.
 * @retval -ENOMEM No free position is large enough.
 */
int vmcu_stacks_add(struct vmcu_stacks *stacks, struct vmcu_stack *stack, uint32_t bytes);

/**
 * @brief Sets a stack's position to the one after @a moves moves. Call it before its first move.
 *
 * For systems that restart often, with a count that survives restarts. For a circular heap, use
 * another seed instead.
 */
void vmcu_stacks_resume(const struct vmcu_stacks *stacks, struct vmcu_stack *stack, uint32_t moves);

/** @brief Removes a stack from its heap and frees its bytes. */
void vmcu_stacks_remove(struct vmcu_stacks *stacks, struct vmcu_stack *stack);

/**
 * @brief Adds to a stack's running time.
 *
 * @param stacks The heap.
 * @param stack  The stack that was in use.
 * @param time   Running time to add, in the unit of the threshold.
 *
 * @return True if the stack is due to move: its running time at this position has reached the
 *         threshold.
 */
bool vmcu_stacks_ran(const struct vmcu_stacks *stacks, struct vmcu_stack *stack, uint32_t time);

/**
 * @brief Moves a stack to its next position.
 *
 * The next position can overlap the previous one, and the call copies no bytes: the stack must not
 * contain live data. vmcu_stacks_bound() limits the work.
 *
 * @retval 0       @a stack->start is the next offset.
 * @retval -EAGAIN The search found no position within the depth; the stack does not move.
 */
int vmcu_stacks_move(struct vmcu_stacks *stacks, struct vmcu_stack *stack);

/** @brief Returns the most that a move adds to counts.looks with @a live stacks in the heap. */
uint32_t vmcu_stacks_bound(const struct vmcu_stacks *stacks, uint32_t live);

/** @} */

#ifdef __cplusplus
}
#endif

#endif /* VMCU_ENDURANCE_H_ */
