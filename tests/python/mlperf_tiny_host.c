/*
 * SPDX-License-Identifier: Apache-2.0
 */

/* samples/mlperf_tiny/src/protocol.c on this computer: it reads commands from stdin. The model
 * takes a millisecond, its output is its input reversed. argv: the form of the input, int8, uint8
 * or float32. The buffers are of calloc(), so that a sanitizer sees a byte outside.
 */

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "protocol.h"

#define BYTES 40

static struct dut *dut;
static float *reals;
static int8_t *input, *output;
static uint64_t inferences;

static const int8_t *infer(void)
{
	inferences++;
	for (size_t i = 0; i < BYTES; i++) {
		output[i] = input[BYTES - 1U - i];
	}
	return output;
}

static uint64_t microseconds(void)
{
	return 1000U * inferences;
}

int main(int argc, char **argv)
{
	const int is_real = argc > 1 && strcmp(argv[1], "float32") == 0;
	int character;

	dut = calloc(1, sizeof(*dut));
	reals = calloc(BYTES, sizeof(float));
	input = calloc(BYTES, 1);
	output = calloc(BYTES, 1);
	*dut = (struct dut){
		.benchmark = "host",
		.in = {BYTES, 0.5f, 3},
		.out = {BYTES, 0.25f, -4},
		.input = input,
		.data = is_real ? (uint8_t *)reals : (uint8_t *)input,
		.data_bytes = is_real ? BYTES * sizeof(float) : BYTES,
		.offset = (argc > 1 && strcmp(argv[1], "uint8") == 0) ? 128U : 0U,
		.reals = is_real ? reals : NULL,
		.infer = infer,
		.microseconds = microseconds,
	};
	while ((character = getchar()) != EOF) {
		dut_receive(dut, (char)character);
	}
	return 0;
}
