/*
 * SPDX-License-Identifier: Apache-2.0
 */

#include <zephyr/kernel.h>
#include <zephyr/toolchain.h>
#include <zephyr/tracing/tracing.h>
#include <zephyr/version.h>

#include <vmcu/trace.h>

__weak void vmcu_trace_event(const char *name, uint32_t arg0, uint32_t arg1)
{
	/* The macro that uses these may drop them. */
	ARG_UNUSED(name);
	ARG_UNUSED(arg0);
	ARG_UNUSED(arg1);
#if KERNEL_VERSION_NUMBER >= 0x040000 && !defined(CONFIG_TRACING_CUSTOM)
	/* It reads the kernel's clock and writes to the kernel's buffers. */
	if (!k_is_user_context()) {
		sys_trace_named_event(name, arg0, arg1);
	}
#endif
}
