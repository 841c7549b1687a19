/*
 * SPDX-License-Identifier: Apache-2.0
 */

/**
 * @file
 * @brief Trace events of inferences: CONFIG_VMCU_TRACING.
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

/* In front of VMCU_TRACE_BEGIN there is an event with the model's name, whose values are the model
 * and its version.
 */
#define VMCU_TRACE_BEGIN       "vmcu_begin"       /**< inference: model, number of stages */
#define VMCU_TRACE_END         "vmcu_end"         /**< inference: model, return value */
#define VMCU_TRACE_STAGE_BEGIN "vmcu_stage_begin" /**< stage: model, its first layer */
#define VMCU_TRACE_STAGE_END   "vmcu_stage_end"   /**< stage: model, its first layer */

/**
 * @brief Records an event. The runtime calls it in the thread of the inference.
 *
 * This is a weak function: an application can define its own. The default calls Zephyr's
 * sys_trace_named_event() from Zephyr 4.0 on, and does nothing on Zephyr 3.7. In user threads
 * (CONFIG_USERSPACE) the default does nothing: they cannot access the kernel's tracing buffers.
 * Your function runs there with the rights of the thread.
 *
 * @param name One of VMCU_TRACE_..., or the model's name.
 * @param arg0 The low 32 bits of the model's address, in all events of it.
 * @param arg1 Second value in the comment of @a name.
 */
void vmcu_trace_event(const char *name, uint32_t arg0, uint32_t arg1);

/** @} */

#ifdef __cplusplus
}
#endif

#endif /* VMCU_TRACE_H_ */
