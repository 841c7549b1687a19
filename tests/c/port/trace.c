/*
 * SPDX-License-Identifier: Apache-2.0
 */

/* An inference in a user thread must not touch the kernel's memory: it sends no trace event. */

#include <string.h>

#include <zephyr/kernel.h>

#include <vmcu/trace.h>

#include "../check.h"

static bool is_user;
static const char *traced;

bool k_is_user_context(void)
{
	return is_user;
}

void sys_trace_named_event(const char *name, uint32_t arg0, uint32_t arg1)
{
	CHECK(!is_user && arg0 == 1U && arg1 == 2U);
	traced = name;
}

int main(void)
{
	is_user = true;
	vmcu_trace_event(VMCU_TRACE_BEGIN, 1U, 2U);
	CHECK(traced == NULL);
	is_user = false;
	vmcu_trace_event(VMCU_TRACE_END, 1U, 2U);
	CHECK(strcmp(traced, VMCU_TRACE_END) == 0);
	return 0;
}
