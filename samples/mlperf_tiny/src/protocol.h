/*
 * SPDX-License-Identifier: Apache-2.0
 */

/**
 * @file
 * @brief The device's side of the serial protocol of MLPerf Tiny, in performance mode.
 *
 * Plain C99: answers are printed to stdout.
 */

#ifndef PROTOCOL_H_
#define PROTOCOL_H_

#include <stddef.h>
#include <stdint.h>

/** A command has fewer characters, as in the benchmark's own firmware. */
#define DUT_COMMAND_BYTES 80

/** int8 values: real = scale * (q - zero_point). */
struct dut_tensor {
	size_t bytes;
	float scale;
	int zero_point;
};

/** A device under test. The caller sets the fields up to microseconds, the others are 0. */
struct dut {
	const char *benchmark; /**< name in m-model-[] */
	struct dut_tensor in;
	struct dut_tensor out;
	int8_t *input; /**< in.bytes bytes that @a infer reads and does not write */
	uint8_t *data; /**< where the runner's bytes go: to the input, or to @a reals */
	size_t data_bytes;
	uint8_t offset; /**< 128 if the runner sends uint8, which is 128 more than the input */
	/**
	 * NULL, or in.bytes values that the runner sends as float32. Then the result is the mean
	 * squared difference of the output from them.
	 */
	const float *reals;
	/** Runs the model. Returns its output, NULL if it failed. */
	const int8_t *(*infer)(void);
	/** Returns the time since an arbitrary start. */
	uint64_t (*microseconds)(void);

	const int8_t *output; /**< of the last inference, NULL if there is none */
	size_t expected;      /**< bytes announced by db load */
	size_t loaded;        /**< bytes of them that have arrived */
	size_t length; /**< characters in @a command; if it is full, the command is too long */
	char command[DUT_COMMAND_BYTES + 1];
};

/** Reads the next character from the runner. Executes the command that it ends. */
void dut_receive(struct dut *dut, char character);

#endif /* PROTOCOL_H_ */
