/*
 * SPDX-License-Identifier: Apache-2.0
 */

/**
 * @file
 * @brief Runs a model on any input, with anything in its pool, for scripts/frama_c.sh.
 *
 * It is also cancelled in front of one call after another. A stream gets more rows than its window
 * has; its state is saved, emptied and restored. CONTAINER: the model is loaded.
 */

#include <__fc_builtin.h>

#include <vmcu/container.h>
#include <vmcu/pool.h>

#include "hooks.h"

#define MODEL_CALLED_(name) name##_model
#define MODEL_CALLED(name)  MODEL_CALLED_(name)
#define POOL_BYTES(name)    VMCU_MODEL_POOL_BYTES(name)
#define ROW_BYTES(name)     VMCU_MODEL_ROW_BYTES(name)

extern void Frama_C_show_each_output(int sum);

#if defined(VMCU_CONTAINERS)

/* A container, and what loading it needs beside the pool. */
static const uint8_t container[] __attribute__((aligned(VMCU_CONTAINER_ALIGN))) = {
#include "container.inc"
};
static VMCU_POOL_DEFINE(pool, 2048);

static size_t load(struct vmcu_model *model)
{
	static const struct vmcu_load_options options = {.replay = true};

	if (vmcu_model_load_as(model, container, sizeof(container), pool, sizeof(pool), &options,
			       NULL) != 0) {
		return 0U;
	}
	return vmcu_arena_head(model, sizeof(pool));
}

#else

static VMCU_POOL_DEFINE(pool, POOL_BYTES(MODEL));

static size_t load(struct vmcu_model *model)
{
	*model = MODEL_CALLED(MODEL);
	return sizeof(pool);
}

#endif

/** Calls of kernels to the one in front of which the inference is cancelled, if it comes. */
static unsigned int calls_left;

void vmcu_hook_call(const struct vmcu_context *ctx, const struct vmcu_call *call)
{
	if (calls_left-- == 0U) {
		(void)vmcu_cancel((struct vmcu_context *)ctx);
	}
	vmcu_kernel_of(ctx->model, call->layer)(call);
}

static void fill(int8_t *values, size_t count)
{
	for (size_t i = 0; i < count; i++) {
		values[i] = (int8_t)Frama_C_interval(INT8_MIN, INT8_MAX);
	}
}

#if defined(VMCU_STREAMS)

static int8_t row[ROW_BYTES(MODEL)];
static uint8_t state[POOL_BYTES(MODEL) + 64];

/** An inference of a stream is the rows up to the next answer. */
static int infer(struct vmcu_context *ctx)
{
	int err;

	do {
		fill(row, sizeof(row));
		err = vmcu_push_row(ctx, row);
	} while (err == 1);
	return err;
}

static int keep_state(struct vmcu_context *ctx)
{
	const size_t size = vmcu_state_size(ctx);

	(void)vmcu_state_save(ctx, state, size);
	(void)vmcu_reset(ctx);
	return (vmcu_state_restore(ctx, state, size) != 0) ? 1 : 0;
}

#else

static int infer(struct vmcu_context *ctx)
{
	fill(vmcu_input(ctx, 0U), vmcu_input_size(ctx, 0U));
	return vmcu_invoke(ctx);
}

static int keep_state(struct vmcu_context *ctx)
{
	(void)ctx;
	return 0;
}

#endif

int main(void)
{
	static struct vmcu_context ctx;
	static struct vmcu_model model;
	const int8_t *out;
	int sum = 0;
	size_t size;

	Frama_C_make_unknown((char *)pool, sizeof(pool));
	size = load(&model);
	if (size == 0U || vmcu_init(&ctx, &model, pool, size) != 0) {
		return 1;
	}
	for (unsigned int i = 0; i < CANCELLED; i++) {
		calls_left = i * BETWEEN;
		(void)infer(&ctx);
	}
	calls_left = UINT32_MAX;
	if (infer(&ctx) != 0) {
		return 1;
	}
	if (keep_state(&ctx) != 0 || infer(&ctx) != 0) {
		return 1;
	}
	out = vmcu_output(&ctx, 0U);
	for (size_t i = 0; out != NULL && i < vmcu_output_size(&ctx, 0U); i++) {
		sum += out[i];
	}
	/* The script looks for it: a run that stops before proves nothing. */
	Frama_C_show_each_output(sum);
	return 0;
}
