/*
 * SPDX-License-Identifier: Apache-2.0
 */

/**
 * @file
 * @brief Runs the layer of constants.h on the input of inputs.bin and writes outputs.bin.
 */

#include <stdbool.h>

#include "constants.h"
#include "layer.h"
#include "semihosting.h"

static int8_t input[INPUT_BYTES] __attribute__((aligned(4)));
static int8_t output[OUTPUT_BYTES] __attribute__((aligned(4)));
static int16_t buffer[BUFFER_HALVES] __attribute__((aligned(4)));

int main(void)
{
	int file = vmcu_semihosting_open("inputs.bin", false);
	size_t count = vmcu_semihosting_read(file, input, sizeof(input));

	vmcu_semihosting_close(file);
	if (count != sizeof(input)) {
		return 1;
	}
	run_layer(layer, input, output, buffer);
	file = vmcu_semihosting_open("outputs.bin", true);
	count = vmcu_semihosting_write(file, output, sizeof(output));
	vmcu_semihosting_close(file);
	return (count == sizeof(output)) ? 0 : 1;
}
