/*
 * SPDX-License-Identifier: Apache-2.0
 */

/**
 * @file
 * @brief All kernels, for applications that take whatever container arrives.
 */

#include <stddef.h>

#include <vmcu/container.h>

#define ALL(entry)                                                                                 \
	entry(pointwise) entry(pointwise_narrow) entry(conv) entry(conv_narrow) entry(             \
		dense) entry(depthwise_3_1) entry(depthwise_3_2) entry(depthwise_5_1)              \
		entry(depthwise_5_2) entry(depthwise_7_1) entry(depthwise_7_2) entry(              \
			depthwise_any) entry(average_pool) entry(average_pool_sum) entry(max_pool) \
			entry(add) entry(add_exact) entry(add_float) entry(matmul) entry(          \
				matmul_transposed) entry(matmul_chain) entry(attention)            \
				entry(arg_max) entry(binary) entry(concat) entry(hardmax) entry(   \
					l2_norm) entry(layer_norm) entry(log_softmax_onnx)         \
					entry(log_softmax_tflite) entry(lookup) entry(move)        \
						entry(pad) entry(requantize) entry(reshape)        \
							entry(resize) entry(softmax_tflite) entry( \
								softmax_onnx) entry(table_mean)    \
								entry(transpose_conv)

#if defined(VMCU_STREAMS)
#define OF_STREAMS(entry) entry(hop_count) entry(look_back) entry(recall) entry(remember)
#else
#define OF_STREAMS(entry)
#endif

#define DECLARED(kernel) extern const struct vmcu_kernel vmcu_##kernel##_kernel;
#define LISTED(kernel)   &vmcu_##kernel##_kernel,

ALL(DECLARED)
OF_STREAMS(DECLARED)

const struct vmcu_kernel *const vmcu_kernels[] = {ALL(LISTED) OF_STREAMS(LISTED) NULL};
