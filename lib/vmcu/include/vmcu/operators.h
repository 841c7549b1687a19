/*
 * SPDX-License-Identifier: Apache-2.0
 */

/**
 * @file
 * @brief Kernels of the operators between a network's big layers, see kernels.h.
 */

#ifndef VMCU_OPERATORS_H_
#define VMCU_OPERATORS_H_

#include <vmcu/kernels.h>

#ifdef __cplusplus
extern "C" {
#endif

/**
 * @addtogroup vmcu_kernels
 * @{
 */

struct vmcu_lookup_params {
	const int8_t *table; /**< 256 results, for -128 to 127 */
};

/** @brief Any function of one value. For each byte, ascending: reads, then writes. */
void vmcu_lookup(const struct vmcu_call *call);

/**
 * What vmcu_binary() makes of two values a and b with their zero points taken out. "Terms" are
 * these, shifted left and times the factors of their operand.
 */
enum vmcu_binary_kind {
	VMCU_BINARY_SUM,        /**< of the terms, times @a output */
	VMCU_BINARY_DIFFERENCE, /**< first less second term, times @a output */
	VMCU_BINARY_REVERSED,   /**< second less first term, times @a output */
	VMCU_BINARY_SQUARED,    /**< the terms' difference squared, times @a output */
	VMCU_BINARY_PRODUCT,    /**< of a and b, times @a output */
	VMCU_BINARY_MINIMUM,    /**< of the terms; without @a rescale of the bytes as they are */
	VMCU_BINARY_MAXIMUM,    /**< as the minimum */
	VMCU_BINARY_PRELU,     /**< the first term; where a is negative a times b times @a output */
	VMCU_BINARY_FLOAT_SUM, /**< as ONNX Runtime has it, by @a sum */
	VMCU_BINARY_FLOAT_PRODUCT, /**< as ONNX Runtime has it, by @a output: a line or a float32 */
	VMCU_BINARY_QUOTIENT,      /**< a / b, times @a output; the largest value where b is zero */
};

/** An operand's sizes are 1, which repeats it, or the output's. */
struct vmcu_binary_params {
	struct vmcu_factor a;
	struct vmcu_factor b;
	struct vmcu_factor output;
	const struct vmcu_float_sum *sum; /**< of VMCU_BINARY_FLOAT_SUM */
	const int8_t *constant;           /**< the second operand; NULL: it is input 1 */
	uint16_t constant_height;
	uint16_t constant_width;
	uint16_t constant_channels;
	uint8_t kind; /**< enum vmcu_binary_kind */
	uint8_t left_shift;
	bool rescale;
	int8_t a_zero;
	int8_t b_zero;
	int8_t output_zero;
	int8_t act_min;
	int8_t act_max;
	uint8_t offset; /**< of the file's bytes from int8: VMCU_BINARY_FLOAT_PRODUCT */
};

/** @brief Two operands, element by element. For each byte, ascending: reads both, then writes. */
void vmcu_binary(const struct vmcu_call *call);

/**
 * Output byte (y, x, c) is byte rows[y] + columns[x] + channels[c / run] + c % run of the input;
 * no run is split by the end of an input row.
 */
struct vmcu_move_params {
	const int32_t *rows;
	const int32_t *columns;
	const int32_t *channels;
	uint16_t run;
};

/**
 * @brief Another arrangement of the input's bytes, all of which must exist.
 *
 * For each byte, ascending: reads, then writes.
 */
void vmcu_move(const struct vmcu_call *call);

/**
 * @brief For each output index two input indices and the weight of the second one in 1/1024.
 *
 * Without @a rescale the scale and the zero point are kept.
 */
struct vmcu_resize_params {
	const int16_t *rows;
	const int16_t *columns;
	struct vmcu_factor factor; /**< of a sum of taps, whose weights sum up to 2^20 */
	bool rescale;
	int8_t input_zero;
	int8_t output_zero;
	int8_t act_min;
	int8_t act_max;
};

/** @brief Linear interpolation. For each byte, ascending: reads four taps, then writes. */
void vmcu_resize(const struct vmcu_call *call);

/** Factors are fixed point, or float32 where @a scale is not NULL; one for each channel. */
struct vmcu_transpose_conv_params {
	const int8_t *weights; /**< output channel, kernel row, kernel column, input channel */
	const int32_t *bias;
	const int32_t *multiplier;
	const int32_t *shift;
	const float *scale;
	struct vmcu_window window; /**< its padding is what is cut from the full result */
	uint16_t groups;
	uint16_t depth; /**< input channels of a group */
	int8_t input_zero;
	int8_t output_zero;
	int8_t act_min;
	int8_t act_max;
};

/**
 * @brief Transposed convolution.
 *
 * For each pixel, for each channel: reads all taps, then writes the channel.
 */
void vmcu_transpose_conv(const struct vmcu_call *call);

/**
 * @a gain and @a offset, one for every @a run neighbours, have @a bits fractional bits; after
 * @a factors of them they start again.
 */
struct vmcu_layer_norm_params {
	const int32_t *gain;
	const int32_t *offset;
	int64_t epsilon; /**< added to the variance times the square of the number of channels */
	int32_t factors;
	int32_t run;
	uint8_t bits;
	bool centred; /**< takes the mean out */
	int8_t input_zero;
	int8_t output_zero;
	int8_t act_min;
	int8_t act_max;
};

/**
 * @brief Brings the channels of each pixel to mean 0 and variance 1, or only the mean of their
 * squares to 1, times a gain, plus an offset.
 *
 * For each pixel: reads all of it, then for each channel, ascending: reads it again, then writes.
 */
void vmcu_layer_norm(const struct vmcu_call *call);

/** @a step and @a gain are in units of 1/65536 of the output's step. */
struct vmcu_log_softmax_onnx_params {
	const uint32_t *exp; /**< as for vmcu_softmax_onnx() */
	int64_t gain;        /**< of a logarithm to the base of two */
	int32_t step;        /**< of the input */
	int8_t output_zero;
	int8_t act_min;
	int8_t act_max;
};

/**
 * @brief Logarithm of softmax over the channels of each pixel.
 *
 * For each pixel: reads all of it, then for each channel, ascending: reads it again, then writes.
 */
void vmcu_log_softmax_onnx(const struct vmcu_call *call);

/** Both tables are indexed by the pixel's maximum minus q and have VMCU_SOFTMAX_ENTRIES. */
struct vmcu_log_softmax_tflite_params {
	const uint32_t *exp;   /**< in Q0.31 */
	const int32_t *scaled; /**< the negative difference itself, in Q5.26 */
	int8_t act_min;
	int8_t act_max;
};

/** @brief The same as TensorFlow Lite has it, in 1/16 below 127. */
void vmcu_log_softmax_tflite(const struct vmcu_call *call);

struct vmcu_l2_norm_params {
	int8_t input_zero;
	int8_t act_min;
	int8_t act_max;
};

/**
 * @brief Divides the channels of each pixel by the root of the sum of their squares; the output
 * counts in 1/128.
 *
 * For each pixel: reads all of it, then for each channel, ascending: reads it again, then writes.
 */
void vmcu_l2_norm(const struct vmcu_call *call);

struct vmcu_hardmax_params {
	int8_t one;  /**< what the largest channel becomes, the first of equal ones */
	int8_t zero; /**< what the others become */
};

/**
 * @brief Marks the largest channel of each pixel.
 *
 * For each pixel: reads all of it, then for each channel, ascending: reads it again, then writes.
 */
void vmcu_hardmax(const struct vmcu_call *call);

struct vmcu_arg_max_params {
	bool smallest; /**< looks for the smallest channel instead */
	bool last;     /**< takes the last of equal ones */
};

/**
 * @brief The number of the largest channel, an int32 whose bytes are four channels.
 *
 * For each pixel: reads all of it, then writes four bytes, the least significant one first.
 */
void vmcu_arg_max(const struct vmcu_call *call);

/** @} */

#ifdef __cplusplus
}
#endif

#endif /* VMCU_OPERATORS_H_ */
