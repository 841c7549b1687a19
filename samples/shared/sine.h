/*
 * SPDX-License-Identifier: Apache-2.0
 */

/** @file @brief A sine without floating point, for signals that samples make themselves. */

#ifndef SAMPLE_SINE_H_
#define SAMPLE_SINE_H_

#include <stdint.h>

/** A whole turn of the phase, and a quarter. */
#define TURN    65536
#define QUARTER (TURN / 4)

/** A sine of up to 4096, by a parabola. */
static inline int32_t sine(uint32_t phase)
{
	int32_t at = (int32_t)(phase % TURN);
	int32_t half = at % (TURN / 2);
	int32_t value = half * (TURN / 2 - half) / (QUARTER * QUARTER / 4096);

	return (at < TURN / 2) ? value : -value;
}

#endif /* SAMPLE_SINE_H_ */
