/*
 * SPDX-License-Identifier: Apache-2.0
 */

/** @file @brief A file system in RAM with room for one file, for a transport to put it there. */

#ifndef SAMPLE_ONE_FILE_H_
#define SAMPLE_ONE_FILE_H_

/** The file. */
#define ONE_FILE_MOUNT "/models"
#define ONE_FILE_PATH  ONE_FILE_MOUNT "/incoming.update"
/** The most that it holds: what a slot does. */
#define ONE_FILE_BYTES 0x4000

/** Mounts it; 0 or a negative errno. */
int one_file_mount(void);

#endif /* SAMPLE_ONE_FILE_H_ */
