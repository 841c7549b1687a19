/*
 * SPDX-License-Identifier: Apache-2.0
 */

/**
 * @file
 * @brief All kernels, for applications that take whatever container arrives.
 */

#include <stddef.h>

#include <vmcu/container.h>
#include <vmcu/operators.h>

#if !defined(VMCU_STREAMS)
#undef VMCU_STREAM_KERNELS
#define VMCU_STREAM_KERNELS(entry)
#endif

#define DECLARED(kernel) extern const struct vmcu_kernel kernel##_kernel;
#define LISTED(kernel)   &kernel##_kernel,

VMCU_CONTAINER_KERNELS(DECLARED)
VMCU_STREAM_KERNELS(DECLARED)

const struct vmcu_kernel *const vmcu_kernels[] = {VMCU_CONTAINER_KERNELS(LISTED)
							  VMCU_STREAM_KERNELS(LISTED) NULL};
