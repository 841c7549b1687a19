/*
 * SPDX-License-Identifier: Apache-2.0
 */

/** @file @brief The digits network with its weights elsewhere, and inferences of it. */

#ifndef TEST_DIGITS_WEIGHTS_H_
#define TEST_DIGITS_WEIGHTS_H_

#include <stddef.h>
#include <stdint.h>

#include <vmcu/weights.h>

#include "digits.h"

#define PRIORITY  -1
#define THE_STACK 2048
#define OUTPUTS   VMCU_MODEL_DIGITS_OUTPUT0_BYTES

struct weights {
	const uint8_t *data;
	size_t size;
};

/** Those of read_model, and those that another build of it wrote. */
extern const struct weights right_weights, other_weights;

/** Runs read_model on the first image and returns what vmcu_invoke() did. */
int infer_first(const struct vmcu_reader *reader);

/** Checks the outputs of all images. */
void is_right(const struct vmcu_reader *reader);

#endif /* TEST_DIGITS_WEIGHTS_H_ */
