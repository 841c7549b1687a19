/*
 * SPDX-License-Identifier: Apache-2.0
 */

/* samples/mlperf_tiny/src/protocol.c on this computer: commands from stdin, and a model whose output
 * is its input reversed. argv: the form of the input (int8, uint8 or float32). Buffers are of
 * malloc(), so that a sanitizer sees any byte outside.
 */

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "protocol.h"

#define BYTES 40

static int8_t *input, *output;

static const int8_t *infer(void)
{
	for (size_t i = 0; i < BYTES; i++) {
		output[i] = input[BYTES - 1U - i];
	}
	return output;
}

static uint64_t microseconds(void)
{
	static uint64_t now;

	return now += 250U;
}

int main(int argc, char **argv)
{
	const char *form = (argc > 1) ? argv[1] : "int8";
	const int is_real = strcmp(form, "float32") == 0;
	struct dut *dut = calloc(1, sizeof(*dut));
	float *reals = calloc(BYTES, sizeof(float));
	int character;

	input = calloc(BYTES, 1);
	output = calloc(BYTES, 1);
	*dut = (struct dut){
		.benchmark = "host",
		.in = {BYTES, 0.5f, 3},
		.out = {BYTES, 0.25f, -4},
		.input = input,
		.data = is_real ? (uint8_t *)reals : (uint8_t *)input,
		.data_bytes = is_real ? BYTES * sizeof(float) : BYTES,
		.offset = (strcmp(form, "uint8") == 0) ? 128U : 0U,
		.reals = is_real ? reals : NULL,
		.infer = infer,
		.microseconds = microseconds,
	};
	while ((character = getchar()) != EOF) {
		dut_receive(dut, (char)character);
	}
	free(dut);
	free(reals);
	free(input);
	free(output);
	return 0;
}
