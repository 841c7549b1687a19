/*
 * SPDX-License-Identifier: Apache-2.0
 */

/**
 * @file
 * @brief The model of an image, bound to its pools, its container and its weights file.
 */

#ifndef BOUND_H_
#define BOUND_H_

#include <stdbool.h>
#include <stdint.h>
#include <string.h>

#include <vmcu/vmcu.h>

#include "io.h"
#if defined(VMCU_EXTERNAL_WEIGHTS)
#include "weights_file.h"
#endif
#include IMAGE_HEADER

#if defined(IMAGE_CONTAINER)
#include <vmcu/container.h>

extern const uint8_t image_container[];
extern const size_t image_container_bytes;
#endif

#if defined(__SANITIZE_ADDRESS__)
#include <sanitizer/asan_interface.h>
#else
#define ASAN_POISON_MEMORY_REGION(start, size)   ((void)(start), (void)(size))
#define ASAN_UNPOISON_MEMORY_REGION(start, size) ((void)(start), (void)(size))
#endif

#define GARBAGE     0xa5
#define GUARD       0x5c
#define GUARD_BYTES 64U

/* One more expansion, so that IMAGE_NAME is replaced before it is pasted. */
#define POOL_BYTES_OF(name)   VMCU_MODEL_POOL_BYTES(name)
#define EACH_POOL_OF(name, x) VMCU_MODEL_EACH_POOL(name, x)
#define MODEL_OF_(name)       name##_model
#define MODEL_OF(name)        MODEL_OF_(name)

#define ROW_BYTES_OF(name) VMCU_MODEL_ROW_BYTES(name)

#define ELSEWHERE_BYTES_OF(name) VMCU_MODEL_ELSEWHERE_BYTES(name)

#define ROW_BYTES       ((size_t)ROW_BYTES_OF(IMAGE_NAME))
#define ELSEWHERE_BYTES ((size_t)ELSEWHERE_BYTES_OF(IMAGE_NAME))

enum exit_code {
	EXIT_DONE,
	EXIT_FILES,
	EXIT_INIT,
	EXIT_GUARD,
	EXIT_INVOKE,
};

/** Exactly a pool, between two guards that no kernel may touch. */
#define ARENA(name, bytes)                                                                         \
	static uint8_t name[GUARD_BYTES + (bytes) + GUARD_BYTES]                                   \
		__attribute__((aligned(VMCU_POOL_ALIGN)));

struct area {
	uint8_t *arena;
	size_t size; /**< of the pool between the guards */
};

#if defined(VMCU_SEVERAL_POOLS)
#define ARENA_IN(name, number, memory, bytes) ARENA(arena_##number, bytes)
#define AREA_OF(name, number, memory, bytes)  {.arena = arena_##number, .size = (bytes)},

EACH_POOL_OF(IMAGE_NAME, ARENA_IN)

static const struct area areas[] = {EACH_POOL_OF(IMAGE_NAME, AREA_OF)};
#elif defined(IMAGE_CONTAINER)
/* Behind the pool's guard, the state of a loaded model. */
#if defined(VMCU_EXTERNAL_WEIGHTS)
#define TAIL_BYTES (1U << 18)
#else
#define TAIL_BYTES ((sizeof(void *) > 4U) ? 1U << 18 : 1U << 9)
#endif

static uint8_t arena[GUARD_BYTES + POOL_BYTES_OF(IMAGE_NAME) + GUARD_BYTES + TAIL_BYTES]
	__attribute__((aligned(VMCU_POOL_ALIGN)));

static const struct area areas[] = {{.arena = arena, .size = POOL_BYTES_OF(IMAGE_NAME)}};
#else
ARENA(arena, POOL_BYTES_OF(IMAGE_NAME))

static const struct area areas[] = {{.arena = arena, .size = POOL_BYTES_OF(IMAGE_NAME)}};
#endif

#define AREAS (sizeof(areas) / sizeof(areas[0]))

static void fill_pools(void)
{
	for (size_t i = 0; i < AREAS; i++) {
		memset(areas[i].arena + GUARD_BYTES, GARBAGE, areas[i].size);
	}
}

/** The input of a model that reads it where it lies: behind a byte, so that it is not aligned. */
static int8_t elsewhere[1U + ELSEWHERE_BYTES];

static int bind_context(struct vmcu_context *ctx)
{
#if defined(VMCU_SEVERAL_POOLS)
	struct vmcu_memory pools[AREAS];

	for (size_t i = 0; i < AREAS; i++) {
		pools[i].start = areas[i].arena + GUARD_BYTES;
		pools[i].size = areas[i].size;
	}
	return vmcu_init_pools(ctx, &MODEL_OF(IMAGE_NAME), pools, AREAS);
#elif defined(IMAGE_CONTAINER)
	static struct vmcu_model loaded;
	const struct vmcu_load_options options = {
#if defined(VMCU_EXTERNAL_WEIGHTS)
		.reader = &reader,
#endif
		.planner = VMCU_PLAN_BUILT,
	};
	const int err = vmcu_model_load_as(&loaded, image_container, image_container_bytes,
					   arena + GUARD_BYTES, sizeof(arena) - GUARD_BYTES,
					   &options, NULL);

	return (err != 0) ? err : vmcu_init(ctx, &loaded, arena + GUARD_BYTES, areas[0].size);
#else
	return vmcu_init(ctx, &MODEL_OF(IMAGE_NAME), arena + GUARD_BYTES, areas[0].size);
#endif
}

/* Not on the stack, so that its writes are told apart from the stack's. */
static struct vmcu_context context;

#endif /* BOUND_H_ */
