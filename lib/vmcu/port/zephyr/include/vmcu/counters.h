/*
 * SPDX-License-Identifier: Apache-2.0
 */

/**
 * @file
 * @brief Counts the inferences of each model: CONFIG_VMCU_COUNTERS.
 *
 * Inferences of user threads are not counted: they cannot access the kernel's memory.
 */

#ifndef VMCU_COUNTERS_H_
#define VMCU_COUNTERS_H_

#include <stddef.h>
#include <stdint.h>

#include <vmcu/vmcu.h>

#ifdef __cplusplus
extern "C" {
#endif

/**
 * @defgroup vmcu_counters Counters
 * @{
 */

/** Classes in a histogram. Without CONFIG_VMCU_COUNTERS, calls of these functions do not link. */
#if defined(CONFIG_VMCU_COUNTERS)
#define VMCU_COUNTERS_ANSWERS CONFIG_VMCU_COUNTERS_ANSWERS
#else
#define VMCU_COUNTERS_ANSWERS 1
#endif

/** Counters of a model. Times are cycles of k_cycle_get_32() from an inference's begin to its end,
 * other threads included; those of inferences that did not succeed do not count.
 */
struct vmcu_counters {
	const struct vmcu_model *model;
	const char *name;
	uint32_t version; /**< of a container, see vmcu_container_release(); else 0 */
	uint32_t runs;    /**< inferences that succeeded */
	uint32_t errors;
	uint32_t cancelled;
	uint32_t least; /**< 0 before the first one succeeds */
	uint32_t most;
	uint64_t total;
	/** How often each element of the first output was the greatest; the last one counts all
	 * elements behind it, too.
	 */
	uint32_t answers[VMCU_COUNTERS_ANSWERS];
};

/** @brief Returns the mean time in cycles, 0 before the first inference succeeds. */
static inline uint64_t vmcu_counters_mean(const struct vmcu_counters *counters)
{
	return (counters->runs != 0U) ? counters->total / counters->runs : 0U;
}

/**
 * @brief Copies the counters of a model.
 *
 * @param index    From 0, in the order in which models ran first.
 * @param counters Where to copy them.
 *
 * @retval 0       Copied.
 * @retval -ENOENT Fewer models have run, or CONFIG_VMCU_COUNTERS_MODELS is smaller.
 */
int vmcu_counters_get(size_t index, struct vmcu_counters *counters);

/** @brief Forgets all counters. */
void vmcu_counters_reset(void);

/**
 * @brief Writes the counters of all models as CBOR: CONFIG_VMCU_COUNTERS_CBOR.
 *
 * An array with a map for each model: model and version, runs, errors, cancelled, the times
 * least_us, mean_us and most_us, and the array answers.
 *
 * @param to   Where to write.
 * @param size Bytes there.
 * @param used Bytes written.
 *
 * @retval 0       Written.
 * @retval -ENOMEM @a size is too small.
 */
int vmcu_counters_encode(uint8_t *to, size_t size, size_t *used);

/** @} */

/** @cond INTERNAL_HIDDEN */
void vmcu_counters_begin(struct vmcu_context *ctx);
void vmcu_counters_end(const struct vmcu_context *ctx, int err);
/** @endcond */

#ifdef __cplusplus
}
#endif

#endif /* VMCU_COUNTERS_H_ */
