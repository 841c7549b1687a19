/*
 * SPDX-License-Identifier: Apache-2.0
 */

/**
 * @file
 * @brief Conversion of inputs and outputs to the model file's types and layout: real or uint8,
 * channels first or last.
 *
 * The results are bit-identical to those of the file's runtime (TensorFlow Lite Micro or ONNX
 * Runtime). If your values are int8 with the channels last, write them to vmcu_input() instead.
 * int16 and int32 elements, which the model's header names, are not converted: read and write them
 * in vmcu_input() and vmcu_output().
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
 * @param index  Index of the input.
 * @param values vmcu_input_size() values, in the order of the file's axes. NaN becomes the least
 *               value.
 *
 * @retval 0        Done.
 * @retval -EINVAL  A pointer is NULL, or there is no such input.
 * @retval -ENOTSUP The model was built with --stream-input or --external-input: the pool does not
 *                  contain the whole input; or the input has VMCU_IO_WIDE.
 */
int vmcu_set_float(const struct vmcu_context *ctx, unsigned int index, const float *values);

/** @brief vmcu_set_float() for uint8 values, whose zero point is 128 above that of int8. */
int vmcu_set_uint8(const struct vmcu_context *ctx, unsigned int index, const uint8_t *values);

/**
 * @brief Reads output @a index as real values.
 *
 * @param ctx    Context after vmcu_invoke().
 * @param index  Index of the output.
 * @param values Buffer for vmcu_output_size() values, in the order of the file's axes.
 *
 * @retval 0        Done.
 * @retval -EINVAL  A pointer is NULL, or there is no such output.
 * @retval -ENOTSUP The output has VMCU_IO_WIDE.
 */
int vmcu_get_float(const struct vmcu_context *ctx, unsigned int index, float *values);

/** @brief Reads output @a index as uint8 values, see vmcu_get_float(). */
int vmcu_get_uint8(const struct vmcu_context *ctx, unsigned int index, uint8_t *values);

/** @} */

#ifdef __cplusplus
}
#endif

#endif /* VMCU_CONVERT_H_ */
