/*
 * SPDX-License-Identifier: Apache-2.0
 */

/**
 * @file
 * @brief The kernels and the parameters that compiled models hand to them.
 *
 * A kernel computes columns of one output row. Those that work on "whole inputs" compute whole
 * rows only, and no ring splits a row of theirs. For a layer without a window, no ring splits the
 * columns of the inputs that the call names, either. Input and output may share bytes of the pool:
 * the planner knows the order in which each kernel reads and writes, and that order, documented
 * with each kernel, is part of its interface.
 */

#ifndef VMCU_KERNELS_H_
#define VMCU_KERNELS_H_

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include <vmcu/model.h>

#ifdef __cplusplus
extern "C" {
#endif

/**
 * @defgroup vmcu_kernels Kernels
 * @{
 */

/** A number in tables that every core, x86 with 32 bits too, aligns as Arm does. */
typedef int64_t vmcu_long_t __attribute__((aligned(8)));

/** How an output pixel looks at its input. Padding below and right follows from the sizes. */
struct vmcu_window {
	uint16_t kernel_h;
	uint16_t kernel_w;
	uint16_t stride_h;
	uint16_t stride_w;
	uint16_t dilation_h;
	uint16_t dilation_w;
	int16_t pad_top;
	int16_t pad_left;
};

/** A fixed-point factor for a whole tensor, see vmcu_fixed_scale(). */
struct vmcu_factor {
	int32_t multiplier;
	int32_t shift;
};

/**
 * What generated kernels with weights have in common. Weights, biases and factors are one stream,
 * laid out by the compiler in the order in which the kernel reads them, with the input's zero
 * point folded into the biases.
 */
struct vmcu_mac_params {
	const void *stream;
	struct vmcu_window window;
	uint16_t groups;
	uint16_t depth; /**< input channels of a group */
	/** taps of a window that are contiguous in the input; depthwise: 0 if a group's outputs all
	 * read one input channel, else 1
	 */
	uint16_t run;
	/** a window's taps in fours; depthwise: pixels of a strip */
	uint16_t steps;
	int8_t input_zero;
	int8_t output_zero;
	int8_t act_min;
	int8_t act_max;
	uint8_t is_float; /**< factors are float32, as in .onnx; else fixed point */
	/** taps of a window, at most 32, lie side by side; else each run begins at a multiple of
	 * four
	 */
	uint8_t packed;
};

/**
 * @brief 1 x 1 convolution without stride and padding.
 *
 * Reads four pixels, then writes their output channels in pairs.
 */
void vmcu_pointwise(const struct vmcu_call *call);

/** vmcu_pointwise() with half the scratch: reads two pixels, then writes channels in fours. */
void vmcu_pointwise_narrow(const struct vmcu_call *call);

/**
 * @brief Fully connected layer, or a convolution with one column of output and no padding.
 *
 * For each four output channels: reads all taps, then writes the channels. No scratch. Whole
 * inputs.
 */
void vmcu_dense(const struct vmcu_call *call);

/**
 * @brief Convolution of any window.
 *
 * For each four pixels, for each group: reads their windows, then writes the channels in pairs.
 */
void vmcu_conv(const struct vmcu_call *call);

/** vmcu_conv() with half the scratch: reads the windows of two pixels, then writes fours. */
void vmcu_conv_narrow(const struct vmcu_call *call);

/**
 * @brief Depthwise convolution of 3 x 3, 5 x 5 or 7 x 7 taps at a horizontal stride of 1 or 2.
 *
 * For each strip of pixels, for each four channels: reads their windows, then writes the channels:
 * those of the strip, or of four pixels at once where windows are larger than 3 x 3.
 * @{
 */
void vmcu_depthwise_3_1(const struct vmcu_call *call);
void vmcu_depthwise_3_2(const struct vmcu_call *call);
void vmcu_depthwise_5_1(const struct vmcu_call *call);
void vmcu_depthwise_5_2(const struct vmcu_call *call);
void vmcu_depthwise_7_1(const struct vmcu_call *call);
void vmcu_depthwise_7_2(const struct vmcu_call *call);
/** @} */

/**
 * @brief Depthwise convolution of any window; input channels may have several outputs.
 *
 * For each pixel, for each four output channels of a group: reads the taps, then writes the
 * channels. Scratch is four bytes a tap. A group are all channels, or all outputs of one input
 * channel.
 */
void vmcu_depthwise_any(const struct vmcu_call *call);

/** @a bias, which has the zero points and half a unit, has @a shift fractional bits, the factors
 * of both bytes have eight more.
 */
struct vmcu_add_params {
	int32_t a_scale;
	int32_t b_scale;
	int32_t bias;
	int32_t shift;
};

/**
 * @brief Sum of two tensors, cut to int8.
 *
 * For each four channels of a pixel, then for each one that is left: reads both inputs, then
 * writes.
 */
void vmcu_add(const struct vmcu_call *call);

/** Both inputs are shifted left, brought to one scale, added and brought to the output's scale. */
struct vmcu_add_exact_params {
	struct vmcu_factor a;
	struct vmcu_factor b;
	struct vmcu_factor output;
	uint8_t left_shift;
	int8_t a_zero;
	int8_t b_zero;
	int8_t output_zero;
	int8_t act_min;
	int8_t act_max;
};

/** @brief Sum of two tensors, for any factors. For each byte: reads both inputs, then writes. */
void vmcu_add_exact(const struct vmcu_call *call);

/** Fractional bits of what struct vmcu_float_sum has of float32 numbers: no bit of one is lower. */
#define VMCU_FLOAT_SUM_SHIFT 43

/**
 * A sum of two bytes in float32, see python/vmcu_tools/quant.py: FloatSum. `bias` and the scales
 * have @a shift fractional bits. A sum that has none of the bits in @a fraction may be rounded
 * either way by float32: @a constant, @a a and @a b, to the bit, are for these.
 */
struct vmcu_float_sum {
	vmcu_long_t a;
	vmcu_long_t b;
	vmcu_long_t constant;
	int32_t a_scale;
	int32_t b_scale;
	int32_t bias;
	int32_t fraction;
	uint8_t shift;
	uint8_t offset; /**< of the file's bytes from int8 */
};

struct vmcu_add_float_params {
	struct vmcu_float_sum sum;
	bool narrow; /**< the bounds are not those of int8 */
	int8_t act_min;
	int8_t act_max;
};

/**
 * @brief Sum of two tensors, as ONNX Runtime has it. For each byte: reads both inputs, then writes.
 */
void vmcu_add_float(const struct vmcu_call *call);

/** What vmcu_average_pool() makes of a window's sum. */
enum vmcu_mean {
	VMCU_MEAN_KEPT,         /**< its mean: input and output share scale and zero point */
	VMCU_MEAN_OF_256,       /**< 256 times its mean, times @a factor */
	VMCU_MEAN_OF_SUM,       /**< the sum times @a factor, which holds the count */
	VMCU_MEAN_OF_SUM_FLOAT, /**< the same with a float32, whose bits are the multiplier */
};

struct vmcu_average_pool_params {
	struct vmcu_window window;
	struct vmcu_factor factor;
	uint8_t rescale;    /**< enum vmcu_mean */
	bool count_padding; /**< padding counts as taps that hold @a input_zero */
	int8_t input_zero;
	int8_t output_zero;
	int8_t act_min;
	int8_t act_max;
};

/**
 * @brief Mean over a window.
 *
 * For each pixel, for each four channels: reads the taps, then writes the channels.
 */
void vmcu_average_pool(const struct vmcu_call *call);

/**
 * @brief Mean over the whole image, as it comes: adds @a columns pixels of input row @a y from @a x
 * on to the sums in scratch, and with the last of them writes the output.
 *
 * The sums, by channel, are int16 if the image has at most 256 pixels, else int32.
 *
 * Takes struct vmcu_average_pool_params.
 */
void vmcu_average_pool_sum(const struct vmcu_call *call);

struct vmcu_max_pool_params {
	struct vmcu_window window;
	int8_t act_min;
	int8_t act_max;
};

/**
 * @brief Maximum over a window; padding never takes part.
 *
 * For each pixel, for each four channels: reads the taps, then writes the channels.
 */
void vmcu_max_pool(const struct vmcu_call *call);

/** Where the input sits in the output; whatever it leaves uncovered becomes @a value. */
struct vmcu_pad_params {
	int16_t top;
	int16_t left;
	int16_t before; /**< channels */
	int8_t value;
};

/** @brief Constant padding. For each byte, ascending: reads the input byte if any, then writes. */
void vmcu_pad(const struct vmcu_call *call);

/**
 * @brief The same bytes in rows of another length. No parameters.
 *
 * For each byte, ascending: reads, then writes. Whole inputs.
 */
void vmcu_reshape(const struct vmcu_call *call);

enum vmcu_axis {
	VMCU_AXIS_HEIGHT,
	VMCU_AXIS_WIDTH,
	VMCU_AXIS_CHANNELS,
};

/** Entries of a table of results, see vmcu_lookup(). */
#define VMCU_TABLE_ENTRIES 256

struct vmcu_concat_params {
	const int8_t *tables;    /**< one after the other, see vmcu_lookup() */
	const int16_t *table_of; /**< each input's, -1: bytes are copied; NULL: all are */
	uint8_t axis;            /**< enum vmcu_axis */
};

/**
 * @brief Inputs one after the other along an axis.
 *
 * Output bytes ascending, each read right before it is written. Whole inputs, unless they are one
 * after the other along the channels.
 */
void vmcu_concat(const struct vmcu_call *call);

/** Without @a rescale the values stay and only the clamp applies. */
struct vmcu_requantize_params {
	struct vmcu_factor factor;
	bool rescale;
	int8_t input_zero;
	int8_t output_zero;
	int8_t act_min;
	int8_t act_max;
};

/** @brief Another scale, zero point or range. For each byte, ascending: reads, then writes. */
void vmcu_requantize(const struct vmcu_call *call);

/** Entries of a softmax table: every difference of two int8. */
#define VMCU_SOFTMAX_ENTRIES 256

/**
 * @a exp is indexed by the pixel's maximum minus q. In Q0.31 for vmcu_softmax_tflite(), which
 * needs nothing else; at most 2^23 for vmcu_softmax_onnx().
 */
struct vmcu_softmax_params {
	const uint32_t *exp;
	uint32_t gain; /**< 1 / output scale with 16 fractional bits */
	int8_t output_zero;
	int8_t act_min;
	int8_t act_max;
};

/**
 * @brief Softmax over the channels of each pixel.
 *
 * For each pixel: reads all of it, then for each channel, ascending: reads it again, then writes.
 * @{
 */
void vmcu_softmax_tflite(const struct vmcu_call *call);
void vmcu_softmax_onnx(const struct vmcu_call *call);
/** @} */

/** @brief One pixel of vmcu_softmax_tflite(); @a src and @a dst may be the same. */
void vmcu_softmax_tflite_pixel(const struct vmcu_softmax_params *p, const int8_t *src, int8_t *dst,
			       int32_t channels);

/** A product of two activations: sums of (x - x_zero)(y - y_zero), requantised. */
struct vmcu_product {
	int32_t multiplier; /**< see vmcu_fixed_scale() */
	int32_t shift;
	uint8_t is_float; /**< these are a line or a float32, see kernels/integer_scale.py */
	int8_t x_zero;
	int8_t y_zero;
	int8_t output_zero;
	int8_t act_min;
	int8_t act_max;
};

struct vmcu_matmul_params {
	struct vmcu_product product;
};

/**
 * @brief Product of two matrices: (M, K) by (K, N), or by (N, K) transposed.
 *
 * A matrix is one row of a tensor, each of its lines a pixel; a tensor of several rows is a batch.
 * For each line, for each four channels (one by one in the transposed form): reads the line and the
 * columns, then writes the channels. No scratch. Whole inputs.
 * @{
 */
void vmcu_matmul(const struct vmcu_call *call);
void vmcu_matmul_transposed(const struct vmcu_call *call);
/** @} */

struct vmcu_matmul_chain_params {
	struct vmcu_product first;
	struct vmcu_product second;
};

/**
 * @brief Product of three matrices: (M, K) by (K, N) by (N, P).
 *
 * For each line: reads it and the second matrix, keeps N bytes in scratch, then works as
 * vmcu_matmul() does on these and the third matrix. Whole inputs.
 */
void vmcu_matmul_chain(const struct vmcu_call *call);

/** @a stream is the table of struct vmcu_softmax_params for vmcu_softmax_tflite(). */
struct vmcu_attention_params {
	const void *stream;
	struct vmcu_product scores;
	struct vmcu_product output;
};

/**
 * @brief Self-attention: softmax of queries (M, D) by keys (T, D) transposed, by values (T, N).
 *
 * For each query: reads it and all keys, keeps T bytes in scratch, then works as vmcu_matmul()
 * does on these and the values. Whole inputs.
 */
void vmcu_attention(const struct vmcu_call *call);

/** @} */

#ifdef __cplusplus
}
#endif

#include <vmcu/operators.h>

#endif /* VMCU_KERNELS_H_ */
