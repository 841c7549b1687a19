/*
 * SPDX-License-Identifier: Apache-2.0
 */

/**
 * @file
 * @brief Cycles of each layer: CONFIG_VMCU_PROFILE.
 *
 * vmcu counts the calls of each layer's kernel and their cycles with Zephyr's timing API. A profile
 * stores CONFIG_VMCU_PROFILE_LAYERS layers in less than 200 bytes. For a model with more layers,
 * profile several inferences, each with another first layer.
 *
 * Cycles include interrupts and other threads that run during a call.
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

/** Layers in a profile. Without CONFIG_VMCU_PROFILE, calls of these functions do not link. */
#if defined(CONFIG_VMCU_PROFILE)
#define VMCU_PROFILE_LAYERS CONFIG_VMCU_PROFILE_LAYERS
#else
#define VMCU_PROFILE_LAYERS 1
#endif

/** Calls and cycles of one layer. */
struct vmcu_layer_profile {
	uint32_t cycles; /**< for timing_cycles_to_ns(); UINT32_MAX after an overflow */
	uint32_t calls;  /**< of the kernel: one for each row, or for each tile of a row */
};

/** Figures of consecutive layers, from layer @a first of the model on. The caller owns it. */
struct vmcu_profile {
	uint16_t first;
	uint16_t count; /**< valid entries, at most CONFIG_VMCU_PROFILE_LAYERS */
	struct vmcu_layer_profile layers[VMCU_PROFILE_LAYERS];
};

/**
 * @brief Clears a profile and counts all inferences of a context until vmcu_profile_stop().
 *
 * @param ctx     Context that vmcu_init() has set up. Another vmcu_init() stops the profile.
 * @param profile Profile to write. It must exist until the profile stops.
 * @param first   Index of the first layer to count.
 *
 * @retval 0       vmcu counts @a profile->count layers.
 * @retval -EINVAL A pointer is NULL or @a ctx was not set up.
 * @retval -ERANGE The model has no layer @a first.
 */
int vmcu_profile_start(struct vmcu_context *ctx, struct vmcu_profile *profile, uint16_t first);

/** @brief Stops the profile of a context. The figures stay in the profile. */
void vmcu_profile_stop(struct vmcu_context *ctx);

/** @} */

#ifdef __cplusplus
}
#endif

#endif /* VMCU_PROFILE_H_ */
