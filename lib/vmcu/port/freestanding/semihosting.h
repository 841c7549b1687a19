/*
 * SPDX-License-Identifier: Apache-2.0
 */

/**
 * @file
 * @brief Files, console and exit code of the machine that debugs or emulates this one.
 */

#ifndef VMCU_SEMIHOSTING_H_
#define VMCU_SEMIHOSTING_H_

#include <stdbool.h>
#include <stddef.h>

/**
 * @defgroup vmcu_semihosting Semihosting
 * @{
 */

/** @brief Opens a file for reading or for writing; returns a handle, negative on failure. */
int vmcu_semihosting_open(const char *path, bool write);

/** @brief Reads up to @a size bytes; returns how many came, 0 at the end. */
size_t vmcu_semihosting_read(int handle, void *data, size_t size);

/** @brief Writes @a size bytes; returns how many went. */
size_t vmcu_semihosting_write(int handle, const void *data, size_t size);

/** @brief Closes a handle; the written bytes are then on the host's disk. */
void vmcu_semihosting_close(int handle);

/** @brief Prints on the host's console. */
void vmcu_semihosting_print(const char *text);

/** @brief Ends the machine with an exit code. */
void vmcu_semihosting_exit(int code) __attribute__((noreturn));

/** @} */

#endif /* VMCU_SEMIHOSTING_H_ */
