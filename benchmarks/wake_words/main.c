/*
 * SPDX-License-Identifier: Apache-2.0
 */

/* Runs main.c of examples/esp-idf on an emulated Cortex-M4 with noise as its sound, and prints
 * the bytes of the driver's buffers and of the stack.
 */

#include <stdio.h>
#include <string.h>

#include "microphone.h"

#define SECONDS 3
#define PAINT   0xa5
#define PAINTED 8192

void app_main(void);

int microphone_start(void)
{
	return 0;
}

int microphone_read(int16_t *samples)
{
	static uint32_t left = SECONDS * MICROPHONE_RATE / MICROPHONE_BLOCK, noise = 1;

	for (unsigned int i = 0; i < MICROPHONE_BLOCK; i++) {
		noise = noise * 1664525U + 1013904223U;
		samples[i] = (int16_t)(noise >> 18);
	}
	return (left-- > 0U) ? 0 : -1;
}

int main(void)
{
	uint8_t *const top = __builtin_frame_address(0);
	uint8_t *volatile end = top - PAINTED;

	/* memset() and its caller have frames of fewer than 64 bytes. */
	memset(end, PAINT, PAINTED - 64);
	app_main();
	while (*end == PAINT) {
		end++;
	}
	printf("%d %d\n", (int)(MICROPHONE_BLOCKS * MICROPHONE_BLOCK * sizeof(int16_t)),
	       (int)(top - end));
	return 0;
}
