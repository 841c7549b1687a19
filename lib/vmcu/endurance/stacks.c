/*
 * SPDX-License-Identifier: Apache-2.0
 */

#include <errno.h>
#include <stddef.h>

#include "circular.h"

int vmcu_stacks_init(struct vmcu_stacks *stacks, const struct vmcu_stack_setting *setting,
		     struct vmcu_stack_block *blocks, uint16_t room, uint64_t seed)
{
	const bool circular = setting->policy == (uint8_t)VMCU_STACK_CIRCULAR;

	if (setting->align == 0U || setting->depth == 0U || seed == 0U ||
	    (circular && (blocks == NULL || room == 0U)) ||
	    (circular && setting->stride_size > 0U && setting->stride_depth == 0U)) {
		return -EINVAL;
	}
	*stacks = (struct vmcu_stacks){
		.setting = setting,
		.blocks = blocks,
		.room = room,
		.random = seed,
	};
	if (circular) {
		vmcu_circular_init(stacks);
	}
	return 0;
}

/** The end of a live stack other than @a mine that lies on bytes from @a start on, or 0. */
static uint32_t in_the_way(struct vmcu_stacks *stacks, const struct vmcu_stack *mine,
			   uint32_t start)
{
	for (const struct vmcu_stack *s = stacks->first; s != NULL; s = s->next) {
		stacks->counts.looks++;
		if (s != mine && start < s->start + s->size && s->start < start + mine->size) {
			return s->start + s->size;
		}
	}
	return 0U;
}

static uint32_t places_of(const struct vmcu_stack_setting *set, uint32_t size)
{
	return (set->bytes - size) / set->align + 1U;
}

/** Has no divisor in common with @a count. The golden section spreads any few moves in a row. */
static uint32_t coprime_to(uint32_t count)
{
	const uint64_t golden = UINT64_C(2654435769); /* of 2^32 */

	for (uint32_t step = (uint32_t)((count * golden) >> 32); step > 1U; step--) {
		uint32_t a = count;
		uint32_t b = step;

		while (b != 0U) {
			const uint32_t rest = a % b;

			a = b;
			b = rest;
		}
		if (a == 1U) {
			return step;
		}
	}
	return 1U;
}

static int walk_add(struct vmcu_stacks *stacks, struct vmcu_stack *stack, uint32_t bytes)
{
	const struct vmcu_stack_setting *set = stacks->setting;
	uint32_t start = 0U;
	uint32_t end;

	stack->size = bytes;
	/* The next place that may be free is behind the obstacle. */
	do {
		if (bytes > set->bytes || start > set->bytes - bytes) {
			return -ENOMEM;
		}
		end = in_the_way(stacks, stack, start);
		if (end != 0U) {
			start = (end + set->align - 1U) / set->align * set->align;
		}
	} while (end != 0U);
	stack->start = start;
	stack->place = 0U;
	stack->step = coprime_to(places_of(set, bytes));
	return 0;
}

static bool walk_move(struct vmcu_stacks *stacks, struct vmcu_stack *stack)
{
	const struct vmcu_stack_setting *set = stacks->setting;
	const uint32_t places = places_of(set, stack->size);

	for (uint32_t turn = 0; turn < set->depth; turn++) {
		uint32_t start;

		stack->place += stack->step;
		if (stack->place >= places) {
			stack->place -= places;
		}
		start = stack->place * set->align;
		stacks->counts.looks++;
		if (turn == 0U) {
			stacks->counts.firsts++;
		} else {
			stacks->counts.searches++;
		}
		if (in_the_way(stacks, stack, start) == 0U) {
			stack->start = start;
			return true;
		}
	}
	return false;
}

int vmcu_stacks_add(struct vmcu_stacks *stacks, struct vmcu_stack *stack, uint32_t bytes)
{
	const bool circular = stacks->setting->policy == (uint8_t)VMCU_STACK_CIRCULAR;
	const int err =
		circular ? vmcu_circular_add(stacks, stack, bytes) : walk_add(stacks, stack, bytes);

	if (err == 0) {
		stack->ran = 0U;
		stack->next = stacks->first;
		stacks->first = stack;
	}
	return err;
}

void vmcu_stacks_resume(const struct vmcu_stacks *stacks, struct vmcu_stack *stack, uint32_t moves)
{
	if (stacks->setting->policy == (uint8_t)VMCU_STACK_WALK) {
		stack->place = (uint32_t)((uint64_t)moves * stack->step %
					  places_of(stacks->setting, stack->size));
	}
}

void vmcu_stacks_remove(struct vmcu_stacks *stacks, struct vmcu_stack *stack)
{
	struct vmcu_stack **link = &stacks->first;

	while (*link != stack) {
		link = &(*link)->next;
	}
	*link = stack->next;
	if (stacks->setting->policy == (uint8_t)VMCU_STACK_CIRCULAR) {
		vmcu_circular_remove(stacks, stack);
	}
}

bool vmcu_stacks_ran(const struct vmcu_stacks *stacks, struct vmcu_stack *stack, uint32_t time)
{
	stack->ran = (time > UINT32_MAX - stack->ran) ? UINT32_MAX : stack->ran + time;
	return stack->ran >= stacks->setting->threshold;
}

int vmcu_stacks_move(struct vmcu_stacks *stacks, struct vmcu_stack *stack)
{
	const bool circular = stacks->setting->policy == (uint8_t)VMCU_STACK_CIRCULAR;

	stack->ran = 0U;
	stacks->counts.attempts++;
	if (!(circular ? vmcu_circular_move(stacks, stack) : walk_move(stacks, stack))) {
		return -EAGAIN;
	}
	stacks->counts.moves++;
	return 0;
}

uint32_t vmcu_stacks_bound(const struct vmcu_stacks *stacks, uint32_t live)
{
	if (stacks->setting->policy == (uint8_t)VMCU_STACK_CIRCULAR) {
		return vmcu_circular_bound(stacks);
	}
	return stacks->setting->depth * (1U + live);
}
