/*
 * SPDX-License-Identifier: Apache-2.0
 */

/** @file @brief Motions to try the sample with, as train.py makes them. */

#ifndef MOTIONS_H_
#define MOTIONS_H_

#include <stdint.h>

/** Milliseconds between two samples. */
#define MOTIONS_STEP_MS 20

/** Sample @a n, x, y and z in mm/s^2 with gravity; the device rests when all motions are over. */
void motions_sample(uint32_t n, int32_t accel[3]);

#endif /* MOTIONS_H_ */
