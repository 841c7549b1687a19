/*
 * SPDX-License-Identifier: Apache-2.0
 */

#ifndef MICROPHONE_H_
#define MICROPHONE_H_

#include <stdint.h>

#define MICROPHONE_RATE   16000
/** Samples of a block, 10 ms. */
#define MICROPHONE_BLOCK  160
/** Blocks that the driver buffers. */
#define MICROPHONE_BLOCKS 6

/** @brief Starts the microphone. Returns 0 or a negative number. */
int microphone_start(void);

/** @brief Waits for MICROPHONE_BLOCK samples. Returns 0 or a negative number. */
int microphone_read(int16_t *samples);

#endif /* MICROPHONE_H_ */
