/*
 * SPDX-License-Identifier: Apache-2.0
 */

/**
 * @file
 * @brief Constants of a container that are in a file of their own: they are all read once while the
 * model is loaded, so that each stage can be checked, and their digest compared.
 */

#include <errno.h>

#include "check.h"
#include "load.h"

#include "../compiled.h"
#include "../weights.h"

#if defined(VMCU_EXTERNAL_WEIGHTS)

/** True if a chunk is in the buffer, and no read of it overwrites bytes of an earlier stage. */
static bool is_chunk(const struct vmcu_model *model, const struct vmcu_loading *l, uint32_t number)
{
	const struct vmcu_chunk *chunk = &model->chunks[number];
	const uint32_t first = (model->streamed && chunk->stage > 0U) ? 1U : 0U;

	if (chunk->bytes == 0U || chunk->bytes % 4U != 0U || chunk->to % 4U != 0U ||
	    chunk->to > l->weights->buffer || chunk->bytes > l->weights->buffer - chunk->to ||
	    chunk->stage >= model->stage_count || chunk->start > chunk->stage ||
	    chunk->start < first || chunk->stage - chunk->start >= VMCU_MOST_READS) {
		return false;
	}
	/* Stages of earlier ones are below those that its read can be ahead of. */
	for (uint32_t i = (number < VMCU_MOST_READS) ? 0U : number - VMCU_MOST_READS; i < number;
	     i++) {
		const struct vmcu_chunk *other = &model->chunks[i];
		const bool apart = other->to + other->bytes <= chunk->to ||
				   chunk->to + chunk->bytes <= other->to;

		if (other->stage >= chunk->stage || other->start > chunk->start ||
		    (!apart && other->stage >= chunk->start)) {
			return false;
		}
	}
	return true;
}

VMCU_SMALL int vmcu_find_chunks(struct vmcu_model *model, struct vmcu_loading *l)
{
	const uint32_t count = (l->weights == NULL) ? 0U : l->weights->chunk_count;

	if (count == 0U) {
		return (l->weights == NULL) ? 0 : vmcu_refuse(l, -EBADMSG, "chunks", 0U);
	}
	if (l->reader == NULL || l->reader->start == NULL || l->reader->wait == NULL) {
		return vmcu_refuse(l, -EINVAL, "reader", count);
	}
	if (count > UINT16_MAX || l->weights->buffer > INT32_MAX ||
	    !vmcu_is_table(l, l->weights->chunks, count, sizeof(struct vmcu_chunk))) {
		return vmcu_refuse(l, -EBADMSG, "chunks", l->weights->chunks);
	}
	model->chunks = (const void *)&l->data[l->weights->chunks];
	model->chunk_count = (uint16_t)count;
	for (uint32_t i = 0; i < count; i++) {
		if (!is_chunk(model, l, i)) {
			return vmcu_refuse(l, -EBADMSG, "chunk", i);
		}
	}
	l->buffer = vmcu_take_tail(l, l->weights->buffer);
	model->weights = l->buffer;
	return 0;
}

VMCU_SMALL int vmcu_take_chunk(const struct vmcu_model *model, struct vmcu_loading *l,
			       uint32_t stage)
{
	l->chunk = NULL;
	l->chunk_bytes = 0U;
	for (uint32_t i = 0; i < model->chunk_count; i++) {
		const struct vmcu_chunk *chunk = &model->chunks[i];
		int err;

		if (chunk->stage != stage) {
			continue;
		}
		l->chunk = model->weights + chunk->to;
		l->chunk_bytes = chunk->bytes;
		err = vmcu_chunk_start(l->reader, chunk, model->weights);
		if (err == 0) {
			err = vmcu_chunk_wait(l->reader, chunk);
		}
		if (err != 0) {
			return vmcu_refuse(l, err, "read of chunk", i);
		}
		vmcu_sha256(l->read, sizeof(l->read), l->chunk, l->chunk_bytes, l->read);
	}
	return 0;
}

void vmcu_show_chunk(struct vmcu_check *c, const struct vmcu_loading *l)
{
	c->chunk = (l == NULL) ? NULL : l->chunk;
	c->chunk_bytes = (l == NULL) ? 0U : l->chunk_bytes;
}

VMCU_SMALL int vmcu_check_weights(struct vmcu_loading *l)
{
	if (l->weights != NULL && !vmcu_same_digest(l->read, l->weights->digest)) {
		return vmcu_refuse(l, -EBADMSG, "weights", l->weights->chunk_count);
	}
	return 0;
}

#endif /* VMCU_EXTERNAL_WEIGHTS */
