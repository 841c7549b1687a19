/*
 * SPDX-License-Identifier: Apache-2.0
 */

/**
 * @file
 * @brief What `vmcu build` emits for a model: const tables that the executor walks.
 *
 * Nothing here is written by hand for a model and nothing here is written at run time. A model is
 * a list of stages; a stage is a run of layers worked depth first; a layer is a kernel, its
 * parameters and the tensors it reads and writes; a tensor is a ring in the pool.
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

/* Emitted weights are words in a stream of bytes, and kernels take bytes out of words. */
#if (defined(__BYTE_ORDER__) && __BYTE_ORDER__ == __ORDER_BIG_ENDIAN__) || defined(__ARM_BIG_ENDIAN)
#error "vmcu runs on little-endian cores only: models and kernels count on that order of bytes"
#endif

#if defined(VMCU_POOL_ROTATE) && defined(VMCU_POOL_GUARD)
#error "a pool that rotates has no bytes that canaries could stand on"
#endif

#if defined(VMCU_SEVERAL_POOLS) && (defined(VMCU_POOL_ROTATE) || defined(VMCU_POOL_GUARD))
#error "several pools neither rotate nor have canaries"
#endif

#if defined(VMCU_STREAMS) && (defined(VMCU_POOL_ROTATE) || defined(VMCU_SEVERAL_POOLS))
#error "models built with --hop keep their state in one pool, which stays where it is"
#endif

#if defined(VMCU_SEVERAL_POOLS) && defined(VMCU_CONTAINERS)
#error "a model from a container has one pool"
#endif

#if defined(VMCU_SEVERAL_POOLS)
/** The most pools of a model. */
#define VMCU_MOST_POOLS   4
/** In an address, where the number of its pool begins; below is a byte of that pool. */
#define VMCU_POOL_NUMBER  28
#define VMCU_POOL_BYTE(x) ((x) & ((UINT32_C(1) << VMCU_POOL_NUMBER) - 1U))

/** One of several pools: a circle of its own. */
struct vmcu_circle {
	int8_t *start;
	uint32_t size;
};
#endif

/**
 * The RAM that activations live in: a circle of @a size bytes starting at @a start.
 *
 * Where the build defines VMCU_POOL_ROTATE, byte 0 of the circle is at @a origin, and a run of
 * bytes that must lie side by side, such as a row, goes on behind the circle's end, in an overhang,
 * if it begins in front of it. See doc/endurance.md.
 *
 * Where it defines VMCU_SEVERAL_POOLS, there is a circle for each memory, and an address says
 * which. See doc/memories.md.
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
	uint32_t cut; /**< bytes from the origin to the circle's end */
	uint32_t run; /**< rings of at most so many bytes are one run; others are runs by row */
#endif
};

/**
 * A tensor: @a height rows of @a width pixels of @a channels bytes, of which the last @a ring bytes
 * written exist; none of an input that is elsewhere. Byte o of it lives at (base + (o + phase) %
 * ring) modulo the pool's size. Of several pools, `base` says which.
 *
 * The plan guarantees that no row is split by the pool's end. A ring of whole rows whose phase is
 * one of whole rows splits none either; any other splits a row where it starts over, between two
 * pixels.
 */
struct vmcu_tensor {
	uint32_t base;
	uint32_t ring;
	uint32_t phase;
	uint16_t height;
	uint16_t width;
	uint16_t channels;
};

/** Bytes that the executor has on the stack for layers whose scratch is small. */
#define VMCU_STACK_SCRATCH 256

/** Stands for an offset in the pool where a layer's scratch is on the stack. */
#define VMCU_SCRATCH_ON_STACK UINT32_MAX

struct vmcu_layer;
struct vmcu_call;

/** Computes columns of an output row from the pixels that their windows cover, and no others. */
typedef void (*vmcu_kernel_t)(const struct vmcu_call *call);

/** What to compute of an output row: @a columns pixels from @a x on, which no ring splits. */
struct vmcu_call {
	const struct vmcu_pool *pool;
	const struct vmcu_tensor *tensors; /**< the model's table */
	const struct vmcu_layer *layer;
	void *scratch;       /**< the layer's scratch, word aligned */
	const int8_t *input; /**< of a model whose input is elsewhere */
	uint16_t y;          /**< the output row */
	uint16_t x;          /**< the first column; 0 where the layer descends */
	uint16_t columns;    /**< how many; all of them where the layer descends */
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
	uint8_t descending; /**< 1: from the last row and pixel to the first */
	uint16_t output;
	uint32_t scratch; /**< byte offset in the pool, or VMCU_SCRATCH_ON_STACK */
	uint16_t rows;    /**< of calls, usually the output's */
	uint16_t width;   /**< columns of a row of calls, usually the output's */
	uint16_t columns; /**< of a call */
	/** Rings that may end within a call's columns: bit 0 the output's, bit 1 + i input i's. The
	 * kernel is then called for what lies in front of the end and for what lies behind it.
	 */
	uint8_t splits;
};

/** A part of a schedule: @a length entries from @a start on, @a times over. */
struct vmcu_part {
	uint32_t start;
	uint16_t length;
	uint16_t times;
};

/** Stands for a layer in a schedule where the next columns of a streamed input are taken. */
#define VMCU_TAKE UINT8_MAX

/**
 * A run of consecutive layers. One on its own is computed row by row. Several are called in the
 * order of a schedule, each for its next columns.
 */
struct vmcu_stage {
	const uint8_t *schedule;       /**< layers from the first on; NULL for one on its own */
	const struct vmcu_part *parts; /**< how to read it */
	uint32_t progress;             /**< offset in the pool of uint16_t by layer: calls made */
	uint16_t part_count;
	uint16_t first;
	uint16_t count;
	uint16_t taken; /**< columns of the input at each VMCU_TAKE */
};

/** The model file has the channels in front of the other axes. */
#define VMCU_IO_CHANNELS_FIRST 1U
/** Real values are rounded to nearest, ties away from zero, as in .tflite; else to even. */
#define VMCU_IO_HALF_AWAY      2U
/** Of an input whose rows are time: a row is a column of the model file's image. */
#define VMCU_IO_COLUMNS        4U

/** A graph input or output: real = scale * (q - zero_point). */
struct vmcu_io {
	const char *name;
	float scale;
	int8_t zero_point;
	uint8_t flags; /**< VMCU_IO_..., which no inference looks at */
	uint16_t tensor;
};

#if defined(VMCU_STREAMS)
/** What a model built with --hop has besides: its first stage never ends. */
struct vmcu_stream {
	const uint16_t *calls; /**< of each layer until all of its rings are as they were */
	const uint16_t *again; /**< so many calls after the first */
	uint32_t model;        /**< tells this model's state from that of any other */
	uint32_t state;        /**< where in the pool all begins that it keeps from row to row */
	uint32_t state_bytes;
	uint16_t rows;   /**< of the input until its ring is as it was */
	uint16_t states; /**< stages at the end that keep what layers have computed, all or none */
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
	bool streamed;  /**< the only input is delivered row by row */
	bool elsewhere; /**< the only input is read where vmcu_set_input() says */
#if defined(VMCU_POOL_ROTATE)
	uint32_t circle; /**< bytes of the pool without its overhang; 0: the origin stays */
	uint32_t step;   /**< by which the origin advances after each inference */
#endif
#if defined(VMCU_STREAMS)
	const struct vmcu_stream *stream; /**< NULL: it keeps nothing from one input to the next */
#endif
#if defined(VMCU_SEVERAL_POOLS)
	uint32_t pools[VMCU_MOST_POOLS]; /**< bytes of each; pool_bytes is their sum */
	uint8_t pool_count;              /**< 0: one, of pool_bytes */
#endif
#if defined(VMCU_CONTAINERS)
	/** Of a model from a container: its start, from which the tables' pointers count, and the
	 * kernels, whose numbers stand for pointers to them. 0 and NULL: they are pointers.
	 */
	uintptr_t base;
	const vmcu_kernel_t *kernels;
	uint32_t tail; /**< bytes that it keeps at its arena's end */
#endif
};

/** True if callers write the inputs into the pool. */
static inline bool vmcu_holds_input(const struct vmcu_model *model)
{
	return !model->streamed && !model->elsewhere;
}

/**
 * Where a pointer of a model's tables points to, and how tables have one: in a container they count
 * from its start.
 */
#if defined(VMCU_CONTAINERS)
#define vmcu_at(base, pointer)   ((const void *)((base) + (uintptr_t)(pointer)))
#define vmcu_from(base, pointer) ((const void *)((uintptr_t)(pointer) - (base)))
#define vmcu_base(owner)         ((owner)->base)
#else
#define vmcu_at(base, pointer)   ((const void *)(pointer))
#define vmcu_from(base, pointer) ((const void *)(pointer))
#define vmcu_base(owner)         0
#endif

/** A pointer of the parameters of the layer being run. */
#define vmcu_constants(call, pointer) vmcu_at(vmcu_base(call), pointer)

/** The parameters of the layer being run. */
#define vmcu_params(call) vmcu_constants(call, (call)->layer->params)

/** The kernel of a layer. */
static inline vmcu_kernel_t vmcu_kernel_of(const struct vmcu_model *model,
					   const struct vmcu_layer *layer)
{
#if defined(VMCU_CONTAINERS)
	if (model->kernels != NULL) {
		return model->kernels[(uintptr_t)layer->kernel];
	}
#endif
	(void)model;
	return layer->kernel;
}

/** The name of an input or output. */
static inline const char *vmcu_io_name(const struct vmcu_model *model, const struct vmcu_io *io)
{
	(void)model;
	return (const char *)vmcu_at(vmcu_base(model), io->name);
}

/** Where in its ring a pixel of tensor @a t starts, in bytes. */
static inline uint32_t vmcu_place(const struct vmcu_tensor *t, uint32_t y, uint32_t x)
{
	const uint32_t o = (y * t->width + x) * t->channels + t->phase;

	return (o < t->ring) ? o : o % t->ring;
}

/** Of @a pixels from a pixel of tensor @a t on, those in front of the place that splits the row. */
static inline int32_t vmcu_unsplit(const struct vmcu_tensor *t, uint32_t y, uint32_t x,
				   int32_t pixels)
{
	const uint32_t left = t->ring - vmcu_place(t, y, x);

	return (left >= (uint32_t)pixels * t->channels) ? pixels : (int32_t)(left / t->channels);
}

#if defined(VMCU_SEVERAL_POOLS)
/** The pool of an address. */
static inline const struct vmcu_circle *vmcu_circle_of(const struct vmcu_pool *pool, uint32_t at)
{
	return &pool->circles[at >> VMCU_POOL_NUMBER];
}
#endif

/** Where the pool of tensor @a t starts. */
static inline int8_t *vmcu_pool_start(const struct vmcu_pool *pool, const struct vmcu_tensor *t)
{
#if defined(VMCU_SEVERAL_POOLS)
	return vmcu_circle_of(pool, t->base)->start;
#else
	(void)t;
	return pool->start;
#endif
}

/** Where a run begins that is @a at bytes from the origin; @a at: less than twice the circle. */
static inline int8_t *vmcu_pool_byte(const struct vmcu_pool *pool, uint32_t at)
{
#if defined(VMCU_POOL_ROTATE)
	if (at >= pool->cut) {
		at -= pool->size;
		/* Around the end of the circle, and of the plan's numbers. */
		if ((int32_t)at >= (int32_t)pool->cut) {
			at -= pool->size;
		}
	}
	return pool->origin + (int32_t)at;
#elif defined(VMCU_SEVERAL_POOLS)
	const struct vmcu_circle *circle = vmcu_circle_of(pool, at);
	const uint32_t byte = VMCU_POOL_BYTE(at);

	return circle->start + ((byte < circle->size) ? byte : byte - circle->size);
#else
	return pool->start + ((at < pool->size) ? at : at - pool->size);
#endif
}

/** The same for @a at less than the circle. */
static inline int8_t *vmcu_pool_run(const struct vmcu_pool *pool, uint32_t at)
{
#if defined(VMCU_POOL_ROTATE) || defined(VMCU_SEVERAL_POOLS)
	return vmcu_pool_byte(pool, at);
#else
	return pool->start + at;
#endif
}

/** A pixel of tensor @a t. */
static inline int8_t *vmcu_pixel(const struct vmcu_pool *pool, const struct vmcu_tensor *t,
				 uint32_t y, uint32_t x)
{
#if defined(VMCU_POOL_ROTATE)
	/*
	 * Where the run begins decides on which side of the circle's end all of it lies: at the
	 * ring's start if that is short or between the row's start and the pixel, else at the
	 * row's.
	 */
	const uint32_t place = vmcu_place(t, y, x);
	uint32_t begin = 0U;

	if (t->ring > pool->run && place >= x * t->channels) {
		begin = place - x * t->channels;
	}
	return vmcu_pool_byte(pool, t->base + begin) + (place - begin);
#else
	return vmcu_pool_byte(pool, t->base + vmcu_place(t, y, x));
#endif
}

/**
 * True if @a bytes bytes of tensor @a t, from the pixel at @a place of its ring and at address
 * @a x, lie in memory as they do in the tensor.
 */
static inline bool vmcu_straight(const struct vmcu_pool *pool, const struct vmcu_tensor *t,
				 uint32_t place, const int8_t *x, uint32_t bytes)
{
#if defined(VMCU_POOL_ROTATE)
	return place + bytes <= t->ring &&
	       (t->ring <= pool->run || (uint32_t)(x - pool->start) + bytes <= pool->size);
#elif defined(VMCU_SEVERAL_POOLS)
	(void)x;
	return place + bytes <= t->ring &&
	       VMCU_POOL_BYTE(t->base) + place + bytes <= vmcu_circle_of(pool, t->base)->size;
#else
	(void)x;
	return place + bytes <= t->ring && t->base + place + bytes <= pool->size;
#endif
}

/** Start of row @a y of tensor @a t. */
static inline int8_t *vmcu_row(const struct vmcu_pool *pool, const struct vmcu_tensor *t,
			       uint32_t y)
{
	return vmcu_pixel(pool, t, y, 0);
}

/** Input @a i of the layer being run. */
static inline const struct vmcu_tensor *vmcu_call_input(const struct vmcu_call *call, uint16_t i)
{
	const uint16_t *inputs = (const uint16_t *)vmcu_constants(call, call->layer->inputs);

	return &call->tensors[inputs[i]];
}

/** Output of the layer being run. */
static inline const struct vmcu_tensor *vmcu_call_output(const struct vmcu_call *call)
{
	return &call->tensors[call->layer->output];
}

/** @} */

#ifdef __cplusplus
}
#endif

#endif /* VMCU_MODEL_H_ */
