/*
 * SPDX-License-Identifier: Apache-2.0
 */

#include <errno.h>

#include <vmcu/vmcu.h>

#include "compiled.h"
#include "hooks.h"
#include "pools.h"
#include "rotation.h"
#include "stage.h"
#include "streams.h"
#include "weights.h"

/** False for none, and for one whose container was refused. */
static bool is_model(const struct vmcu_model *model)
{
#if defined(VMCU_CONTAINERS)
	return model != NULL && model->name != NULL;
#else
	return model != NULL;
#endif
}

/** Begins with a context that is bound to a model and its pool. */
static void reset_context(struct vmcu_context *ctx)
{
	vmcu_rotation_init(ctx);
	for (uint16_t i = 0; i < VMCU_POSITIONS; i++) {
		ctx->positions[i].rows = 0U;
	}
	ctx->cancelled = false;
	ctx->input = NULL;
	vmcu_weights_init(ctx);
#if defined(VMCU_PROFILE)
	ctx->profile = NULL;
#endif
#if defined(VMCU_PROBE)
	ctx->probe = NULL;
#endif
}

/** Unbinds a context; 0 if it may be bound to a model. */
static int unbind_context(struct vmcu_context *ctx, const struct vmcu_model *model)
{
	if (ctx == NULL) {
		return -EINVAL;
	}
	ctx->model = NULL;
	return is_model(model) ? 0 : -EINVAL;
}

#if defined(VMCU_SEVERAL_POOLS)
int vmcu_init_pools(struct vmcu_context *ctx, const struct vmcu_model *model,
		    const struct vmcu_memory *pools, size_t count)
{
	int err = unbind_context(ctx, model);
	size_t size = 0U;

	if (err == 0) {
		err = vmcu_pools_bind(ctx, model, pools, count);
	}
	if (err == 0) {
		reset_context(ctx);
	}
	for (size_t i = 0; pools != NULL && i < count; i++) {
		size += pools[i].size;
		if (err == 0) {
			vmcu_guard_init(ctx, (unsigned int)i, pools[i].size);
		}
	}
	vmcu_hook_init(model, size, err);
	return err;
}

int vmcu_init(struct vmcu_context *ctx, const struct vmcu_model *model, void *pool, size_t size)
{
	const struct vmcu_memory only = {.start = pool, .size = size};

	return vmcu_init_pools(ctx, model, &only, 1U);
}
#else
int vmcu_init(struct vmcu_context *ctx, const struct vmcu_model *model, void *pool, size_t size)
{
	int err = unbind_context(ctx, model);

	if (err == 0) {
		err = vmcu_pool_bind(ctx, model, pool, size);
	}
	if (err == 0) {
		reset_context(ctx);
		vmcu_guard_init(ctx, 0U, size);
	}
	vmcu_hook_init(model, size, err);
	return err;
}
#endif

#if defined(VMCU_POOL_ROTATE)
int vmcu_rotate_to(struct vmcu_context *ctx, uint32_t inferences)
{
	if (ctx == NULL || ctx->model == NULL) {
		return -EINVAL;
	}
	vmcu_position(ctx)->rows = 0U;
	vmcu_turn(&ctx->pool, (uint32_t)((uint64_t)inferences * ctx->model->step % ctx->pool.size));
	return 0;
}
#endif

int vmcu_cancel(struct vmcu_context *ctx)
{
	if (ctx == NULL || ctx->model == NULL) {
		return -EINVAL;
	}
	ctx->cancelled = true;
	return 0;
}

static const struct vmcu_tensor *input_tensor(const struct vmcu_context *ctx, unsigned int index)
{
	if (ctx == NULL || ctx->model == NULL || index >= ctx->model->input_count) {
		return NULL;
	}
	return &ctx->model->tensors[ctx->model->inputs[index].tensor];
}

static const struct vmcu_tensor *output_tensor(const struct vmcu_context *ctx, unsigned int index)
{
	if (ctx == NULL || ctx->model == NULL || index >= ctx->model->output_count) {
		return NULL;
	}
	return &ctx->model->tensors[ctx->model->outputs[index].tensor];
}

/** Bytes of so many rows. */
static size_t bytes_of(const struct vmcu_tensor *t, uint16_t rows)
{
	return (size_t)rows * t->width * t->channels;
}

VMCU_SMALL int8_t *vmcu_input(const struct vmcu_context *ctx, unsigned int index)
{
	const struct vmcu_tensor *t = input_tensor(ctx, index);

	if (t == NULL || !vmcu_holds_input(ctx->model) || !vmcu_in_one_piece(ctx, t)) {
		return NULL;
	}
	return vmcu_row(&ctx->pool, t, 0);
}

int8_t *vmcu_row_of_input(const struct vmcu_context *ctx, unsigned int index, unsigned int y)
{
	const struct vmcu_tensor *t = input_tensor(ctx, index);

	if (t == NULL || !vmcu_holds_input(ctx->model) || y >= t->height) {
		return NULL;
	}
	return vmcu_row(&ctx->pool, t, y);
}

int vmcu_set_input(struct vmcu_context *ctx, const int8_t *input)
{
	if (ctx == NULL || ctx->model == NULL || input == NULL) {
		return -EINVAL;
	}
	if (!ctx->model->elsewhere) {
		return -ENOTSUP;
	}
	ctx->input = input;
	return 0;
}

size_t vmcu_input_size(const struct vmcu_context *ctx, unsigned int index)
{
	const struct vmcu_tensor *t = input_tensor(ctx, index);

	if (t == NULL) {
		return 0U;
	}
	return bytes_of(t, vmcu_is_stream(ctx->model) ? 1U : t->height);
}

size_t vmcu_row_size(const struct vmcu_context *ctx, unsigned int index)
{
	const struct vmcu_tensor *t = input_tensor(ctx, index);

	return (t == NULL) ? 0U : bytes_of(t, 1U);
}

static const int8_t *output_row(const struct vmcu_context *ctx, const struct vmcu_tensor *t,
				unsigned int y)
{
	const struct vmcu_pool pool = vmcu_pool_of_outputs(ctx);

	return vmcu_row(&pool, t, y);
}

VMCU_SMALL const int8_t *vmcu_output(const struct vmcu_context *ctx, unsigned int index)
{
	const struct vmcu_tensor *t = output_tensor(ctx, index);

	return (t == NULL || !vmcu_in_one_piece(ctx, t)) ? NULL : output_row(ctx, t, 0U);
}

const int8_t *vmcu_row_of_output(const struct vmcu_context *ctx, unsigned int index, unsigned int y)
{
	const struct vmcu_tensor *t = output_tensor(ctx, index);

	if (t == NULL || y >= vmcu_rows_of_output(ctx->model, t)) {
		return NULL;
	}
	return output_row(ctx, t, y);
}

size_t vmcu_output_size(const struct vmcu_context *ctx, unsigned int index)
{
	const struct vmcu_tensor *t = output_tensor(ctx, index);

	return (t == NULL) ? 0U : bytes_of(t, vmcu_rows_of_output(ctx->model, t));
}

/** Computes all rows of a layer on its own, in its direction; it may be cancelled unless @a whole.
 */
static void run_layer(const struct vmcu_context *ctx, const struct vmcu_layer *layer, bool whole)
{
	uint32_t scratch[VMCU_STACK_SCRATCH / sizeof(uint32_t)];
	struct vmcu_call call = {
		.pool = &ctx->pool,
		.tensors = ctx->model->tensors,
		.layer = layer,
		.scratch = vmcu_scratch(ctx, layer, scratch),
		.input = ctx->input,
		.columns = layer->columns,
#if defined(VMCU_CONTAINERS)
		.base = ctx->model->base,
#endif
	};

	for (uint16_t i = 0; i < layer->rows && (whole || !ctx->cancelled); i++) {
		call.y = (layer->descending != 0U) ? (uint16_t)(layer->rows - 1U - i) : i;
		vmcu_hook_call(ctx, &call);
	}
}

/** An inference begins. */
static int begin_inference(struct vmcu_context *ctx)
{
	vmcu_hook_begin(ctx);
	return vmcu_guard_begin(ctx);
}

/** Stage @a number is over. */
static int end_stage(struct vmcu_context *ctx, uint16_t number)
{
	vmcu_hook_stage_end(ctx, number);
	return vmcu_guard_stage(ctx, number);
}

/** The next row is the first of another input; of a stream it is the next one whatever happens. */
static void reset_position(struct vmcu_context *ctx)
{
	struct vmcu_position *at = vmcu_position(ctx);

	if (vmcu_is_stream(ctx->model)) {
		at->time = ctx->cancelled ? VMCU_INTERRUPTED : 0U;
	} else {
		at->rows = 0U;
	}
}

#if defined(VMCU_STREAMS)
/**
 * Keeps the states that layers have computed: all of them, or none of a hop that is cancelled, so
 * that no two are of different hops. Where there are none yet, the stream begins again.
 */
static int keep_states(struct vmcu_context *ctx, int err)
{
	const struct vmcu_model *model = ctx->model;
	const bool keeps = err == 0 && !ctx->cancelled;

	for (uint16_t i = vmcu_first_keeping(model); keeps && err == 0 && i < model->stage_count;
	     i++) {
		vmcu_hook_stage_begin(ctx, i);
		run_layer(ctx, &model->layers[model->stages[i].first], true);
		err = end_stage(ctx, i);
	}
	if (!keeps && vmcu_first_keeping(model) < model->stage_count && vmcu_stage_first_hop(ctx)) {
		vmcu_position(ctx)->rows = 0U;
	}
	return err;
}
#else
static int keep_states(struct vmcu_context *ctx, int err)
{
	(void)ctx;
	return err;
}
#endif

/**
 * @brief Computes stages from @a number on to the end of the inference, or until it is cancelled.
 *
 * Stages that follow a cancelled one begin and stop at once: that costs fewer instructions, where
 * nobody cancels, than asking each of them.
 *
 * @param err The error before, 0 for none.
 */
VMCU_SMALL static int finish_inference(struct vmcu_context *ctx, uint16_t number, int err)
{
	const uint16_t end = vmcu_first_keeping(ctx->model);

	for (; err == 0 && number < end; number++) {
		const struct vmcu_stage *stage = &ctx->model->stages[number];

		VMCU_ASSERT(stage->first + stage->count <= ctx->model->layer_count);
		err = vmcu_weights_wait(ctx, number);
		if (err != 0) {
			break;
		}
		vmcu_hook_stage_begin(ctx, number);
		if (stage->schedule == NULL) {
			run_layer(ctx, &ctx->model->layers[stage->first], false);
		} else {
			struct vmcu_position at = {.rows = 0U};

			vmcu_stage_start(ctx, stage);
			(void)vmcu_stage_run(ctx, stage, &at, NULL);
		}
		err = end_stage(ctx, number);
	}
	vmcu_weights_end(ctx, err);
	err = keep_states(ctx, err);
	reset_position(ctx);
	if (ctx->cancelled) {
		ctx->cancelled = false;
		err = (err == 0) ? -ECANCELED : err;
	}
	vmcu_rotate(ctx, err);
	vmcu_hook_end(ctx, err);
	return err;
}

int vmcu_invoke(struct vmcu_context *ctx)
{
	if (ctx == NULL || ctx->model == NULL) {
		return -EINVAL;
	}
	if (ctx->model->streamed) {
		return -ENOTSUP;
	}
	if (ctx->model->elsewhere && ctx->input == NULL) {
		return -EINVAL;
	}
	return finish_inference(ctx, 0U, begin_inference(ctx));
}

/** Copies a row to its place; false if it was the last. */
static bool keep_row(struct vmcu_context *ctx, const int8_t *row)
{
	const struct vmcu_tensor *in = input_tensor(ctx, 0U);
	uint16_t *rows = &vmcu_position(ctx)->rows;

	__builtin_memcpy(vmcu_row(&ctx->pool, in, *rows), row, vmcu_row_size(ctx, 0U));
	(*rows)++;
	return *rows < in->height;
}

/** True if a row is the first of an inference, or of a hop. */
static bool begins_inference(const struct vmcu_context *ctx, const struct vmcu_position *at)
{
	const bool hop = at->entry == 0U || at->time == VMCU_INTERRUPTED;

	return at->rows == 0U || (vmcu_is_stream(ctx->model) && hop);
}

/** Runs the first stage as far as a row takes it: 1 if it waits for the next one. */
static int stream_row(struct vmcu_context *ctx, const int8_t *row)
{
	const struct vmcu_stage *stage = &ctx->model->stages[0];
	struct vmcu_position *at = vmcu_position(ctx);

	if (begins_inference(ctx, at)) {
		int err = begin_inference(ctx);

		if (err == 0) {
			err = vmcu_weights_wait(ctx, 0U);
		}
		if (err != 0) {
			return err;
		}
		vmcu_hook_stage_begin(ctx, 0U);
	}
	if (at->rows == 0U) {
		*at = (struct vmcu_position){.rows = 0U};
		vmcu_stage_start(ctx, stage);
	}
	if (!vmcu_stage_run(ctx, stage, at, row) && !ctx->cancelled) {
		return 1;
	}
	return end_stage(ctx, 0U);
}

int vmcu_push_row(struct vmcu_context *ctx, const int8_t *row)
{
	if (ctx == NULL || ctx->model == NULL || row == NULL) {
		return -EINVAL;
	}
	if (ctx->model->input_count != 1U || ctx->model->elsewhere) {
		return -ENOTSUP;
	}
	if (ctx->model->streamed) {
		const int err = stream_row(ctx, row);

		return (err > 0) ? err : finish_inference(ctx, 1U, err);
	}
	if (keep_row(ctx, row) && !ctx->cancelled) {
		return 1;
	}
	return finish_inference(ctx, 0U, begin_inference(ctx));
}
