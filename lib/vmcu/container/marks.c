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

/**
 * The mark of the bytes of a row. Rows are numbered over all tensors, from 1 on; each time that the
 * calls are replayed, bytes have another digit of that number.
 */
static uint8_t mark_of(const struct replay *r, uint32_t tensor, uint32_t y)
{
	return (uint8_t)((1U + y * r->model->tensor_count + tensor) >> r->shift);
}

/** Marks bytes of the circle, or returns true if all of them are marked so. */
static bool visit_bytes(const struct replay *r, uint32_t at, uint32_t bytes, uint8_t mark,
			bool write)
{
	uint8_t *one = &r->marks[at % r->circle];
	const uint8_t *const end = &r->marks[r->circle];

	for (uint32_t i = 0; i < bytes; i++) {
		if (write) {
			*one = mark;
		}
		if (*one != mark) {
			return false;
		}
		one++;
		if (one == end) {
			one = r->marks;
		}
	}
	return true;
}

VMCU_SMALL void vmcu_replay_mark(const struct replay *r, uint32_t at, uint32_t bytes, uint8_t with)
{
	(void)visit_bytes(r, at, bytes, with, true);
}

VMCU_SMALL bool vmcu_replay_visit(const struct replay *r, const struct run *run, bool write)
{
	const struct vmcu_tensor *t = &r->model->tensors[run->tensor];
	const uint8_t mark = mark_of(r, run->tensor, run->y);

	for (uint32_t i = 0; i < run->columns; i++) {
		const uint32_t at = t->base + vmcu_place(t, run->y, run->x + i);

		if (!visit_bytes(r, at, t->channels, mark, write)) {
			return false;
		}
	}
	return true;
}

#endif /* VMCU_CONTAINER_REPLAY */
