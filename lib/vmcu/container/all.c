/*
 * SPDX-License-Identifier: Apache-2.0
 */

/**
 * @file
 * @brief All kernels, for applications that take whatever container arrives.
 */

#include <vmcu/container.h>
#include <vmcu/operators.h>

#if defined(VMCU_STREAMS)
#define OF_STREAMS(entry) VMCU_STREAM_KERNELS(entry)
#else
#define OF_STREAMS(entry)
#endif

#define DECLARED(kernel) extern const struct vmcu_kernel kernel##_kernel;
#define LISTED(kernel)   &kernel##_kernel,

VMCU_CONTAINER_KERNELS(DECLARED)
OF_STREAMS(DECLARED)

const struct vmcu_kernel *const vmcu_kernels[] = {VMCU_CONTAINER_KERNELS(LISTED) OF_STREAMS(LISTED)
							  NULL};
