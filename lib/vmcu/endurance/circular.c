/*
 * SPDX-License-Identifier: Apache-2.0
 */

#include <errno.h>
#include <stddef.h>

#include "circular.h"

#define NONE UINT16_MAX

/** The bytes that the paper's heap, FreeRTOS's heap_4, leaves in one piece: two headers. */
static uint32_t least_rest(const struct vmcu_stack_setting *set)
{
	return (set->header > 0U) ? 2U * set->header : set->align;
}

static uint32_t draw_number(struct vmcu_stacks *stacks)
{
	uint64_t x = stacks->random;

	x ^= x >> 12;
	x ^= x << 25;
	x ^= x >> 27;
	stacks->random = x;
	stacks->counts.numbers++;
	return (uint32_t)((x * UINT64_C(2685821657736338717)) >> 33);
}

static uint32_t round_up(const struct vmcu_stack_setting *set, uint32_t bytes)
{
	return (bytes + set->header + set->align - 1U) / set->align * set->align;
}

static void header_written(const struct vmcu_stacks *stacks, uint32_t start)
{
	if (stacks->headers != NULL) {
		stacks->headers[start / sizeof(uint32_t)]++;
	}
}

static void insert_block(struct vmcu_stacks *stacks, uint16_t at, struct vmcu_stack_block block)
{
	for (uint16_t i = stacks->count; i > at; i--) {
		stacks->blocks[i] = stacks->blocks[i - 1U];
		stacks->counts.looks++;
	}
	stacks->blocks[at] = block;
	stacks->count++;
}

static void erase_block(struct vmcu_stacks *stacks, uint16_t at)
{
	stacks->count--;
	for (uint16_t i = at; i < stacks->count; i++) {
		stacks->blocks[i] = stacks->blocks[i + 1U];
		stacks->counts.looks++;
	}
}

/** Index of the free block for @a size bytes, or NONE. */
static uint16_t find_free(struct vmcu_stacks *stacks, uint32_t size)
{
	uint16_t found = NONE;

	for (uint16_t i = 0; i < stacks->count; i++) {
		const struct vmcu_stack_block *block = &stacks->blocks[i];

		stacks->counts.looks++;
		if (block->state != VMCU_BLOCK_FREE || block->size < size) {
			continue;
		}
		if (!stacks->setting->largest) {
			return i;
		}
		if (found == NONE || block->size > stacks->blocks[found].size) {
			found = i;
		}
	}
	return found;
}

/** Takes @a size bytes from the low end of a free block, or all of it where blocks run out. */
static void take_block(struct vmcu_stacks *stacks, uint16_t at, uint32_t size)
{
	struct vmcu_stack_block *block = &stacks->blocks[at];
	struct vmcu_stack_block rest = *block;

	header_written(stacks, block->start);
	block->state = VMCU_BLOCK_TAKEN;
	if (rest.size - size >= least_rest(stacks->setting) && stacks->count < stacks->room) {
		block->size = size;
		rest.start += size;
		rest.size -= size;
		header_written(stacks, rest.start);
		insert_block(stacks, (uint16_t)(at + 1U), rest);
	}
}

/** Joins a block with neighbours of its state; the lowest header stays. Returns its index. */
static uint16_t join_neighbours(struct vmcu_stacks *stacks, uint16_t at)
{
	struct vmcu_stack_block *blocks = stacks->blocks;

	if (at + 1U < stacks->count && blocks[at + 1U].state == blocks[at].state) {
		blocks[at].size += blocks[at + 1U].size;
		erase_block(stacks, (uint16_t)(at + 1U));
	}
	if (at > 0U && blocks[at - 1U].state == blocks[at].state) {
		blocks[at - 1U].size += blocks[at].size;
		erase_block(stacks, at);
		at--;
	}
	return at;
}

/** A taken block waits, the last in the queue unless it joins one below it. */
static void release_block(struct vmcu_stacks *stacks, uint16_t at, bool merge)
{
	stacks->blocks[at].state = VMCU_BLOCK_WAITING;
	stacks->blocks[at].stamp = stacks->clock++;
	if (merge) {
		at = join_neighbours(stacks, at);
	}
	header_written(stacks, stacks->blocks[at].start);
}

static uint16_t index_of(struct vmcu_stacks *stacks, uint32_t start)
{
	uint16_t at = 0;

	while (stacks->blocks[at].start != start) {
		stacks->counts.looks++;
		at++;
	}
	return at;
}

/** The oldest of the queue becomes free, joined with free neighbours. False: none waits. */
static bool free_oldest(struct vmcu_stacks *stacks)
{
	uint16_t oldest = NONE;
	uint32_t age = 0;

	stacks->counts.conversions++;
	for (uint16_t i = 0; i < stacks->count; i++) {
		const struct vmcu_stack_block *block = &stacks->blocks[i];

		stacks->counts.looks++;
		/* Ages, not stamps: the clock may have gone round. */
		if (block->state == VMCU_BLOCK_WAITING && stacks->clock - block->stamp > age) {
			age = stacks->clock - block->stamp;
			oldest = i;
		}
	}
	if (oldest == NONE) {
		return false;
	}
	stacks->blocks[oldest].state = VMCU_BLOCK_FREE;
	oldest = join_neighbours(stacks, oldest);
	header_written(stacks, stacks->blocks[oldest].start);
	return true;
}

static uint32_t draw_stride(struct vmcu_stacks *stacks)
{
	return round_up(stacks->setting, 1U + draw_number(stacks) % stacks->setting->stride_size);
}

/** Searches and converts up to @a depth times. Returns a free block's index or NONE. */
static uint16_t obtain_block(struct vmcu_stacks *stacks, uint32_t *size, uint32_t depth,
			     bool redraw)
{
	for (uint32_t turn = 0; turn < depth; turn++) {
		uint16_t at;

		if (turn == 0U) {
			stacks->counts.firsts++;
		} else {
			stacks->counts.searches++;
			*size = redraw ? draw_stride(stacks) : *size;
		}
		at = find_free(stacks, *size);
		if (at != NONE) {
			return at;
		}
		(void)free_oldest(stacks);
	}
	return NONE;
}

/** A stride is left at once: it only moves the blocks after it. */
static void make_stride(struct vmcu_stacks *stacks)
{
	const struct vmcu_stack_setting *set = stacks->setting;
	uint32_t size = draw_stride(stacks);
	uint16_t at;

	stacks->counts.stride_attempts++;
	at = obtain_block(stacks, &size, set->stride_depth, set->redraw);
	if (at != NONE) {
		take_block(stacks, at, size);
		/* Strides that joined each other would come back in one piece. */
		release_block(stacks, at, false);
		stacks->counts.strides++;
	}
}

void vmcu_circular_init(struct vmcu_stacks *stacks)
{
	stacks->blocks[0] = (struct vmcu_stack_block){
		.size = stacks->setting->bytes,
		.state = VMCU_BLOCK_FREE,
	};
	stacks->count = 1U;
	stacks->clock = 0U;
}

int vmcu_circular_add(struct vmcu_stacks *stacks, struct vmcu_stack *stack, uint32_t bytes)
{
	const uint32_t size = round_up(stacks->setting, bytes);
	uint16_t at = find_free(stacks, size);

	while (at == NONE && free_oldest(stacks)) {
		at = find_free(stacks, size);
	}
	if (at == NONE) {
		return -ENOMEM;
	}
	stack->start = stacks->blocks[at].start;
	stack->size = size;
	take_block(stacks, at, size);
	return 0;
}

void vmcu_circular_remove(struct vmcu_stacks *stacks, const struct vmcu_stack *stack)
{
	release_block(stacks, index_of(stacks, stack->start), stacks->setting->merge);
}

bool vmcu_circular_move(struct vmcu_stacks *stacks, struct vmcu_stack *stack)
{
	const uint32_t old = stack->start;
	uint16_t at;

	if (stacks->setting->stride_size > 0U) {
		make_stride(stacks);
	}
	at = obtain_block(stacks, &stack->size, stacks->setting->depth, false);
	if (at == NONE) {
		return false;
	}
	stack->start = stacks->blocks[at].start;
	take_block(stacks, at, stack->size);
	release_block(stacks, index_of(stacks, old), stacks->setting->merge);
	return true;
}

uint32_t vmcu_circular_bound(const struct vmcu_stacks *stacks)
{
	const struct vmcu_stack_setting *set = stacks->setting;
	/* A search looks at each block; a conversion does too, and shifts them twice. */
	const uint32_t turns =
		(set->stride_size > 0U) ? (uint32_t)set->stride_depth + set->depth : set->depth;

	/* A stride and a stack are split off; then the old block is found and joined. */
	return (4U * turns + 2U + 3U) * stacks->room;
}
