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

#include "rotation.h"
#include "streams.h"
#include "weights.h"

#if defined(VMCU_EXTERNAL_WEIGHTS)

#include <errno.h>

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
	vmcu_weights_init(ctx);
	ctx->reader = reader;
	return 0;
}

int vmcu_chunk_start(const struct vmcu_reader *reader, const struct vmcu_chunk *chunk,
		     uint8_t *buffer)
{
	const int err =
		reader->start(reader->user, chunk->offset, buffer + chunk->to, chunk->bytes);

	return (err > 0) ? -EIO : err;
}

int vmcu_chunk_wait(const struct vmcu_reader *reader, const struct vmcu_chunk *chunk)
{
	const int got = reader->wait(reader->user);

	if (got < 0) {
		return got;
	}
	return ((uint32_t)got == chunk->bytes) ? 0 : -EIO;
}

/** Starts the next read. */
static int start_read(struct vmcu_context *ctx)
{
	const int err = vmcu_chunk_start(ctx->reader, &ctx->model->chunks[ctx->reads_started],
					 ctx->model->weights);

	if (err == 0) {
		ctx->reads_started++;
	}
	return err;
}

static uint32_t rotated(uint32_t x, uint32_t bits)
{
	return (x << bits) | (x >> (32U - bits));
}

/** MurmurHash3_x86_32 of whole words: a change within one word always changes it. */
static uint32_t digest_of(const uint8_t *data, uint32_t bytes)
{
	uint32_t digest = 0U;

	for (uint32_t i = 0U; i < bytes; i += sizeof(uint32_t)) {
		uint32_t word;

		__builtin_memcpy(&word, __builtin_assume_aligned(data + i, 4), sizeof(word));
		digest ^= rotated(word * 0xcc9e2d51U, 15U) * 0x1b873593U;
		digest = rotated(digest, 13U) * 5U + 0xe6546b64U;
	}
	digest ^= bytes;
	digest = (digest ^ (digest >> 16)) * 0x85ebca6bU;
	digest = (digest ^ (digest >> 13)) * 0xc2b2ae35U;
	return digest ^ (digest >> 16);
}

/** Waits for the oldest read. */
static int wait_read(struct vmcu_context *ctx)
{
	const struct vmcu_chunk *chunk = &ctx->model->chunks[ctx->reads_ended];
	const int err = vmcu_chunk_wait(ctx->reader, chunk);

	ctx->reads_ended++;
	if (err != 0) {
		return err;
	}
	return (digest_of(ctx->model->weights + chunk->to, chunk->bytes) == chunk->digest)
		       ? 0
		       : -EBADMSG;
}

int vmcu_weights_wait(struct vmcu_context *ctx, uint16_t number)
{
	const struct vmcu_chunk *chunks = ctx->model->chunks;
	const uint16_t count = ctx->model->chunk_count;
	int err = 0;

	if (count > 0U && ctx->reader == NULL) {
		return -EINVAL;
	}
	/* The stages that follow a cancelled one compute nothing; of a stream the first one does.
	 */
	if (ctx->cancelled && number > 0U) {
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

void vmcu_weights_end(struct vmcu_context *ctx, int err)
{
	while (ctx->reads_ended < ctx->reads_started) {
		(void)wait_read(ctx);
	}
	/* A caller does not know of an error whether the row was taken: a stream begins again. */
	if (err != 0 && vmcu_is_stream(ctx->model)) {
		vmcu_position(ctx)->rows = 0U;
	}
	/* The weights of a stream of one stage are still there at its next row. */
	if (err != 0 || !vmcu_is_stream(ctx->model) || ctx->model->chunk_count > 1U) {
		ctx->reads_started = 0U;
		ctx->reads_ended = 0U;
	}
}

#endif /* VMCU_EXTERNAL_WEIGHTS */
