/*
 * SPDX-License-Identifier: Apache-2.0
 */

/**
 * @file
 * @brief The kernels and their parameters. Compiled models call them.
 *
 * A kernel computes columns of one output row. A kernel with "Whole inputs" computes whole rows
 * only, and the end of a ring buffer splits none of its rows. For a layer without a window, the end
 * of a ring buffer does not split the input columns of a call either.
 *
 * Input and output can share bytes of the pool. The planner relies on the access order of each
 * kernel. Each comment states that order: it is part of the kernel's interface.
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

/** An int64_t in tables, with the alignment of Arm on every core, also on 32-bit x86. */
typedef int64_t vmcu_long_t __attribute__((aligned(8)));

/** The window of an output pixel in its input. The sizes imply the bottom and right padding. */
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
 * Parameters of the generated kernels with weights. Weights, biases and factors are one stream, in
 * the order in which the kernel reads them. `vmcu build` folds the input's zero point into the
 * biases.
 */
struct vmcu_mac_params {
	const void *stream;
	struct vmcu_window window;
	uint16_t groups; /**< of channels; vmcu_grouped_int4(): of taps that share a scale */
	/** input channels of a group; vmcu_grouped_int4(): all of them, or twice as many if weights
	 * have 8 bits
	 */
	uint16_t depth;
	/** taps of a window that are contiguous in the input; depthwise: 0 if all outputs of a
	 * group read one input channel, else 1
	 */
	uint16_t run;
	/** groups of four taps in a window, of vmcu_grouped_int4() in a group; depthwise: pixels of
	 * a strip
	 */
	uint16_t steps;
	int8_t input_zero;
	int8_t output_zero;
	int8_t act_min;
	int8_t act_max;
	uint8_t is_float; /**< factors are float32, as in .onnx; else fixed point */
	/** 1: the taps of a window, at most 32, are contiguous; 0: each run starts at a multiple
	 * of four
	 */
	uint8_t packed;
};

/**
 * @brief Computes a 1 x 1 convolution without stride and padding.
 *
 * Reads four pixels, then writes their output channels in pairs.
 */
void vmcu_pointwise(const struct vmcu_call *call);

/** vmcu_pointwise() with half the scratch memory: reads two pixels, writes channels in fours. */
void vmcu_pointwise_narrow(const struct vmcu_call *call);

/**
 * @brief Computes a fully connected layer, or a convolution with one output column and no padding.
 *
 * For each four output channels: reads all taps, then writes the channels. No scratch memory. Whole
 * inputs.
 */
void vmcu_dense(const struct vmcu_call *call);

/** Parameters of vmcu_dense_per_tensor(). */
struct vmcu_dense_per_tensor_params {
	const uint32_t *stream; /**< biases and weights of each four channels */
	int32_t multiplier;     /**< see struct vmcu_factor */
	uint8_t shift;          /**< to the right, one less */
	int8_t output_zero;
};

/**
 * @brief Computes vmcu_dense() of one input column, where all channels share a factor, there are
 * multiples of eight taps and of four channels.
 */
void vmcu_dense_per_tensor(const struct vmcu_call *call);

/**
 * @brief Computes a convolution with any window.
 *
 * For each four pixels, for each group: reads their windows, then writes the channels in pairs.
 */
void vmcu_conv(const struct vmcu_call *call);

/** vmcu_conv() with half the scratch memory: reads the windows of two pixels, writes fours. */
void vmcu_conv_narrow(const struct vmcu_call *call);

/**
 * @brief Computes a depthwise convolution: 3 x 3, 5 x 5 or 7 x 7 taps, horizontal stride 1 or 2.
 *
 * For each strip of pixels, for each four channels: reads their windows, then writes the channels.
 * It writes the whole strip, or four pixels at once if the window is larger than 3 x 3.
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
 * @brief Computes a depthwise convolution with any window and any channel multiplier.
 *
 * For each pixel, for each four output channels of a group: reads the taps, then writes the
 * channels. A group is all channels, or all outputs of one input channel. Scratch memory: four
 * bytes for each tap.
 */
void vmcu_depthwise_any(const struct vmcu_call *call);

/**
 * @brief The same kernels for weights of 4 bits.
 * @{
 */
void vmcu_pointwise_int4(const struct vmcu_call *call);
void vmcu_pointwise_narrow_int4(const struct vmcu_call *call);
void vmcu_dense_int4(const struct vmcu_call *call);
void vmcu_dense_per_tensor_int4(const struct vmcu_call *call);

/**
 * @brief Computes a fully connected layer with weights of 4 bits whose groups of taps have
 * multipliers of 8 bits.
 *
 * For each pixel: reads all taps for each four channels, then writes these.
 */
void vmcu_grouped_int4(const struct vmcu_call *call);

/** vmcu_grouped_int4() with multipliers of 16 bits and sums of 64. */
void vmcu_grouped_fine_int4(const struct vmcu_call *call);

/** vmcu_grouped_fine_int4() of weights that have zero points, or 8 bits, or both. */
void vmcu_grouped_zeros_int4(const struct vmcu_call *call);
void vmcu_conv_int4(const struct vmcu_call *call);
void vmcu_conv_narrow_int4(const struct vmcu_call *call);
/** @} */

/**
 * @brief The same kernels where pixels are paired: `--target rv32` and v6m.
 * @{
 */
void vmcu_pointwise_pairs(const struct vmcu_call *call);
void vmcu_pointwise_narrow_pairs(const struct vmcu_call *call);
void vmcu_dense_pairs(const struct vmcu_call *call);
void vmcu_conv_pairs(const struct vmcu_call *call);
void vmcu_conv_narrow_pairs(const struct vmcu_call *call);
void vmcu_depthwise_3_1_pairs(const struct vmcu_call *call);
void vmcu_depthwise_3_2_pairs(const struct vmcu_call *call);
void vmcu_depthwise_5_1_pairs(const struct vmcu_call *call);
void vmcu_depthwise_5_2_pairs(const struct vmcu_call *call);
void vmcu_depthwise_7_1_pairs(const struct vmcu_call *call);
void vmcu_depthwise_7_2_pairs(const struct vmcu_call *call);
void vmcu_depthwise_any_pairs(const struct vmcu_call *call);
/** Weights of 4 bits: rv32. */
void vmcu_pointwise_pairs_int4(const struct vmcu_call *call);
void vmcu_pointwise_narrow_pairs_int4(const struct vmcu_call *call);
void vmcu_dense_pairs_int4(const struct vmcu_call *call);
void vmcu_conv_pairs_int4(const struct vmcu_call *call);
void vmcu_conv_narrow_pairs_int4(const struct vmcu_call *call);
/** @} */

/**
 * @brief The same layers from constants that are laid out for vectors of 16 bytes (--target
 * helium).
 *
 * Convolutions and fully connected layers write four channels at once; taps are padded to 16.
 * Depthwise convolutions of all windows read, then write, 16 channels of a pixel at once.
 * @{
 */
void vmcu_pointwise_helium(const struct vmcu_call *call);
void vmcu_pointwise_narrow_helium(const struct vmcu_call *call);
void vmcu_dense_helium(const struct vmcu_call *call);
void vmcu_dense_per_tensor_helium(const struct vmcu_call *call);
void vmcu_conv_helium(const struct vmcu_call *call);
void vmcu_conv_narrow_helium(const struct vmcu_call *call);
void vmcu_depthwise_any_helium(const struct vmcu_call *call);
/** Weights of 4 bits. */
void vmcu_pointwise_helium_int4(const struct vmcu_call *call);
void vmcu_pointwise_narrow_helium_int4(const struct vmcu_call *call);
void vmcu_dense_helium_int4(const struct vmcu_call *call);
void vmcu_grouped_helium_int4(const struct vmcu_call *call);
void vmcu_grouped_fine_helium_int4(const struct vmcu_call *call);
void vmcu_grouped_zeros_helium_int4(const struct vmcu_call *call);
void vmcu_dense_per_tensor_helium_int4(const struct vmcu_call *call);
void vmcu_conv_helium_int4(const struct vmcu_call *call);
void vmcu_conv_narrow_helium_int4(const struct vmcu_call *call);
/** Pooling, 16 channels of a pixel at once; sums. */
void vmcu_add_helium(const struct vmcu_call *call);
void vmcu_average_pool_helium(const struct vmcu_call *call);
void vmcu_max_pool_helium(const struct vmcu_call *call);
/** @} */

/** @a bias has @a shift fractional bits and includes the zero points and the rounding constant. The
 * scales of both inputs have eight more fractional bits.
 */
struct vmcu_add_params {
	int32_t a_scale;
	int32_t b_scale;
	int32_t bias;
	int32_t shift;
};

/**
 * @brief Computes the sum of two tensors, saturated to int8.
 *
 * For each four channels of a pixel, then for each remaining channel: reads both inputs, then
 * writes.
 */
void vmcu_add(const struct vmcu_call *call);

/** The kernel shifts both inputs left, converts them to one scale, adds them, and requantises. */
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

/** @brief Computes the sum of two tensors, for any factors. For each byte: reads both, writes. */
void vmcu_add_exact(const struct vmcu_call *call);

/** Fractional bits of @a a, @a b and @a constant in struct vmcu_float_sum, enough for float32. */
#define VMCU_FLOAT_SUM_SHIFT 43

/**
 * A sum of two bytes in float32, see FloatSum in python/vmcu_tools/quant.py. `bias` and the scales
 * have @a shift fractional bits. If a sum has none of the bits in @a fraction, float32 can round it
 * either way: the kernel then uses the exact @a constant, @a a and @a b.
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
	uint8_t offset; /**< difference of the file's bytes from int8 */
};

struct vmcu_add_float_params {
	struct vmcu_float_sum sum;
	bool narrow; /**< act_min and act_max are not the bounds of int8 */
	int8_t act_min;
	int8_t act_max;
};

/**
 * @brief Computes the sum of two tensors as ONNX Runtime does. For each byte: reads both, then
 * writes.
 */
void vmcu_add_float(const struct vmcu_call *call);

/** How vmcu_average_pool() converts the sum of a window. */
enum vmcu_mean {
	VMCU_MEAN_KEPT,         /**< mean: input and output have the same scale and zero point */
	VMCU_MEAN_OF_256,       /**< 256 times the mean, times @a factor */
	VMCU_MEAN_OF_SUM,       /**< sum times @a factor, which includes the division */
	VMCU_MEAN_OF_SUM_FLOAT, /**< the same; the multiplier has the bits of a float32 */
};

struct vmcu_average_pool_params {
	struct vmcu_window window;
	struct vmcu_factor factor;
	uint8_t rescale;    /**< enum vmcu_mean */
	bool count_padding; /**< the divisor includes padding, with the value @a input_zero */
	int8_t input_zero;
	int8_t output_zero;
	int8_t act_min;
	int8_t act_max;
};

/**
 * @brief Computes the mean over a window.
 *
 * For each pixel, for each four channels: reads the taps, then writes the channels.
 */
void vmcu_average_pool(const struct vmcu_call *call);

/**
 * @brief Computes the mean over the whole image incrementally. Each call adds @a columns pixels of
 * input row @a y, from @a x on, to the sums in scratch memory. The last call writes the output.
 *
 * The sums, one for each channel, are int16 if the image has at most 256 pixels, else int32.
 *
 * Parameters: struct vmcu_average_pool_params.
 */
void vmcu_average_pool_sum(const struct vmcu_call *call);

struct vmcu_max_pool_params {
	struct vmcu_window window;
	int8_t act_min;
	int8_t act_max;
};

/**
 * @brief Computes the maximum over a window, without the padding.
 *
 * For each pixel, for each four channels: reads the taps, then writes the channels.
 */
void vmcu_max_pool(const struct vmcu_call *call);

/** The position of the input in the output. All other bytes of the output become @a value. */
struct vmcu_pad_params {
	int16_t top;
	int16_t left;
	int16_t before; /**< channels */
	int8_t value;
};

/** @brief Adds constant padding. For each byte, ascending: reads the input, if any, then writes. */
void vmcu_pad(const struct vmcu_call *call);

/**
 * @brief Copies the bytes to rows of another length. No parameters.
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
	const int8_t *tables;    /**< consecutive tables, see vmcu_lookup() */
	const int16_t *table_of; /**< table of each input; -1: copy its bytes; NULL: copy all */
	uint8_t axis;            /**< enum vmcu_axis */
};

/**
 * @brief Concatenates the inputs along an axis.
 *
 * For each output byte, ascending: reads, then writes. Whole inputs, unless the axis is the
 * channels.
 */
void vmcu_concat(const struct vmcu_call *call);

/** Without @a rescale, the kernel only clamps the values. */
struct vmcu_requantize_params {
	struct vmcu_factor factor;
	bool rescale;
	int8_t input_zero;
	int8_t output_zero;
	int8_t act_min;
	int8_t act_max;
};

/** @brief Changes scale, zero point or range. For each byte, ascending: reads, then writes. */
void vmcu_requantize(const struct vmcu_call *call);

/** Entries of a softmax table: one for each difference of two int8 values. */
#define VMCU_SOFTMAX_ENTRIES 256

/**
 * The index into @a exp is the pixel's maximum minus q. vmcu_softmax_tflite() uses Q0.31 values and
 * no other member. For vmcu_softmax_onnx(), the values are at most 2^23.
 */
struct vmcu_softmax_params {
	const uint32_t *exp;
	uint32_t gain; /**< 1 / output scale, with 16 fractional bits */
	int8_t output_zero;
	int8_t act_min;
	int8_t act_max;
};

/**
 * @brief Computes softmax over the channels of each pixel.
 *
 * For each pixel: reads all channels, then for each channel, ascending: reads it again and writes.
 * @{
 */
void vmcu_softmax_tflite(const struct vmcu_call *call);
void vmcu_softmax_onnx(const struct vmcu_call *call);
/** @} */

/**
 * @brief Computes one pixel. @a src and @a dst can be the same.
 * @{
 */
void vmcu_softmax_tflite_pixel(const struct vmcu_softmax_params *p, const int8_t *src, int8_t *dst,
			       int32_t channels);
void vmcu_softmax_onnx_pixel(const struct vmcu_softmax_params *p, const int8_t *src, int8_t *dst,
			     int32_t channels);
/** @} */

/** Parameters of a product of two activations: sums of (x - x_zero)(y - y_zero), requantised. */
struct vmcu_product {
	int32_t multiplier; /**< see vmcu_fixed_scale() */
	int32_t shift;
	uint8_t is_float; /**< the factor is a line or a float32, see kernels/integer_scale.py */
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
 * @brief Multiplies two matrices: (M, K) by (K, N), or by (N, K) transposed.
 *
 * A matrix is one row of a tensor, and each of its lines is a pixel. A tensor of several rows is a
 * batch. For each line, for each four channels (one by one in the transposed form): reads the line
 * and the columns, then writes the channels. No scratch memory. Whole inputs.
 * @{
 */
void vmcu_matmul(const struct vmcu_call *call);
void vmcu_matmul_transposed(const struct vmcu_call *call);
/** @} */

/** @} */

#ifdef __cplusplus
}
#endif

#include <vmcu/operators.h>

#endif /* VMCU_KERNELS_H_ */
