/*
 * SPDX-License-Identifier: Apache-2.0
 */

/**
 * @file
 * @brief The state of a model that was built with --hop, emptied, saved and restored.
 */

#include <errno.h>

#include <vmcu/vmcu.h>

#include "pools.h"
#include "rotation.h"
#include "stage.h"
#include "streams.h"

#if defined(VMCU_STREAMS)

/* "vmS" and the version of the format. */
#define STATE_MAGIC 0x01536d76U

/** In front of the bytes of the pool. */
struct head {
	uint32_t magic;
	uint32_t model;
	uint32_t bytes;
	uint32_t sum; /**< of these bytes and of the position */
	struct vmcu_position at;
};

static bool keeps_state(const struct vmcu_context *ctx)
{
	return ctx != NULL && ctx->model != NULL && vmcu_is_stream(ctx->model);
}

/** FNV-1a, going on from @a sum. */
static uint32_t add_to_sum(uint32_t sum, const void *data, size_t size)
{
	const uint8_t *bytes = data;

	for (size_t i = 0; i < size; i++) {
		sum = (sum ^ bytes[i]) * 16777619U;
	}
	return sum;
}

/** Address of the state in the pool. */
static uint8_t *state_of(const struct vmcu_context *ctx)
{
	return (uint8_t *)vmcu_circle_at(&ctx->pool, 0U).start + ctx->model->stream->state;
}

static struct head head_of(const struct vmcu_context *ctx, const struct vmcu_position *at,
			   const void *bytes)
{
	const uint32_t size = ctx->model->stream->state_bytes;
	const struct head head = {
		.magic = STATE_MAGIC,
		.model = ctx->model->stream->model,
		.bytes = size,
		.sum = add_to_sum(add_to_sum(2166136261U, at, sizeof(*at)), bytes, size),
		.at = *at,
	};

	return head;
}

int vmcu_reset(struct vmcu_context *ctx)
{
	if (ctx == NULL || ctx->model == NULL) {
		return -EINVAL;
	}
	vmcu_position(ctx)->rows = 0U;
	return 0;
}

size_t vmcu_state_size(const struct vmcu_context *ctx)
{
	return keeps_state(ctx) ? sizeof(struct head) + ctx->model->stream->state_bytes : 0U;
}

/** The checks that save and restore share. */
static int check_call(const struct vmcu_context *ctx, const void *state)
{
	if (ctx == NULL || ctx->model == NULL || state == NULL) {
		return -EINVAL;
	}
	return vmcu_is_stream(ctx->model) ? 0 : -ENOTSUP;
}

int vmcu_state_save(struct vmcu_context *ctx, void *state, size_t size)
{
	const int err = check_call(ctx, state);

	if (err != 0) {
		return err;
	}
	if (size < vmcu_state_size(ctx)) {
		return -ENOMEM;
	}

	const struct head head = head_of(ctx, vmcu_position(ctx), state_of(ctx));

	__builtin_memcpy(state, &head, sizeof(head));
	__builtin_memcpy((uint8_t *)state + sizeof(head), state_of(ctx), head.bytes);
	return 0;
}

/**
 * True if a stream that was saved with such bytes can have been there, even if the sum is forged.
 */
static bool is_place(const struct vmcu_model *model, const struct vmcu_position *at,
		     const uint8_t *bytes)
{
	const struct vmcu_stream *stream = model->stream;
	const struct vmcu_stage *stage = &model->stages[0];
	const struct vmcu_part *parts = vmcu_at(vmcu_base(model), stage->parts);
	const uint16_t *calls = vmcu_at(vmcu_base(model), stream->calls);
	const uint8_t *const counts = &bytes[stage->progress - stream->state];

	if (at->part > 1U || at->entry > parts[at->part].length || at->rows > stream->rows) {
		return false;
	}
	for (uint16_t i = 0; at->rows != 0U && i < stage->count; i++) {
		uint16_t made;

		__builtin_memcpy(&made, &counts[sizeof(made) * i], sizeof(made));
		if (made >= calls[i]) {
			return false;
		}
	}
	return true;
}

int vmcu_state_restore(struct vmcu_context *ctx, const void *state, size_t size)
{
	const uint8_t *const bytes = (const uint8_t *)state + sizeof(struct head);
	struct head head;
	struct head wanted;
	int err = check_call(ctx, state);

	if (err != 0) {
		return err;
	}
	if (size < vmcu_state_size(ctx)) {
		return -EINVAL;
	}
	__builtin_memcpy(&head, state, sizeof(head));
	wanted = head_of(ctx, &head.at, bytes);
	if (head.magic != wanted.magic || head.model != wanted.model ||
	    head.bytes != wanted.bytes) {
		return -EBADMSG;
	}
	if (head.sum != wanted.sum || !is_place(ctx->model, &head.at, bytes)) {
		return -EILSEQ;
	}
	__builtin_memcpy(state_of(ctx), bytes, head.bytes);
	*vmcu_position(ctx) = head.at;
	vmcu_position(ctx)->time = VMCU_INTERRUPTED;
	return 0;
}

#endif /* VMCU_STREAMS */
