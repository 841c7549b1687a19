/*
 * SPDX-License-Identifier: Apache-2.0
 */

/** @file @brief A file system in RAM, see files.overlay. */

#ifndef SAMPLE_RAM_DISK_H_
#define SAMPLE_RAM_DISK_H_

#include <stddef.h>

/** Where its files are. */
#define RAM_DISK_MOUNT "/models"

/** Makes the file system anew and mounts it; 0 or a negative errno. */
int ram_disk_mount(void);

/** Writes a file, in place of one that is there; 0 or a negative errno. */
int ram_disk_write(const char *path, const void *data, size_t size);

#endif /* SAMPLE_RAM_DISK_H_ */
