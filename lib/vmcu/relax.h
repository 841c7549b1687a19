/*
 * SPDX-License-Identifier: Apache-2.0
 */

/**
 * @file
 * @brief Action of a worker that waits. Define VMCU_RELAX() for another system, such as
 * taskYIELD() for FreeRTOS tasks that share a core.
 */

#ifndef VMCU_RELAX_H_
#define VMCU_RELAX_H_

#if defined(VMCU_RELAX)
/* The build's own. */
#elif defined(__ZEPHYR__)
#include <zephyr/kernel.h>
/** Lets another thread run, which may be the other worker. */
#define VMCU_RELAX() k_yield()
#elif defined(__unix__) || defined(__APPLE__)
#include <sched.h>
/** Lets another thread run, which may be the other worker. */
#define VMCU_RELAX() ((void)sched_yield())
#else
/** Each worker has a core of its own. */
#define VMCU_RELAX() ((void)0)
#endif

#endif /* VMCU_RELAX_H_ */
