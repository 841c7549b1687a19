/*
 * SPDX-License-Identifier: Apache-2.0
 */

/**
 * @file
 * @brief Functions that the checks of a container's layers share. Nothing here is needed to run a
 * model.
 *
 * A check answers whether a layer stays within the pool and the container whatever the input is. It
 * trusts no parameter. For the tensors of a layer it relies on the checks of tensors.c: sizes above
 * zero, rings inside the pool, no row split by the pool's end.
 */

#ifndef VMCU_CHECK_H_
#define VMCU_CHECK_H_

#include <stdbool.h>
#include <stdint.h>

#include <vmcu/access.h>
#include <vmcu/container.h>
#include <vmcu/kernels.h>

/** A layer that is being checked. */
struct vmcu_check {
	const uint8_t *data;            /**< the container */
	uint32_t size;                  /**< its bytes */
	const struct vmcu_model *model; /**< its tables, which are checked up to the layers */
	const struct vmcu_layer *layer;
	const void *params; /**< pointers in them are offsets; NULL: there are none */
	uint32_t *scratch;  /**< gets the bytes of the layer's scratch, unless NULL */
#if defined(VMCU_EXTERNAL_WEIGHTS)
	const uint8_t *chunk; /**< constants that are not in the container, while a kernel checks */
	uint32_t chunk_bytes;
#endif
};

/**
 * The layout of a kernel's stream and tile, see python/vmcu_tools/kernels/language/packing.py.
 */
struct vmcu_packing {
	uint8_t lanes;  /**< a run of taps starts at a multiple of it */
	uint8_t step;   /**< taps of a step of a tile */
	uint8_t dense;  /**< channels of a block of kernels without a tile */
	uint8_t pixels; /**< of a block of a depthwise strip */
	uint8_t tap;    /**< bytes of a tap in a tile */
	uint8_t packed; /**< the most taps of a window that is packed, see struct vmcu_mac_params */
	uint8_t vector; /**< channels of a depthwise vector; 0: none */
	uint8_t bits;   /**< of a weight of kernels with blocks of channels */
	uint8_t shift;  /**< the largest shift in a stream for the fast requantiser */
	bool paired;    /**< tiles have pairs of pixels, and heads a code for them */
};

/**
 * True if @a count things of @a each bytes are in the container from an offset on, or in the chunk
 * of the layer's stage, aligned.
 */
bool vmcu_check_array(const struct vmcu_check *c, const void *offset, uint32_t count,
		      uint32_t each);

/** Bytes from an offset on that vmcu_check_array() has accepted. */
uint32_t vmcu_check_left(const struct vmcu_check *c, const void *offset);

/** Address of an offset that vmcu_check_array() has accepted. */
static inline const void *vmcu_check_at(const struct vmcu_check *c, const void *offset)
{
	return vmcu_at((uintptr_t)c->data, offset);
}

const struct vmcu_tensor *vmcu_check_input(const struct vmcu_check *c, uint16_t i);
const struct vmcu_tensor *vmcu_check_output(const struct vmcu_check *c);

/** Bytes of a tensor. */
static inline uint32_t vmcu_check_bytes(const struct vmcu_tensor *t)
{
	return (uint32_t)t->height * t->width * t->channels;
}

/** Bytes of the circle that places of a model's pool are counted in. */
uint32_t vmcu_check_circle(const struct vmcu_model *model);

/** True if @a bytes bytes from a place on, less than twice the circle, lie side by side. */
bool vmcu_check_run(const struct vmcu_model *model, uint32_t at, uint32_t bytes);

/** True if so many inputs are named. */
bool vmcu_check_inputs(const struct vmcu_check *c, uint32_t count);

/** True if every call computes columns of an output row, all of them, that lie side by side. */
bool vmcu_check_calls(const struct vmcu_check *c);

/** True if the columns of an input that each call names lie side by side, as the output's. */
bool vmcu_check_columns(const struct vmcu_check *c, uint16_t i);

/** True if no ring splits a row of an input. */
bool vmcu_check_rows(const struct vmcu_check *c, uint16_t i);

/** True if inputs are as large as the output, and all lie as vmcu_check_columns() says. */
bool vmcu_check_alike(const struct vmcu_check *c, uint32_t inputs);

/** The parameters of a layer, NULL if they are not in the container. */
const void *vmcu_check_params(const struct vmcu_check *c, const struct vmcu_kernel *kernel);

/** True if a layer's scratch has so many bytes. */
bool vmcu_check_scratch(const struct vmcu_check *c, uint32_t bytes);

/** True if a layer's scratch shares no byte with a tensor, as scratch with addresses must not. */
bool vmcu_check_apart(const struct vmcu_check *c, uint32_t bytes, const struct vmcu_tensor *t);

/** True if a window makes sense, and its part of an input can be counted. */
bool vmcu_check_window(const struct vmcu_check *c, const struct vmcu_window *w);

/** True if a softmax has its table of exponentials. */
bool vmcu_check_exponentials(const struct vmcu_check *c, const void *table);

/** True if a bool is one: in a file it may be any byte. */
static inline bool vmcu_check_bool(const bool *flag)
{
	uint8_t byte;

	__builtin_memcpy(&byte, flag, sizeof(byte));
	return byte <= 1U;
}

/** True if the requantiser can shift so. */
bool vmcu_check_shift(int32_t shift);

/** True if a container has so many shifts, all of which the requantiser can shift by. */
bool vmcu_check_shifts(const struct vmcu_check *c, const int32_t *offset, uint32_t count);

/** True if a word of a float32 factor is a line's, or says that there is none. */
bool vmcu_check_line(int32_t word);

/** True if sums of two bytes stay within 32 bits. */
bool vmcu_check_float_sum(const struct vmcu_float_sum *s);

/**
 * @name Kernels whose layers more than conditions describe, see
 * python/vmcu_tools/ops/kernel_type.py
 * @{
 */
bool vmcu_check_add(const struct vmcu_check *c);
bool vmcu_check_attention(const struct vmcu_check *c);
bool vmcu_check_average_pool(const struct vmcu_check *c);
bool vmcu_check_average_pool_sum(const struct vmcu_check *c);
bool vmcu_check_binary(const struct vmcu_check *c);
bool vmcu_check_concat(const struct vmcu_check *c);
bool vmcu_check_matmul(const struct vmcu_check *c);
bool vmcu_check_matmul_transposed(const struct vmcu_check *c);
bool vmcu_check_move(const struct vmcu_check *c);
bool vmcu_check_pick(const struct vmcu_check *c);
bool vmcu_check_resize(const struct vmcu_check *c);
bool vmcu_check_transpose_conv(const struct vmcu_check *c);
bool vmcu_check_dense(const struct vmcu_check *c, const struct vmcu_packing *packing);
/** @a multiplier: bytes of one; @a zeros: whether weights have zero points. */
bool vmcu_check_grouped(const struct vmcu_check *c, const struct vmcu_packing *packing,
			uint32_t multiplier, bool zeros);
bool vmcu_check_depthwise_any(const struct vmcu_check *c, const struct vmcu_packing *packing);
/** Blocks of @a size channels of @a pixels pixels. */
bool vmcu_check_conv(const struct vmcu_check *c, const struct vmcu_packing *packing,
		     uint32_t pixels, uint32_t size);
bool vmcu_check_pointwise(const struct vmcu_check *c, const struct vmcu_packing *packing,
			  uint32_t pixels, uint32_t size);
/** A square window of so many taps across; @a bytes: of a channel in the stream. */
bool vmcu_check_depthwise(const struct vmcu_check *c, const struct vmcu_packing *packing,
			  uint32_t taps, uint32_t stride, uint32_t bytes);
#if defined(VMCU_STREAMS)
bool vmcu_check_look_back(const struct vmcu_check *c);
bool vmcu_check_recall(const struct vmcu_check *c);
bool vmcu_check_remember(const struct vmcu_check *c);
#endif
/** @} */

#endif /* VMCU_CHECK_H_ */
