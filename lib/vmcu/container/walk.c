/*
 * SPDX-License-Identifier: Apache-2.0
 */

#include "walk.h"

VMCU_SMALL bool vmcu_walk_skip(struct vmcu_walk *w, uint64_t bytes)
{
	if (bytes > w->left) {
		return false;
	}
	w->at += bytes;
	w->left -= (uint32_t)bytes;
	return true;
}

VMCU_SMALL bool vmcu_walk_begin(const struct vmcu_check *c, const struct vmcu_packing *packing,
				struct vmcu_walk *w)
{
	const struct vmcu_mac_params *p = c->params;

	if (!vmcu_check_array(c, p->stream, 1U, sizeof(uint32_t))) {
		return false;
	}
	w->packing = packing;
	w->at = vmcu_check_at(c, p->stream);
	w->left = vmcu_check_left(c, p->stream);
	return true;
}

VMCU_SMALL bool vmcu_walk_shifts(const struct vmcu_mac_params *p, const uint8_t *words,
				 uint32_t channels)
{
	const int32_t *word = (const int32_t *)(const void *)words;

	for (uint32_t i = 0; i < channels; i++) {
		if (p->is_float == 0U && !vmcu_check_shift(word[i])) {
			return false;
		}
		if (p->is_float != 0U && !vmcu_check_line(word[i])) {
			return false;
		}
	}
	return true;
}

VMCU_SMALL bool vmcu_walk_fast(const struct vmcu_walk *w, const uint8_t *shift, uint32_t channels)
{
	for (uint32_t i = 0; i < channels; i++) {
		if (shift[i] > w->packing->shift) {
			return false;
		}
	}
	return true;
}
