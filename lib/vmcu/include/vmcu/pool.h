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
/** Where pools are put. Define it before this header, or let the port do so. */
#define VMCU_POOL_PLACEMENT
#endif

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

/** @} */

#endif /* VMCU_POOL_H_ */
