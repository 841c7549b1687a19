/*
 * SPDX-License-Identifier: Apache-2.0
 */

/**
 * @file
 * @brief The pool in which shell commands run models: CONFIG_VMCU_SHELL.
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
 * @brief Lends the shell a pool, in place of CONFIG_VMCU_SHELL_POOL_SIZE bytes of its own.
 *
 * Waits for a command that is running. The pool is the shell's until another call takes it back.
 *
 * @param pool Aligned to VMCU_POOL_ALIGN; NULL: commands that need a pool say that there is none.
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
