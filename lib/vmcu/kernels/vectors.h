/*
 * SPDX-License-Identifier: Apache-2.0
 */

/**
 * @file
 * @brief VMCU_VECTORS where C of all targets may use the integer vector extension (MVE).
 */

#ifndef VMCU_KERNELS_VECTORS_H_
#define VMCU_KERNELS_VECTORS_H_

#if defined(__ARM_FEATURE_MVE) && !defined(VMCU_PORTABLE)
#include <arm_mve.h>

#define VMCU_VECTORS 1
#endif

#endif /* VMCU_KERNELS_VECTORS_H_ */
