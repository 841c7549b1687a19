/*
 * SPDX-License-Identifier: Apache-2.0
 */

/**
 * @file
 * @brief The files and the console that the image reads samples from and reports to.
 */

#ifndef IO_H_
#define IO_H_

#include <stdbool.h>
#include <stddef.h>

/** @brief Opens a file in the working directory; negative on failure. */
int io_open(const char *name, bool write);

/** @brief Reads up to @a size bytes; returns how many came, 0 at the end. */
size_t io_read(int file, void *data, size_t size);

/** @brief Writes @a size bytes; returns how many went. */
size_t io_write(int file, const void *data, size_t size);

/** @brief Closes a file. */
void io_close(int file);

/** @brief Prints a message. */
void io_print(const char *text);

#endif /* IO_H_ */
