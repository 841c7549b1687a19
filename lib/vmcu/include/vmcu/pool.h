/*
 * SPDX-License-Identifier: Apache-2.0
 */

/**
 * @file
 * @brief The RAM of a model, defined the same way on every system.
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
/** Attributes of pools. Define it before this header to put those of one file elsewhere. */
#define VMCU_POOL_PLACEMENT
#endif

#ifndef VMCU_POOL_DEFINE
/**
 * @brief Defines a pool: a static, suitably aligned array of bytes.
 *
 * On Zephyr the array lies in the memory region that the devicetree's chosen node `vmcu,pool`
 * names, if there is one. Such memory is not cleared at boot, and need not be.
 *
 * @param name  Name of the array.
 * @param bytes Its size, such as VMCU_MODEL_POOL_BYTES(kws).
 */
#define VMCU_POOL_DEFINE(name, bytes)                                                              \
	static uint8_t name[bytes] __attribute__((aligned(VMCU_POOL_ALIGN))) VMCU_POOL_PLACEMENT
#endif

#if defined(VMCU_SEVERAL_POOLS)
#ifndef VMCU_POOL_DEFINE_FOR
/**
 * @brief Defines one of several pools: VMCU_POOL_DEFINE() for a memory of the model's.
 *
 * On Zephyr the array lies in the memory region that the devicetree's chosen node `vmcu,` and the
 * memory's name names, if there is one, else in ordinary RAM.
 *
 * @param memory The memory's name as `vmcu build --memory` has it.
 * @param name   Name of the array.
 * @param bytes  Its size.
 */
#define VMCU_POOL_DEFINE_FOR(memory, name, bytes)                                                  \
	static uint8_t name[bytes] __attribute__((aligned(VMCU_POOL_ALIGN)))
#endif

/** @cond INTERNAL_HIDDEN */
/* A memory that the model does not need has a pool all the same: no array has no bytes. */
#define Z_VMCU_SOME(bytes) ((bytes) > 0 ? (bytes) : 1)
#define Z_VMCU_POOL(model, number, memory, bytes)                                                  \
	VMCU_POOL_DEFINE_FOR(memory, vmcu_pool_of_##model##_##memory, Z_VMCU_SOME(bytes));
#define Z_VMCU_MEMORY(model, number, memory, bytes)                                                \
	{vmcu_pool_of_##model##_##memory, Z_VMCU_SOME(bytes)},
/** @endcond */

/**
 * @brief Defines all pools of a model that was built with several memories, and what
 * vmcu_init_pools() takes of them.
 *
 * @param name  Name of an array of struct vmcu_memory; it has VMCU_MODEL_..._POOLS of them.
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
 * Not of C99, but of every compiler that takes attributes. What stands in between keeps the
 * preprocessor from C libraries' macros of that name, which drop the message.
 */
#define Z_VMCU_NOTHING
#define Z_VMCU_ASSERT(condition, message)                                                          \
	__extension__ _Static_assert Z_VMCU_NOTHING(condition, message)
#endif
#define Z_VMCU_TEXT(value)  Z_VMCU_TEXT_(value)
#define Z_VMCU_TEXT_(value) #value
/** @endcond */

/* It would split strings that are made of pieces. */
/* clang-format off */
/**
 * @brief Stops the build if a model needs a larger pool, and says both numbers.
 *
 * For pools whose size does not follow from the model's, outside or inside of a function.
 *
 * @param name  The model, as in VMCU_MODEL_POOL_BYTES().
 * @param bytes What there is, an integer constant.
 */
#define VMCU_MODEL_FITS(name, bytes)                                                               \
	Z_VMCU_ASSERT(VMCU_MODEL_POOL_BYTES(name) <= (bytes),                                      \
		      "model " #name " needs a pool of " Z_VMCU_TEXT(VMCU_MODEL_POOL_BYTES(name))  \
		      " bytes, there are " Z_VMCU_TEXT(bytes))
/* clang-format on */

/** @} */

#endif /* VMCU_POOL_H_ */
