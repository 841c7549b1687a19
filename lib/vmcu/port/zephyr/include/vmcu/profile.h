/*
 * SPDX-License-Identifier: Apache-2.0
 */

/**
 * @file
 * @brief What layers cost: CONFIG_VMCU_PROFILE.
 *
 * Counts the calls of each layer's kernel and the cycles that they took, by Zephyr's timing API.
 * A profile has room for CONFIG_VMCU_PROFILE_LAYERS layers, so that it takes under 200 bytes
 * whatever the model: a longer model is profiled by several inferences, each over other layers.
 *
 * Cycles include interrupts and other threads that ran meanwhile.
 */

#ifndef VMCU_PROFILE_H_
#define VMCU_PROFILE_H_

#include <stdint.h>

#include <vmcu/vmcu.h>

#ifdef __cplusplus
extern "C" {
#endif

/**
 * @defgroup vmcu_profile Profiling
 * @{
 */

/** Layers that a profile has room for; without CONFIG_VMCU_PROFILE no call here links. */
#if defined(CONFIG_VMCU_PROFILE)
#define VMCU_PROFILE_LAYERS CONFIG_VMCU_PROFILE_LAYERS
#else
#define VMCU_PROFILE_LAYERS 1
#endif

/** What the calls of one layer took. */
struct vmcu_layer_profile {
	uint32_t cycles; /**< of timing_cycles_to_ns(), UINT32_MAX if there were more */
	uint32_t calls;  /**< of the kernel: one for each row, or for each tile of a row */
};

/** Layer @a first of the model and those behind it. */
struct vmcu_profile {
	uint16_t first;
	uint16_t count; /**< how many entries mean something, CONFIG_VMCU_PROFILE_LAYERS at most */
	struct vmcu_layer_profile layers[VMCU_PROFILE_LAYERS];
};

/**
 * @brief Counts from now on, from zero, over all inferences until vmcu_profile_stop().
 *
 * @param ctx     Context that vmcu_init() has set up; another vmcu_init() ends the counting.
 * @param profile Where to; the caller's, as long as it is counted into.
 * @param first   The first layer to count.
 *
 * @retval 0       @a profile->count layers are counted.
 * @retval -EINVAL A pointer is NULL or @a ctx was not set up.
 * @retval -ERANGE The model has no layer @a first.
 */
int vmcu_profile_start(struct vmcu_context *ctx, struct vmcu_profile *profile, uint16_t first);

/** @brief Ends the counting; the profile keeps its figures. */
void vmcu_profile_stop(struct vmcu_context *ctx);

/** @} */

#ifdef __cplusplus
}
#endif

#endif /* VMCU_PROFILE_H_ */
