/*
 * SPDX-License-Identifier: Apache-2.0
 */

/**
 * @file
 * @brief Inputs and outputs as the model file has them: real or unsigned, channels first or last.
 *
 * The results are to the bit those of the runtime that the file was written for. Whoever has int8
 * values with the channels last needs none of this and writes to vmcu_input() directly.
 */

#ifndef VMCU_CONVERT_H_
#define VMCU_CONVERT_H_

#include <stdint.h>

#include <vmcu/vmcu.h>

#ifdef __cplusplus
extern "C" {
#endif

/**
 * @addtogroup vmcu
 * @{
 */

/**
 * @brief Quantises real values into input @a index.
 *
 * @param ctx    Context that vmcu_init() has set up.
 * @param index  Which input.
 * @param values vmcu_input_size() of them, in the order of the file's axes. What is no number
 *               becomes the least value.
 *
 * @retval 0        Done.
 * @retval -EINVAL  A pointer is NULL, or there is no such input.
 * @retval -ENOTSUP The model was built with --stream-input or --external-input: the pool has no
 *                  whole input.
 */
int vmcu_set_float(const struct vmcu_context *ctx, unsigned int index, const float *values);

/** @brief The same for values of an uint8 input, whose zero point is 128 above that of int8. */
int vmcu_set_uint8(const struct vmcu_context *ctx, unsigned int index, const uint8_t *values);

/**
 * @brief Output @a index as real values.
 *
 * @param ctx    Context that vmcu_invoke() has run.
 * @param index  Which output.
 * @param values Room for vmcu_output_size() of them, in the order of the file's axes.
 *
 * @retval 0       Done.
 * @retval -EINVAL A pointer is NULL, or there is no such output.
 */
int vmcu_get_float(const struct vmcu_context *ctx, unsigned int index, float *values);

/** @brief The same as the values of an uint8 output. */
int vmcu_get_uint8(const struct vmcu_context *ctx, unsigned int index, uint8_t *values);

/** @} */

#ifdef __cplusplus
}
#endif

#endif /* VMCU_CONVERT_H_ */
