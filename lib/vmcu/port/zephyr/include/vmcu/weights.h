/*
 * SPDX-License-Identifier: Apache-2.0
 */

/**
 * @file
 * @brief Reads external weights in a thread: CONFIG_VMCU_EXTERNAL_WEIGHTS.
 */

#ifndef VMCU_WEIGHTS_THREAD_H_
#define VMCU_WEIGHTS_THREAD_H_

#include <zephyr/device.h>
#include <zephyr/kernel.h>

#include <vmcu/vmcu.h>

#ifdef __cplusplus
extern "C" {
#endif

#if defined(CONFIG_VMCU_EXTERNAL_WEIGHTS)
/**
 * @defgroup vmcu_weights External weights on Zephyr
 * @{
 */

/** Reads @a bytes bytes at @a offset of the weights file; returns bytes read or a negative errno.
 */
typedef int (*vmcu_weights_read_t)(void *source, uint32_t offset, void *to, size_t bytes);

/** A read that waits in a queue. */
struct vmcu_weights_request {
	uint32_t offset;
	void *to;
	size_t bytes;
};

/** A thread that reads weights. The caller owns it. Use one for each model that runs. */
struct vmcu_weights_thread {
	/** @cond INTERNAL_HIDDEN */
	struct vmcu_reader reader;
	vmcu_weights_read_t read;
	void *source;
	struct k_thread thread;
	struct k_msgq requests;
	struct k_msgq results;
	struct vmcu_weights_request request_buffer[VMCU_MOST_READS];
	int result_buffer[VMCU_MOST_READS];
	/** @endcond */
};

/**
 * @brief Starts a thread that reads weights.
 *
 * The thread blocks while it waits for its device. Give it a higher priority than the thread that
 * calls vmcu_invoke(), so that the next read starts as soon as the last one ends.
 *
 * @param weights  Thread to set up. It must exist as long as the system runs.
 * @param read     Function that reads, such as vmcu_weights_read_flash().
 * @param source   Passed to @a read.
 * @param stack    Stack of the thread, from K_THREAD_STACK_DEFINE().
 * @param size     K_THREAD_STACK_SIZEOF(@a stack).
 * @param priority Priority of the thread.
 *
 * @return The argument for vmcu_set_reader().
 */
const struct vmcu_reader *vmcu_weights_start(struct vmcu_weights_thread *weights,
					     vmcu_weights_read_t read, void *source,
					     k_thread_stack_t *stack, size_t size, int priority);

#if defined(CONFIG_FLASH)
/** Where a weights file is in a flash device. */
struct vmcu_weights_flash {
	const struct device *device;
	uint32_t start; /**< of the file in the device */
};

/** @brief Reads from flash; @a source is a struct vmcu_weights_flash. */
int vmcu_weights_read_flash(void *source, uint32_t offset, void *to, size_t bytes);
#endif

#if defined(CONFIG_FILE_SYSTEM)
/** @brief Reads from an open file; @a source is a struct fs_file_t. */
int vmcu_weights_read_file(void *source, uint32_t offset, void *to, size_t bytes);
#endif

/** @} */
#endif

#ifdef __cplusplus
}
#endif

#endif /* VMCU_WEIGHTS_THREAD_H_ */
