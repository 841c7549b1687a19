/*
 * SPDX-License-Identifier: Apache-2.0
 */

/* Where blocks of sound come from: microphone_dmic.c or microphone_tune.c. */

#ifndef MICROPHONE_H_
#define MICROPHONE_H_

#include <stdint.h>

#include "front_end.h"

/** Samples of a block. */
#define BLOCK_SAMPLES FRONT_END_HOP
/** Blocks that may wait until somebody has time for them. */
#define BLOCKS        4

/** Starts it: 0, or a negative errno. */
int microphone_start(void);

/**
 * Waits for the next block, which stays as it is until the next call: 0, -ENODATA after the last
 * one, or another negative errno.
 */
int microphone_read(const int16_t **block);

/** Blocks that came when too many were waiting. */
unsigned int microphone_lost(void);

#endif /* MICROPHONE_H_ */
