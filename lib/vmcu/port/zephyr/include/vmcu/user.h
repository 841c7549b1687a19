/*
 * SPDX-License-Identifier: Apache-2.0
 */

/**
 * @file
 * @brief Pools for inference in user threads: CONFIG_USERSPACE.
 */

#ifndef VMCU_USER_H_
#define VMCU_USER_H_

#include <zephyr/app_memory/app_memdomain.h>

#include <vmcu/vmcu.h>

/**
 * @defgroup vmcu_user Inference in user mode
 * @{
 */

/**
 * @brief Defines a pool in a memory partition.
 *
 * Define the context in the same partition: K_APP_BMEM(partition) static struct vmcu_context ctx.
 * The linker rounds the partition up to the size and alignment that the memory protection unit
 * requires: on ARMv7-M, a power of two. The pool is always in ordinary RAM. The macro ignores the
 * devicetree's chosen node `vmcu,pool`.
 *
 * @param name      Name of the array.
 * @param bytes     Its size, such as VMCU_MODEL_POOL_BYTES(kws).
 * @param partition Partition from K_APPMEM_PARTITION_DEFINE().
 */
#define VMCU_USER_POOL_DEFINE(name, bytes, partition)                                              \
	K_APP_BMEM(partition) static uint8_t name[bytes] __attribute__((aligned(VMCU_POOL_ALIGN)))

/** @} */

#endif /* VMCU_USER_H_ */
