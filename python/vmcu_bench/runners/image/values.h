/*
 * SPDX-License-Identifier: Apache-2.0
 */

/**
 * @file
 * @brief Samples in the file's own form, through vmcu/convert.h; for images with IMAGE_VALUES.
 *
 * INPUT_FILE then begins with one byte a port, inputs first: an enum value_form. IMAGE_VALUES is
 * the size of the largest input or output in bytes.
 */

#ifndef VALUES_H_
#define VALUES_H_

#include <stdbool.h>

#include <vmcu/vmcu.h>

/** Formats of a port's values in INPUT_FILE and OUTPUT_FILE. */
enum value_form {
	VALUE_BYTES, /**< as in memory: not converted here */
	VALUE_FLOAT,
	VALUE_UINT8,
};

/** @brief Reads the ports' forms; false if the file is too short for them. */
bool values_open(const struct vmcu_model *model, int file);

/** @brief True if input @a i is to be read by values_read(). */
bool values_has_input(unsigned int i);

/** @brief True if output @a i is to be written by values_write(). */
bool values_has_output(const struct vmcu_model *model, unsigned int i);

/** @brief Fills input @a i from the file; false when it holds no further one. */
bool values_read(const struct vmcu_context *ctx, unsigned int i, int file);

/** @brief Writes output @a i to the file. */
bool values_write(const struct vmcu_context *ctx, unsigned int i, int file);

#endif /* VALUES_H_ */
