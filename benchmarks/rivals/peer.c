/*
 * SPDX-License-Identifier: Apache-2.0
 */

/**
 * @file
 * @brief Runs the layer of peer.h on the input of inputs.bin and writes outputs.bin.
 */

#include <stdbool.h>

#include "arm_nnfunctions.h"
#include "semihosting.h"

#include "peer.h"

static int8_t input[INPUT_BYTES] __attribute__((aligned(16)));
static int8_t output[OUTPUT_BYTES] __attribute__((aligned(16)));

int main(void)
{
	int file = vmcu_semihosting_open("inputs.bin", false);
	size_t count = vmcu_semihosting_read(file, input, sizeof(input));

	vmcu_semihosting_close(file);
	if (count != sizeof(input) || prepare() != 0) {
		return 1;
	}
	if (run_layer(input, output) != 0) {
		return 2;
	}
	file = vmcu_semihosting_open("outputs.bin", true);
	count = vmcu_semihosting_write(file, output, sizeof(output));
	vmcu_semihosting_close(file);
	return (count == sizeof(output)) ? 0 : 1;
}
