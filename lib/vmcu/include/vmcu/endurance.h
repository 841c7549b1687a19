/*
 * SPDX-License-Identifier: Apache-2.0
 */

/**
 * @file
 * @brief Stacks that move in a heap of their own, so that no word of a memory that wears out is
 * written more often than others.
 *
 * Addresses only: nothing here touches the heap's memory. See doc/endurance.md for what the
 * policies are worth, and vmcu/worker.h for threads of Zephyr whose stacks move.
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

/** How the next place of a stack is chosen. */
enum vmcu_stack_policy {
	/** All places in turn, by a step that has no divisor in common with their number. */
	VMCU_STACK_WALK,
	/**
	 * Circular allocation by three states, after "Improving NVM Lifetime Using Task Stack
	 * Migration on Low-End MCU-Based Devices" (Lee et al., IEEE Access 2022): a piece that a
	 * stack leaves waits in a queue, whose oldest becomes free when a search finds nothing; a
	 * stride of random size goes before each stack.
	 */
	VMCU_STACK_CIRCULAR,
};

/** What stays the same for a heap. Sizes in bytes; those from @a header on: circular only. */
struct vmcu_stack_setting {
	uint32_t bytes;       /**< of the heap */
	uint32_t align;       /**< between places */
	uint32_t threshold;   /**< running time, in any unit, before a stack is due to move */
	uint32_t header;      /**< in front of each piece */
	uint32_t stride_size; /**< of a stride, at most; 0: no strides */
	uint8_t stride_depth; /**< searches for a stride, at most */
	uint8_t depth;        /**< searches for a stack, or places looked at, at most */
	uint8_t policy;       /**< enum vmcu_stack_policy */
	bool largest;         /**< search for the largest free piece, not the lowest that fits */
	bool merge;           /**< what stacks leave joins waiting neighbours */
	bool redraw;          /**< each search for a stride has a size of its own */
};

/** A stack that lives in a heap. The caller owns it and reads @a start and @a size only. */
struct vmcu_stack {
	struct vmcu_stack *next;
	uint32_t start; /**< from the heap's, in bytes */
	uint32_t size;  /**< header and rounding included */
	uint32_t ran;   /**< since it came here */
	uint32_t place;
	uint32_t step;
};

/** A piece of a circular heap. */
struct vmcu_stack_block {
	uint32_t start;
	uint32_t size;
	uint32_t stamp; /**< the queue's order */
	uint8_t state;
};

/** What has been done, for reports and tests. */
struct vmcu_stack_counts {
	uint32_t attempts;
	uint32_t moves;
	uint32_t stride_attempts;
	uint32_t strides;
	uint32_t numbers;  /**< random numbers drawn */
	uint32_t firsts;   /**< first searches */
	uint32_t searches; /**< further ones */
	uint32_t conversions;
	uint32_t looks; /**< blocks, stacks and places looked at or shifted: bounded work */
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
	uint32_t
		*headers; /**< NULL, or by word of the heap: how often a header was written there */
	struct vmcu_stack_counts counts;
};

/**
 * @brief Empties a heap.
 *
 * @param stacks  The heap.
 * @param setting Kept by reference.
 * @param blocks  For the circular policy, which needs three for each stack at least and strides
 *                as many as fit; where there are too few, stacks take whole pieces. Else NULL.
 * @param room    Length of @a blocks.
 * @param seed    Of random numbers; not 0.
 *
 * @retval 0       Ready.
 * @retval -EINVAL An alignment, depth or seed of 0, or a circular heap without blocks.
 */
int vmcu_stacks_init(struct vmcu_stacks *stacks, const struct vmcu_stack_setting *setting,
		     struct vmcu_stack_block *blocks, uint16_t room, uint64_t seed);

/**
 * @brief Puts a stack of @a bytes bytes at the lowest place that is not taken.
 *
 * @retval 0       @a stack->start is where.
 * @retval -ENOMEM There is no room for it.
 */
int vmcu_stacks_add(struct vmcu_stacks *stacks, struct vmcu_stack *stack, uint32_t bytes);

/**
 * @brief Lets a stack that has not moved yet go on as if it had moved @a moves times.
 *
 * For systems that restart often, with a count that outlives a restart. A circular heap takes
 * another seed instead.
 */
void vmcu_stacks_resume(const struct vmcu_stacks *stacks, struct vmcu_stack *stack, uint32_t moves);

/** @brief Gives a stack's place back. */
void vmcu_stacks_remove(struct vmcu_stacks *stacks, struct vmcu_stack *stack);

/**
 * @brief Adds to a stack's running time.
 *
 * @return True if it is due to move: it has run for the threshold where it is.
 */
bool vmcu_stacks_ran(const struct vmcu_stacks *stacks, struct vmcu_stack *stack, uint32_t time);

/**
 * @brief Moves a stack to its next place, which may overlap the one it leaves: nothing may be live
 * on it.
 *
 * Looks at no more than vmcu_stacks_bound() says.
 *
 * @retval 0       @a stack->start is new.
 * @retval -EAGAIN No place was found within the depth; the stack stays.
 */
int vmcu_stacks_move(struct vmcu_stacks *stacks, struct vmcu_stack *stack);

/** @brief The most that a move adds to counts.looks while @a live stacks are in the heap. */
uint32_t vmcu_stacks_bound(const struct vmcu_stacks *stacks, uint32_t live);

/** @} */

#ifdef __cplusplus
}
#endif

#endif /* VMCU_ENDURANCE_H_ */
