/*
 * SPDX-License-Identifier: Apache-2.0
 */

/**
 * @file
 * @brief Reads weights ahead of the stages that need them. Without VMCU_EXTERNAL_WEIGHTS there is
 * no code.
 */

#ifndef VMCU_WEIGHTS_H_
#define VMCU_WEIGHTS_H_

#include <vmcu/vmcu.h>

#if defined(VMCU_EXTERNAL_WEIGHTS)

/** Starts to read a chunk into its place in @a buffer; 0, or a negative errno. */
int vmcu_chunk_start(const struct vmcu_reader *reader, const struct vmcu_chunk *chunk,
		     uint8_t *buffer);

/** Waits for the oldest read, of a chunk; 0, -EIO after a short one, or the reader's errno. */
int vmcu_chunk_wait(const struct vmcu_reader *reader, const struct vmcu_chunk *chunk);

/** Sets up a context without a reader. */
void vmcu_weights_init(struct vmcu_context *ctx);

/**
 * @brief Starts the reads that can start before stage @a number, and waits for the stage's weights.
 *
 * @return 0, -EINVAL without a reader, -EIO after a short read, -EBADMSG if the bytes are
 * damaged or of another build, or the reader's negative errno.
 */
int vmcu_weights_wait(struct vmcu_context *ctx, uint16_t number);

/** Ends an inference, or with @a err a failed one: waits for all reads that have started. */
void vmcu_weights_end(struct vmcu_context *ctx, int err);

#else

static inline void vmcu_weights_init(struct vmcu_context *ctx)
{
	(void)ctx;
}

static inline int vmcu_weights_wait(struct vmcu_context *ctx, uint16_t number)
{
	(void)ctx;
	(void)number;
	return 0;
}

static inline void vmcu_weights_end(struct vmcu_context *ctx, int err)
{
	(void)ctx;
	(void)err;
}

#endif /* VMCU_EXTERNAL_WEIGHTS */

#endif /* VMCU_WEIGHTS_H_ */
