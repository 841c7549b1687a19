/*
 * SPDX-License-Identifier: Apache-2.0
 */

/**
 * @file
 * @brief Whose byte is whose: each byte of the pool notes which row of which tensor has it.
 */

#include "replay.h"

#include "../compiled.h"

#if defined(VMCU_CONTAINER_REPLAY)

/** Of the bytes of a pixel that is read, one in so many is looked at. */
#define STRIDE 8U

/** Marks of tensors and rows differ by these primes; 0 marks bytes of no tensor. */
#define TENSOR_STEP 61U
#define ROW_STEP    7U
#define MARKS       255U

/** The mark of the bytes of a row; rows of a tensor that share a place differ. */
static uint8_t mark_of(uint32_t tensor, uint32_t y)
{
	return (uint8_t)(1U + (tensor * TENSOR_STEP + y * ROW_STEP) % MARKS);
}

VMCU_SMALL void vmcu_replay_mark(const struct replay *r, uint32_t at, uint32_t bytes, uint8_t with)
{
	uint8_t *one = &r->marks[at % r->circle];
	const uint8_t *const end = &r->marks[r->circle];

	for (uint32_t i = 0; i < bytes; i++) {
		*one = with;
		one++;
		if (one == end) {
			one = r->marks;
		}
	}
}

/** True if bytes are marked so: the first and the last, and each STRIDE-th between. */
static bool is_marked(const struct replay *r, uint32_t at, uint32_t bytes, uint8_t with)
{
	uint32_t one = (at < r->circle) ? at : at % r->circle;
	const uint32_t last = (one + bytes - 1U) % r->circle;

	for (uint32_t i = 0; i < bytes; i += STRIDE) {
		if (r->marks[one] != with) {
			return false;
		}
		one += STRIDE;
		one = (one < r->circle) ? one : one % r->circle;
	}
	return r->marks[last] == with;
}

VMCU_SMALL bool vmcu_replay_visit(const struct replay *r, const struct run *run, bool write)
{
	const struct vmcu_tensor *t = &r->model->tensors[run->tensor];

	for (uint32_t i = 0; i < run->columns; i++) {
		const uint32_t at = t->base + vmcu_place(t, run->y, run->x + i);

		if (write) {
			vmcu_replay_mark(r, at, t->channels, mark_of(run->tensor, run->y));
			continue;
		}
		if (!is_marked(r, at, t->channels, mark_of(run->tensor, run->y))) {
			return false;
		}
	}
	return true;
}

#endif /* VMCU_CONTAINER_REPLAY */
