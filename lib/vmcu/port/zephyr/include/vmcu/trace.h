/*
 * SPDX-License-Identifier: Apache-2.0
 */

/**
 * @file
 * @brief Where trace events of inferences go: CONFIG_VMCU_TRACING.
 */

#ifndef VMCU_TRACE_H_
#define VMCU_TRACE_H_

#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif

/**
 * @defgroup vmcu_trace Tracing
 * @{
 */

#define VMCU_TRACE_BEGIN       "vmcu_begin"       /**< an inference; pool bytes, number of stages */
#define VMCU_TRACE_END         "vmcu_end"         /**< pool bytes, what the caller gets */
#define VMCU_TRACE_STAGE_BEGIN "vmcu_stage_begin" /**< number of the stage, its first layer */
#define VMCU_TRACE_STAGE_END   "vmcu_stage_end"   /**< the same */

/**
 * @brief Takes an event.
 *
 * Weak: an application may define its own. This one calls Zephyr's sys_trace_named_event(), which
 * there is from Zephyr 4.0 on, and does nothing in 3.7.
 *
 * @param name One of VMCU_TRACE_...
 * @param arg0 The first thing that its comment names.
 * @param arg1 The second.
 */
void vmcu_trace_event(const char *name, uint32_t arg0, uint32_t arg1);

/** @} */

#ifdef __cplusplus
}
#endif

#endif /* VMCU_TRACE_H_ */
