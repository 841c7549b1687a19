/*
 * SPDX-License-Identifier: Apache-2.0
 */

/**
 * @file
 * @brief Reads weights ahead of the stages that need them.
 *
 * Chunks are read in the order in which stages need them. The plan states the stage from which on a
 * chunk may overwrite its part of the buffer.
 */

#include "weights.h"

#if defined(VMCU_EXTERNAL_WEIGHTS)

#include <errno.h>
#include <string.h>

void vmcu_weights_init(struct vmcu_context *ctx)
{
	ctx->reader = NULL;
	ctx->reads_started = 0U;
	ctx->reads_ended = 0U;
}

int vmcu_set_reader(struct vmcu_context *ctx, const struct vmcu_reader *reader)
{
	if (ctx == NULL || ctx->model == NULL || reader == NULL || reader->start == NULL ||
	    reader->wait == NULL) {
		return -EINVAL;
	}
	if (ctx->model->chunk_count == 0U) {
		return -ENOTSUP;
	}
	ctx->reader = reader;
	return 0;
}

/** Starts the next read. */
static int start_read(struct vmcu_context *ctx)
{
	const struct vmcu_chunk *chunk = &ctx->model->chunks[ctx->reads_started];
	const int err = ctx->reader->start(ctx->reader->user, chunk->offset,
					   ctx->model->weights + chunk->to, chunk->bytes);

	if (err == 0) {
		ctx->reads_started++;
	}
	return (err > 0) ? -EIO : err;
}

/** Waits for the oldest read. */
static int wait_read(struct vmcu_context *ctx)
{
	const struct vmcu_chunk *chunk = &ctx->model->chunks[ctx->reads_ended];
	const int got = ctx->reader->wait(ctx->reader->user);
	const uint8_t *end = ctx->model->weights + chunk->to + chunk->bytes;
	uint32_t mark;

	ctx->reads_ended++;
	if (got < 0) {
		return got;
	}
	if ((uint32_t)got != chunk->bytes) {
		return -EIO;
	}
	(void)memcpy(&mark, end - sizeof(mark), sizeof(mark));
	return (mark == ctx->model->weights_mark) ? 0 : -EBADMSG;
}

int vmcu_weights_wait(struct vmcu_context *ctx, uint16_t number)
{
	const struct vmcu_chunk *chunks = ctx->model->chunks;
	const uint16_t count = ctx->model->chunk_count;
	int err = 0;

	if (count > 0U && ctx->reader == NULL) {
		return -EINVAL;
	}
	/* The stages that follow a cancelled one compute nothing. */
	if (ctx->cancelled) {
		return 0;
	}
	while (err == 0 && ctx->reads_started < count &&
	       chunks[ctx->reads_started].start <= number) {
		err = start_read(ctx);
	}
	while (err == 0 && ctx->reads_ended < ctx->reads_started &&
	       chunks[ctx->reads_ended].stage <= number) {
		err = wait_read(ctx);
	}
	return err;
}

void vmcu_weights_end(struct vmcu_context *ctx)
{
	while (ctx->reads_ended < ctx->reads_started) {
		(void)wait_read(ctx);
	}
	ctx->reads_started = 0U;
	ctx->reads_ended = 0U;
}

#endif /* VMCU_EXTERNAL_WEIGHTS */
