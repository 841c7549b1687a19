/*
 * SPDX-License-Identifier: Apache-2.0
 */

/**
 * @file
 * @brief The pool of the shell commands: CONFIG_VMCU_SHELL.
 */

#ifndef VMCU_SHELL_H_
#define VMCU_SHELL_H_

#include <stddef.h>

#ifdef __cplusplus
extern "C" {
#endif

/**
 * @defgroup vmcu_shell Shell
 * @{
 */

/**
 * @brief Sets the pool of the shell, instead of its own of CONFIG_VMCU_SHELL_POOL_SIZE bytes.
 *
 * Waits for the end of a running command. The shell owns the pool until the next call of this
 * function.
 *
 * @param pool Pool aligned to VMCU_POOL_ALIGN; NULL: commands that require a pool fail.
 * @param size Bytes at @a pool.
 *
 * @retval 0       Done.
 * @retval -EINVAL The pool is misaligned.
 */
int vmcu_shell_set_pool(void *pool, size_t size);

/** @} */

#ifdef __cplusplus
}
#endif

#endif /* VMCU_SHELL_H_ */
