/*
 * SPDX-License-Identifier: Apache-2.0
 */

/**
 * @file
 * @brief Allocates from an arena's end, and counts the bytes left in front of it.
 */

#include <errno.h>

#include "load.h"

#include "../compiled.h"

VMCU_SMALL void *vmcu_take_tail(struct vmcu_loading *l, size_t bytes)
{
	l->tail += (bytes + 7U) / 8U * 8U;
	return (l->tail <= l->arena_size) ? l->arena + (l->arena_size - l->tail) : NULL;
}

VMCU_SMALL void *vmcu_arena_take(void *arena, size_t *arena_size, size_t bytes)
{
	const uintptr_t start = (uintptr_t)arena;
	uintptr_t at;

	if (arena == NULL || arena_size == NULL || bytes > *arena_size) {
		return NULL;
	}
	at = (start + (*arena_size - bytes)) & ~(uintptr_t)(VMCU_CONTAINER_ALIGN - 1);
	if (at < start) {
		return NULL;
	}
	*arena_size = (size_t)(at - start);
	return (uint8_t *)arena + *arena_size;
}

size_t vmcu_arena_head(const struct vmcu_model *model, size_t arena_size)
{
	const size_t whole = arena_size & ~(size_t)7U;

	return (model == NULL || model->base == 0U || model->tail > whole) ? 0U
									   : whole - model->tail;
}

int vmcu_arena_report(const struct vmcu_model *model, size_t arena_size,
		      struct vmcu_arena_report *report)
{
	const size_t head = vmcu_arena_head(model, arena_size);

	if (head == 0U || report == NULL) {
		return -EINVAL;
	}
	report->head = (size_t)model->pool_bytes + VMCU_POOL_GUARD_BYTES;
	report->free = (head > report->head) ? head - report->head : 0U;
	report->tail = model->tail;
	report->needed = report->head + report->tail;
	return 0;
}
