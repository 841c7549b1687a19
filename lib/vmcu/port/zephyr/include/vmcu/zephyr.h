/*
 * SPDX-License-Identifier: Apache-2.0
 */

/**
 * @file
 * @brief Zephyr's part of pools and of the list of models. Include vmcu/pool.h instead.
 */

#ifndef VMCU_ZEPHYR_H_
#define VMCU_ZEPHYR_H_

#include <zephyr/devicetree.h>
#include <zephyr/linker/devicetree_regions.h>
#include <zephyr/sys/util.h>
#include <zephyr/toolchain.h>

#if defined(CONFIG_VMCU_REGISTRY)
#include <vmcu/registry.h>
#endif

/**
 * @addtogroup vmcu
 * @{
 */

/** @cond INTERNAL_HIDDEN */

/* The linker keeps unused arrays in a region's own sections: pools use others, see pools.ld. */
#define Z_VMCU_POOL_SECTION(node, name)                                                            \
	Z_GENERIC_SECTION(UTIL_CAT(LINKER_DT_NODE_REGION_NAME_TOKEN(node), _vmcu).name)

/* clang-format would split concatenated strings. */
/* clang-format off */
#define Z_VMCU_POOL_CHECK(node, bytes)                                                             \
	BUILD_ASSERT(DT_NODE_HAS_COMPAT(node, zephyr_memory_region),                               \
		     "a pool's region must be compatible with zephyr,memory-region");              \
	BUILD_ASSERT((bytes) <= DT_REG_SIZE(node),                                                 \
		     "a pool of " STRINGIFY(bytes) " bytes does not fit into memory region "       \
		     LINKER_DT_NODE_REGION_NAME(node) " of " STRINGIFY(DT_REG_SIZE(node)) " bytes")
/* clang-format on */

/** @endcond */

/**
 * @brief VMCU_POOL_DEFINE() in a memory region of your choice.
 *
 * In a function, `static` is required.
 *
 * @param node  Devicetree node compatible with zephyr,memory-region: DT_NODELABEL(dtcm).
 * @param name  Name of the array.
 * @param bytes Its size, such as VMCU_MODEL_POOL_BYTES(kws).
 */
#define VMCU_POOL_DEFINE_IN(node, name, bytes)                                                     \
	Z_VMCU_POOL_SECTION(node, name)                                                            \
	uint8_t name[bytes] __attribute__((aligned(VMCU_POOL_ALIGN)));                             \
	Z_VMCU_POOL_CHECK(node, bytes)

#if DT_HAS_CHOSEN(vmcu_pool) && !defined(VMCU_POOL_PLACEMENT)
#define VMCU_POOL_DEFINE(name, bytes) VMCU_POOL_DEFINE_IN(DT_CHOSEN(vmcu_pool), name, bytes)
#endif

#define VMCU_POOL_DEFINE_FOR(memory, name, bytes)                                                  \
	COND_CODE_1(DT_HAS_CHOSEN(vmcu_##memory),                                                  \
		    (VMCU_POOL_DEFINE_IN(DT_CHOSEN(vmcu_##memory), name, bytes)),                  \
		    (uint8_t name[bytes] __attribute__((aligned(VMCU_POOL_ALIGN)))))

/** @} */

#endif /* VMCU_ZEPHYR_H_ */
