/*
 * SPDX-License-Identifier: Apache-2.0
 */

/** @file @brief WAV files of the computer that native_sim runs on. */

#ifndef WAV_H_
#define WAV_H_

#include <stddef.h>
#include <stdint.h>

/**
 * Opens a file with one channel of 16 bit at @a rate.
 *
 * @retval 0       Samples come next.
 * @retval -ENOENT There is no such file.
 * @retval -EINVAL It has something else in it, which was printed.
 */
int wav_open(const char *path, uint32_t rate);

/** Reads the next samples; how many there were. */
size_t wav_read(int16_t *samples, size_t count);

#endif /* WAV_H_ */
