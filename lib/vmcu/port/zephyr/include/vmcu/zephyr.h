/*
 * SPDX-License-Identifier: Apache-2.0
 */

/**
 * @file
 * @brief What vmcu takes from Zephyr: where pools are placed, where models are listed.
 */

#ifndef VMCU_ZEPHYR_H_
#define VMCU_ZEPHYR_H_

#include <zephyr/devicetree.h>
#include <zephyr/linker/devicetree_regions.h>
#include <zephyr/toolchain.h>

#if defined(CONFIG_VMCU_REGISTRY)
#include <vmcu/registry.h>
#endif

#if DT_HAS_CHOSEN(vmcu_pool) && !defined(VMCU_POOL_PLACEMENT)
BUILD_ASSERT(DT_NODE_HAS_COMPAT(DT_CHOSEN(vmcu_pool), zephyr_memory_region),
	     "the chosen node vmcu,pool must be compatible with zephyr,memory-region");

/* The linker script has an output section for each memory region, named like the region. */
#define VMCU_POOL_PLACEMENT Z_GENERIC_SECTION(LINKER_DT_NODE_REGION_NAME(DT_CHOSEN(vmcu_pool)))
#endif

#endif /* VMCU_ZEPHYR_H_ */
