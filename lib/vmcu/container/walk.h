/*
 * SPDX-License-Identifier: Apache-2.0
 */

/**
 * @file
 * @brief How checks go through a stream of constants as its kernel does.
 */

#ifndef VMCU_WALK_H_
#define VMCU_WALK_H_

#include "check.h"

#include "../compiled.h"
#include "../kernels/support.h"

/** A stream that is being walked: the rest of the container, or of a chunk. */
struct vmcu_walk {
	const struct vmcu_packing *packing;
	const uint8_t *at;
	uint32_t left;
};

/** Goes to the start of a layer's stream; false if that is not in the container. */
bool vmcu_walk_begin(const struct vmcu_check *c, const struct vmcu_packing *packing,
		     struct vmcu_walk *w);

/** Skips bytes; false if there are not as many. */
bool vmcu_walk_skip(struct vmcu_walk *w, uint64_t bytes);

/** True if exact blocks of so many channels shift as the requantiser can. */
bool vmcu_walk_shifts(const struct vmcu_mac_params *p, const uint8_t *words, uint32_t channels);

/** True if shifts are for the fast requantiser. */
bool vmcu_walk_fast(const struct vmcu_walk *w, const uint8_t *shift, uint32_t channels);

#endif /* VMCU_WALK_H_ */
