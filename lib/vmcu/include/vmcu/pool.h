/*
 * SPDX-License-Identifier: Apache-2.0
 */

/**
 * @file
 * @brief Macros that define pools, the same on every system.
 */

#ifndef VMCU_POOL_H_
#define VMCU_POOL_H_

#include <stdint.h>

#include <vmcu/vmcu.h>

#if defined(__ZEPHYR__)
#include <vmcu/zephyr.h>
#endif

/**
 * @addtogroup vmcu
 * @{
 */

#ifndef VMCU_POOL_PLACEMENT
/** Attributes of pools. Define it before you include this header to place a file's pools. */
#define VMCU_POOL_PLACEMENT
#endif

#ifndef VMCU_POOL_DEFINE
/**
 * @brief Defines a pool: an array of bytes, aligned to VMCU_POOL_ALIGN.
 *
 * Write `static` in front of it. Without `static` the pool is global, or, within a function, on
 * the stack.
 *
 * On Zephyr, the devicetree's chosen node `vmcu,pool` selects the memory region of the array.
 * Zephyr does not clear such a region at boot; vmcu does not require it.
 *
 * @param name  Name of the array.
 * @param bytes Its size, such as VMCU_MODEL_POOL_BYTES(kws).
 */
#define VMCU_POOL_DEFINE(name, bytes)                                                              \
	uint8_t name[bytes] __attribute__((aligned(VMCU_POOL_ALIGN))) VMCU_POOL_PLACEMENT
#endif

#if defined(VMCU_SEVERAL_POOLS)
#ifndef VMCU_POOL_DEFINE_FOR
/**
 * @brief Defines one of several pools: VMCU_POOL_DEFINE() for one memory of the model.
 *
 * On Zephyr, the devicetree's chosen node `vmcu,` plus the memory's name selects the memory region
 * of the array. Without that node, the array is in ordinary RAM.
 *
 * @param memory The memory's name from `vmcu build --memory`.
 * @param name   Name of the array.
 * @param bytes  Its size.
 */
#define VMCU_POOL_DEFINE_FOR(memory, name, bytes)                                                  \
	uint8_t name[bytes] __attribute__((aligned(VMCU_POOL_ALIGN)))
#endif

/** @cond INTERNAL_HIDDEN */
/* C has no empty arrays: the pool of a memory that the model does not need has one byte. */
#define Z_VMCU_SOME(bytes) ((bytes) > 0 ? (bytes) + VMCU_POOL_GUARD_BYTES : 1)
#define Z_VMCU_POOL(model, number, memory, bytes)                                                  \
	static VMCU_POOL_DEFINE_FOR(memory, vmcu_pool_of_##model##_##memory, Z_VMCU_SOME(bytes));
#define Z_VMCU_MEMORY(model, number, memory, bytes)                                                \
	{vmcu_pool_of_##model##_##memory, Z_VMCU_SOME(bytes)},
/** @endcond */

/**
 * @brief Defines all pools of a model that was built with several memories, and their array for
 * vmcu_init_pools(). All of them are static.
 *
 * @param name  Name of the array of struct vmcu_memory. It has VMCU_MODEL_..._POOLS elements.
 * @param model The model, as in VMCU_MODEL_EACH_POOL().
 */
#define VMCU_POOLS_DEFINE(name, model)                                                             \
	VMCU_MODEL_EACH_POOL(model, Z_VMCU_POOL)                                                   \
	static const struct vmcu_memory name[] = {VMCU_MODEL_EACH_POOL(model, Z_VMCU_MEMORY)}
#endif /* VMCU_SEVERAL_POOLS */

/** @cond INTERNAL_HIDDEN */
#if defined(__cplusplus)
#define Z_VMCU_ASSERT(condition, message) static_assert(condition, message)
#else
/*
 * C99 has no _Static_assert, but every compiler with attributes does. Z_VMCU_NOTHING prevents the
 * expansion of C libraries' macros of that name, which drop the message.
 */
#define Z_VMCU_NOTHING
#define Z_VMCU_ASSERT(condition, message)                                                          \
	__extension__ _Static_assert Z_VMCU_NOTHING(condition, message)
#endif
#define Z_VMCU_TEXT(value)  Z_VMCU_TEXT_(value)
#define Z_VMCU_TEXT_(value) #value
/** @endcond */

/* clang-format would split concatenated strings. */
/* clang-format off */
/**
 * @brief Stops the build with both sizes if a model needs a larger pool.
 *
 * For pools whose size does not depend on the model. You can use it inside or outside a function.
 *
 * @param name  The model, as in VMCU_MODEL_POOL_BYTES().
 * @param bytes Bytes of the pool, an integer constant.
 */
#define VMCU_MODEL_FITS(name, bytes)                                                               \
	Z_VMCU_ASSERT(VMCU_MODEL_POOL_BYTES(name) <= (bytes),                                      \
		      "model " #name " needs a pool of " Z_VMCU_TEXT(VMCU_MODEL_POOL_BYTES(name))  \
		      " bytes, there are " Z_VMCU_TEXT(bytes))
/* clang-format on */

/** @} */

#endif /* VMCU_POOL_H_ */
