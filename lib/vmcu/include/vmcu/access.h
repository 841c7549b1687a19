/*
 * SPDX-License-Identifier: Apache-2.0
 */

/**
 * @file
 * @brief Addresses of a model's tensors and constants, for the runtime and for kernels.
 *
 * Applications do not need this header.
 */

#ifndef VMCU_ACCESS_H_
#define VMCU_ACCESS_H_

#include <vmcu/model.h>

#ifdef __cplusplus
extern "C" {
#endif

/**
 * @defgroup vmcu_access Addresses
 * @{
 */

/**
 * vmcu_at() converts a pointer of a model's tables to an address; vmcu_from() is its inverse. In a
 * container, pointers are relative to the container's start.
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

/**
 * States a promise of the tables. A Zephyr build with CONFIG_ASSERT checks it, other builds where
 * they define this macro.
 */
#if !defined(VMCU_ASSERT)
#if defined(__ZEPHYR__) && defined(CONFIG_ASSERT)
#include <zephyr/sys/__assert.h>
#define VMCU_ASSERT(promise) __ASSERT_NO_MSG(promise)
#else
#define VMCU_ASSERT(promise) ((void)0)
#endif
#endif

/** Converts a pointer in the parameters of the running layer to an address. */
#define vmcu_constants(call, pointer) vmcu_at(vmcu_base(call), pointer)

/** Returns the parameters of the running layer. */
#define vmcu_params(call) vmcu_constants(call, (call)->layer->params)

/** Returns the kernel of a layer. */
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

/** Returns the name of an input or output. */
static inline const char *vmcu_io_name(const struct vmcu_model *model, const struct vmcu_io *io)
{
	(void)model;
	return (const char *)vmcu_at(vmcu_base(model), io->name);
}

/** Returns the offset of a pixel in the ring buffer of tensor @a t, in bytes. */
static inline uint32_t vmcu_place(const struct vmcu_tensor *t, uint32_t y, uint32_t x)
{
	const uint32_t o = (y * t->width + x) * t->channels + t->phase;

	return (o < t->ring) ? o : o % t->ring;
}

/** Returns how many of @a pixels, from pixel (y, x) of tensor @a t on, are before the end of the
 * ring buffer.
 */
static inline int32_t vmcu_unsplit(const struct vmcu_tensor *t, uint32_t y, uint32_t x,
				   int32_t pixels)
{
	const uint32_t left = t->ring - vmcu_place(t, y, x);

	return (left >= (uint32_t)pixels * t->channels) ? pixels : (int32_t)(left / t->channels);
}

#if defined(VMCU_SEVERAL_POOLS)
/** Returns the pool of an address. */
static inline const struct vmcu_circle *vmcu_circle_of(const struct vmcu_pool *pool, uint32_t at)
{
	return &pool->circles[at >> VMCU_POOL_NUMBER];
}
#endif

/** Returns the start of the pool of tensor @a t. */
static inline int8_t *vmcu_pool_start(const struct vmcu_pool *pool, const struct vmcu_tensor *t)
{
#if defined(VMCU_SEVERAL_POOLS)
	return vmcu_circle_of(pool, t->base)->start;
#else
	(void)t;
	return pool->start;
#endif
}

/** Returns the address at offset @a at from the origin, less than twice the pool's size. */
static inline int8_t *vmcu_pool_byte(const struct vmcu_pool *pool, uint32_t at)
{
#if defined(VMCU_POOL_ROTATE)
	VMCU_ASSERT(at < 2U * pool->size);
	if (at >= pool->cut) {
		at -= pool->size;
		/* The offset can wrap at the pool's end and at the plan's end. */
		if ((int32_t)at >= (int32_t)pool->cut) {
			at -= pool->size;
		}
	}
	return pool->origin + (int32_t)at;
#elif defined(VMCU_SEVERAL_POOLS)
	const struct vmcu_circle *circle = vmcu_circle_of(pool, at);
	const uint32_t byte = VMCU_POOL_BYTE(at);

	VMCU_ASSERT(byte < 2U * circle->size);
	return circle->start + ((byte < circle->size) ? byte : byte - circle->size);
#else
	VMCU_ASSERT(at < 2U * pool->size);
	return pool->start + ((at < pool->size) ? at : at - pool->size);
#endif
}

/** vmcu_pool_byte() for an offset @a at that is less than the pool's size. */
static inline int8_t *vmcu_pool_run(const struct vmcu_pool *pool, uint32_t at)
{
#if defined(VMCU_POOL_ROTATE) || defined(VMCU_SEVERAL_POOLS)
	return vmcu_pool_byte(pool, at);
#else
	return pool->start + at;
#endif
}

/** Returns the address of pixel (y, x) of tensor @a t. */
static inline int8_t *vmcu_pixel(const struct vmcu_pool *pool, const struct vmcu_tensor *t,
				 uint32_t y, uint32_t x)
{
#if defined(VMCU_POOL_ROTATE)
	/*
	 * Contiguous bytes are all on the same side of the pool's end as their first byte. That is
	 * the ring buffer's first byte if the buffer is short, or if its start is between the row's
	 * start and the pixel. Otherwise it is the row's first byte.
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
 * Returns true if @a bytes bytes of tensor @a t are contiguous in memory. They start at offset
 * @a place of its ring buffer, at address @a x.
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

/** Returns the address of row @a y of tensor @a t. */
static inline int8_t *vmcu_row(const struct vmcu_pool *pool, const struct vmcu_tensor *t,
			       uint32_t y)
{
	return vmcu_pixel(pool, t, y, 0);
}

/** Returns input @a i of the running layer. */
static inline const struct vmcu_tensor *vmcu_call_input(const struct vmcu_call *call, uint16_t i)
{
	const uint16_t *inputs = (const uint16_t *)vmcu_constants(call, call->layer->inputs);

	return &call->tensors[inputs[i]];
}

/** Returns the output of the running layer. */
static inline const struct vmcu_tensor *vmcu_call_output(const struct vmcu_call *call)
{
	return &call->tensors[call->layer->output];
}

/** @} */

#ifdef __cplusplus
}
#endif

#endif /* VMCU_ACCESS_H_ */
