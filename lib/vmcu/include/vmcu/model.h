/*
 * SPDX-License-Identifier: Apache-2.0
 */

/**
 * @file
 * @brief The const tables of a compiled model, which `vmcu build` writes and the runtime reads.
 *
 * Do not write these tables by hand; the runtime never changes them. A model is a list of stages. A
 * stage is a list of consecutive layers that the runtime computes depth first. A layer is a kernel,
 * its parameters, and its input and output tensors. A tensor is a ring buffer in the pool.
 */

#ifndef VMCU_MODEL_H_
#define VMCU_MODEL_H_

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include <vmcu/config.h>

#ifdef __cplusplus
extern "C" {
#endif

/**
 * @defgroup vmcu_model Model tables
 * @{
 */

/* The emitted weights are words in a byte stream, and kernels extract bytes from words. */
#if (defined(__BYTE_ORDER__) && __BYTE_ORDER__ == __ORDER_BIG_ENDIAN__) || defined(__ARM_BIG_ENDIAN)
#error "vmcu supports little-endian cores only: models and kernels require that byte order"
#endif

#if defined(VMCU_SEVERAL_POOLS)
/** Most pools of a model. */
#define VMCU_MOST_POOLS   4
/** Lowest bit of the pool's number in an address. The lower bits are a byte offset in the pool. */
#define VMCU_POOL_NUMBER  28
#define VMCU_POOL_BYTE(x) ((x) & ((UINT32_C(1) << VMCU_POOL_NUMBER) - 1U))

#else
#define VMCU_MOST_POOLS 1
#endif

/** One of several pools, each of them circular. */
struct vmcu_circle {
	int8_t *start;
	uint32_t size;
};

/**
 * The RAM for activations: a circular pool of @a size bytes that starts at @a start.
 *
 * With VMCU_POOL_ROTATE, byte 0 of the circular pool is at @a origin. Bytes that must be
 * contiguous, such as a row, continue after the pool's end, in an overhang, if they start before
 * the end. See doc/endurance.md.
 *
 * With VMCU_SEVERAL_POOLS, each memory has its circular pool. An address contains the number of its
 * pool. See doc/memories.md.
 */
struct vmcu_pool {
#if defined(VMCU_SEVERAL_POOLS)
	struct vmcu_circle circles[VMCU_MOST_POOLS];
#else
	int8_t *start;
	uint32_t size;
#endif
#if defined(VMCU_POOL_ROTATE)
	int8_t *origin;
	uint32_t cut; /**< bytes from the origin to the pool's end */
	uint32_t run; /**< ring buffers up to this size are contiguous; of others, each row is */
#endif
};

/**
 * A tensor: @a height rows of @a width pixels of @a channels bytes. Its ring buffer stores the last
 * @a ring bytes written. An external input has no bytes in the pool. Byte o of the tensor is at
 * (base + (o + phase) % ring) modulo the pool's size. With several pools, `base` contains the
 * number of the pool.
 *
 * The plan guarantees that the pool's end splits no row. If ring and phase are multiples of a row,
 * the ring buffer's end splits no row either. Any other ring buffer splits a row at its end,
 * between two pixels.
 */
struct vmcu_tensor {
	uint32_t base;
	uint32_t ring;
	uint32_t phase;
	uint16_t height;
	uint16_t width;
	uint16_t channels;
};

/** Bytes of scratch memory on the stack, for layers that need no more. */
#define VMCU_STACK_SCRATCH 256

/** Value of vmcu_layer::scratch if the scratch memory is on the stack. */
#define VMCU_SCRATCH_ON_STACK UINT32_MAX

struct vmcu_layer;
struct vmcu_call;

/** A kernel: computes columns of an output row and reads only the pixels of their windows. */
typedef void (*vmcu_kernel_t)(const struct vmcu_call *call);

/** A call of a kernel: @a columns pixels of an output row from @a x on, which no ring buffer's end
 * splits.
 */
struct vmcu_call {
	const struct vmcu_pool *pool;
	const struct vmcu_tensor *tensors; /**< the model's table */
	const struct vmcu_layer *layer;
	void *scratch;       /**< scratch memory of the layer, word aligned */
	const int8_t *input; /**< the external input, if the model has one */
	uint16_t y;          /**< the output row */
	uint16_t x;          /**< first column; 0 if the layer is descending */
	uint16_t columns;    /**< number of columns; all columns if the layer is descending */
#if defined(VMCU_CONTAINERS)
	uintptr_t base; /**< see vmcu_at() */
#endif
};

/** A layer. Indices refer to the model's tensor table. */
struct vmcu_layer {
	vmcu_kernel_t kernel;
	const void *params; /**< the kernel's own parameter struct, see kernels.h */
	const uint16_t *inputs;
	uint8_t input_count;
	uint8_t descending; /**< 1: computes from the last row and pixel to the first */
	uint16_t output;
	uint32_t scratch; /**< byte offset in the pool, or VMCU_SCRATCH_ON_STACK */
	uint16_t rows;    /**< rows of calls, usually the output's rows */
	uint16_t width;   /**< columns of a row of calls, usually the output's columns */
	uint16_t columns; /**< columns of one call */
	/** Ring buffers whose end can split a call's columns: bit 0 for the output, bit 1 + i for
	 * input i. The runtime then calls the kernel separately for the columns before and after
	 * the end.
	 */
	uint8_t splits;
};

/** A part of a schedule: @a length entries from @a start on, repeated @a times times. */
struct vmcu_part {
	uint32_t start;
	uint16_t length;
	uint16_t times;
};

/** Entry of a schedule instead of a layer: store the next columns of a streamed input. */
#define VMCU_TAKE UINT8_MAX

/**
 * Consecutive layers that the runtime computes together. It computes a single layer row by row. For
 * several layers, it follows a schedule: each entry calls a layer for its next columns.
 */
struct vmcu_stage {
	const uint8_t *schedule;       /**< indices from the first layer on; NULL: a single layer */
	const struct vmcu_part *parts; /**< order of the schedule's entries */
	uint32_t progress;             /**< pool offset of an uint16_t per layer: its past calls */
	uint16_t part_count;
	uint16_t first; /**< index of the first layer in the model */
	uint16_t count; /**< number of layers */
	uint16_t taken; /**< columns of the input at each VMCU_TAKE */
};

/** In the model file, the channels are before the other axes. */
#define VMCU_IO_CHANNELS_FIRST 1U
/** Round real values to nearest, ties away from zero, as .tflite does. Otherwise, ties to even. */
#define VMCU_IO_HALF_AWAY      2U
/** The input's rows are time steps: a row is a column of the model file's image. */
#define VMCU_IO_COLUMNS        4U
/** An element is several channels: int16 or int32, as the model's header says. */
#define VMCU_IO_WIDE           8U

/**
 * A graph input or output: real = scale * (q - zero_point). Where the model's header says that
 * elements are several channels, q is such an element.
 */
struct vmcu_io {
	const char *name;
	float scale;
	int8_t zero_point; /**< 0 if it is none of int8: the model's header has it */
	uint8_t flags;     /**< VMCU_IO_..., for vmcu/convert.h only */
	uint16_t tensor;
};

#if defined(VMCU_STREAMS)
/** Additional tables of a model built with --hop, whose first stage has an unbounded schedule. */
struct vmcu_stream {
	const uint16_t *calls; /**< per layer: calls until its ring buffer positions repeat */
	const uint16_t *again; /**< per layer: the count that replaces @a calls then */
	uint32_t model;        /**< identifies this model in a saved state */
	uint32_t state;        /**< pool offset of the state, which persists between rows */
	uint32_t state_bytes;
	uint16_t rows;   /**< rows of the input until the position in its ring buffer repeats */
	uint16_t states; /**< stages at the end that store the state of layers; all or none run */
};
#endif

#if defined(VMCU_EXTERNAL_WEIGHTS)
/** The constants of a stage in the weights file of a model built with --external-weights. */
struct vmcu_chunk {
	uint32_t offset; /**< in the weights file */
	uint32_t bytes;
	uint32_t to;     /**< offset in the weights buffer */
	uint32_t digest; /**< MurmurHash3_x86_32 of the bytes, with seed 0 */
	uint16_t stage;  /**< the stage whose kernels read it */
	uint16_t start;  /**< the stage before whose kernels its read starts: no later one needs the
			  * bytes in the buffer that it overwrites
			  */
};
#endif

/** A compiled model. */
struct vmcu_model {
	const char *name;
	uint32_t pool_bytes;
	const struct vmcu_tensor *tensors;
	const struct vmcu_layer *layers;
	const struct vmcu_stage *stages;
	const struct vmcu_io *inputs;
	const struct vmcu_io *outputs;
	uint16_t tensor_count;
	uint16_t layer_count;
	uint16_t stage_count;
	uint8_t input_count;
	uint8_t output_count;
	bool streamed;  /**< the caller pushes the only input row by row */
	bool elsewhere; /**< the only input is external, see vmcu_set_input() */
#if defined(VMCU_POOL_ROTATE)
	uint32_t circle; /**< bytes of the pool without its overhang; 0: the origin is constant */
	uint32_t step;   /**< bytes that the origin advances after each inference */
#endif
#if defined(VMCU_STREAMS)
	const struct vmcu_stream *stream; /**< NULL: the model was not built with --hop */
#endif
#if defined(VMCU_SEVERAL_POOLS)
	uint32_t pools[VMCU_MOST_POOLS]; /**< bytes of each pool; pool_bytes is their sum */
	uint8_t pool_count;              /**< number of pools; 0: one pool of pool_bytes */
#endif
#if defined(VMCU_EXTERNAL_WEIGHTS)
	const struct vmcu_chunk *chunks; /**< in the order of stages, and of the weights file */
	uint8_t *weights;                /**< buffer that the kernels' parameters point into */
	uint16_t chunk_count;
#endif
#if defined(VMCU_CONTAINERS)
	/** For a model from a container: the container's address, to which the tables' pointers
	 * are relative, and the table of kernels, whose indices replace pointers to kernels.
	 * Otherwise 0 and NULL.
	 */
	uintptr_t base;
	const vmcu_kernel_t *kernels;
	uint32_t tail; /**< bytes of its tables at the arena's end */
#endif
};

/** Returns true if the caller writes the inputs into the pool. */
static inline bool vmcu_holds_input(const struct vmcu_model *model)
{
	return !model->streamed && !model->elsewhere;
}

/** @} */

#ifdef __cplusplus
}
#endif

#endif /* VMCU_MODEL_H_ */
