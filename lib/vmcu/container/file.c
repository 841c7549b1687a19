/*
 * SPDX-License-Identifier: Apache-2.0
 */

/**
 * @file
 * @brief Functions that each part of loading uses: reading a container's file, and refusing it.
 */

#include "load.h"

#include "../compiled.h"

VMCU_SMALL int vmcu_refuse(struct vmcu_loading *l, int err, const char *what, uint32_t index)
{
	l->refusal.what = what;
	l->refusal.index = index;
	return err;
}

VMCU_SMALL bool vmcu_is_table(const struct vmcu_loading *l, uint32_t at, uint32_t count,
			      uint32_t each)
{
	return count == 0U || (at % 8U == 0U && at >= sizeof(struct vmcu_container_file) &&
			       at <= l->size && (uint64_t)count * each <= l->size - at);
}

bool vmcu_same_digest(const uint8_t *a, const uint8_t *b)
{
	for (uint32_t i = 0; i < VMCU_DIGEST_BYTES; i++) {
		if (a[i] != b[i]) {
			return false;
		}
	}
	return true;
}

VMCU_SMALL const char *vmcu_text(const struct vmcu_loading *l, uint32_t at)
{
	if (at < VMCU_MODEL_AT) {
		return NULL;
	}
	for (uint32_t end = at; end < l->size; end++) {
		if (l->data[end] == 0U) {
			return (const char *)&l->data[at];
		}
	}
	return NULL;
}
