/*
 * SPDX-License-Identifier: Apache-2.0
 */

/**
 * @file
 * @brief The inference call.
 */

#ifndef VMCU_VMCU_H_
#define VMCU_VMCU_H_

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include <vmcu/model.h>
#include <vmcu/pool.h>

#ifdef __cplusplus
extern "C" {
#endif

/**
 * @defgroup vmcu Inference
 * @{
 */

/** A pool must start at a multiple of this many bytes. */
#define VMCU_POOL_ALIGN 8

/**
 * Pool bytes of the model called @a name, an integer constant: VMCU_MODEL_POOL_BYTES(kws). Needs
 * the model's header. A build with VMCU_POOL_GUARD, as CONFIG_VMCU_POOL_GUARD makes it, counts the
 * canaries in and vmcu_init() demands them.
 */
#if defined(VMCU_POOL_GUARD)
#define VMCU_POOL_GUARD_BYTES       32
#define VMCU_MODEL_POOL_BYTES(name) (vmcu_pool_bytes_of_##name + VMCU_POOL_GUARD_BYTES)
#else
#define VMCU_POOL_GUARD_BYTES       0
#define VMCU_MODEL_POOL_BYTES(name) vmcu_pool_bytes_of_##name
#endif

/**
 * use(name, number, memory, bytes) for each pool of the model called @a name, which was built with
 * several memories. A pool's bytes are VMCU_MODEL_POOL_BYTES(kws_dtcm) as well.
 */
#define VMCU_MODEL_EACH_POOL(name, use) vmcu_each_pool_of_##name(use)

/** Bytes of a row of the first input of the model called @a name, an integer constant. */
#define VMCU_MODEL_ROW_BYTES(name) vmcu_row_bytes_of_##name

/**
 * Bytes of the input of the model called @a name that vmcu_set_input() is given, an integer
 * constant; 0 if the model was not built with --external-input.
 */
#define VMCU_MODEL_ELSEWHERE_BYTES(name) vmcu_elsewhere_bytes_of_##name

#ifndef VMCU_MODEL_REGISTER
/** Enters a model into the port's list of models, if there is one. */
#define VMCU_MODEL_REGISTER(name) extern const struct vmcu_model name##_model
#endif

struct vmcu_profile;

/**
 * Positions that a context has room for: where the pool rotates, for memory that wears out, its
 * origins share several.
 */
#if defined(VMCU_POOL_ROTATE)
#define VMCU_POSITIONS 8
#else
#define VMCU_POSITIONS 1
#endif

/** How far an input has come that is delivered row by row; only such inputs write here. */
struct vmcu_position {
	uint16_t rows; /**< delivered since it began */
	/* Where in its schedule the first stage waits for the next one. */
	uint16_t part;
	uint16_t time;
	uint16_t entry;
};

/**
 * A model together with the pool it runs in. The caller owns it; two contexts share nothing but
 * const tables, so they may be used from two threads at once.
 */
struct vmcu_context {
	const struct vmcu_model *model;
	struct vmcu_pool pool;
#if defined(VMCU_POOL_ROTATE)
	uint32_t outputs_origin; /**< of the pool in the inference that made the outputs */
#endif
	struct vmcu_position positions[VMCU_POSITIONS];
	volatile bool cancelled; /**< set by vmcu_cancel(), cleared by the call that it stops */
	const int8_t *input;     /**< of a model built with --external-input */
#if defined(VMCU_POOL_GUARD)
	uint32_t guard_end; /**< of the last canary, from the pool's start */
#endif
#if defined(VMCU_PROFILE)
	struct vmcu_profile *profile; /**< see vmcu/profile.h */
#endif
};

/**
 * @brief Binds a model to a pool.
 *
 * @param ctx   Context to set up.
 * @param model Tables from `vmcu build`.
 * @param pool  At least model->pool_bytes bytes, aligned to VMCU_POOL_ALIGN. Need not be cleared.
 * @param size  Bytes at @a pool. More than the model needs is allowed and left alone.
 *
 * @retval 0       Ready.
 * @retval -EINVAL A pointer is NULL or the pool is misaligned.
 * @retval -ENOMEM The pool is too small.
 *
 * Where it fails, the context is bound to nothing, whatever it was before.
 */
int vmcu_init(struct vmcu_context *ctx, const struct vmcu_model *model, void *pool, size_t size);

#if defined(VMCU_SEVERAL_POOLS)
/** A pool's bytes. */
struct vmcu_memory {
	void *start;
	size_t size;
};

/**
 * @brief vmcu_init() for a model that was built with several memories.
 *
 * @param ctx   Context to set up.
 * @param model Tables from `vmcu build --memory`.
 * @param pools In the order in which the memories were named, each of at least so many bytes as the
 *              model's header says and aligned to VMCU_POOL_ALIGN. One of which the model needs no
 *              byte may start at NULL.
 * @param count How many there are.
 *
 * @retval 0       Ready.
 * @retval -EINVAL A pointer is NULL, a pool is misaligned, or there are more or fewer pools than
 * the model was built with, which for vmcu_init() is one.
 * @retval -ENOMEM A pool is too small.
 *
 * Where it fails, the context is bound to nothing, whatever it was before.
 */
int vmcu_init_pools(struct vmcu_context *ctx, const struct vmcu_model *model,
		    const struct vmcu_memory *pools, size_t count);
#endif

/**
 * @brief Where to write input @a index before vmcu_invoke().
 *
 * int8, rows of pixels of channels (NHWC), vmcu_input_size() bytes. vmcu_invoke() overwrites them.
 *
 * Where the pool rotates, the address is another one for each inference.
 *
 * @return NULL if there is no such input, if the model was built with --stream-input or --input
 *         elsewhere, or if it was built with --rotate and the input may be in pieces: see
 *         vmcu_row_of_input().
 */
int8_t *vmcu_input(const struct vmcu_context *ctx, unsigned int index);

/**
 * @brief Where to write row @a y of input @a index: vmcu_row_size() bytes that are always in one
 * piece.
 *
 * @return NULL if there is no such row, or if the model was built with --stream-input or --input
 *         elsewhere.
 */
int8_t *vmcu_row_of_input(const struct vmcu_context *ctx, unsigned int index, unsigned int y);

/** @brief Bytes of input @a index, of a row of it where the model was built with --hop; 0 if there
 * is none.
 */
size_t vmcu_input_size(const struct vmcu_context *ctx, unsigned int index);

/**
 * @brief Says where the only input of a model lies that was built with --external-input.
 *
 * It is read there, while vmcu_invoke() runs, and never written: it may be const, in flash, in
 * external RAM or in a camera's buffer, at any address, and must not change meanwhile. It stays the
 * input of every inference until another is set; vmcu_init() forgets it.
 *
 * @param ctx   Context that vmcu_init() has set up.
 * @param input int8, rows of pixels of channels (NHWC), vmcu_input_size() bytes.
 *
 * @retval 0        Noted.
 * @retval -EINVAL  A pointer is NULL or @a ctx was not set up.
 * @retval -ENOTSUP The model was not built with --external-input: see vmcu_input().
 */
int vmcu_set_input(struct vmcu_context *ctx, const int8_t *input);

/**
 * @brief Runs the model once.
 *
 * @retval 0          The outputs are ready.
 * @retval -EINVAL    @a ctx is NULL or was not set up, or an input is elsewhere and was not set.
 * @retval -ENOTSUP   The model was built with --stream-input: use vmcu_push_row().
 * @retval -ECANCELED vmcu_cancel() stopped it; write the inputs again before the next call.
 * @retval -EFAULT    Only with VMCU_POOL_GUARD: something has written outside the pool.
 */
int vmcu_invoke(struct vmcu_context *ctx);

/**
 * @brief Stops an inference at its next row.
 *
 * From any thread or interrupt. The inference is the one that vmcu_invoke() or vmcu_push_row() is
 * computing, or else the next: a request is never lost between two calls, only vmcu_init() drops
 * it. The call returns -ECANCELED, once; afterwards the context may be used as after vmcu_init().
 *
 * @retval 0       The request was noted.
 * @retval -EINVAL @a ctx is NULL or was not set up.
 */
int vmcu_cancel(struct vmcu_context *ctx);

/**
 * @brief Delivers the next row of the only input, and computes what that makes possible.
 *
 * A model built with --stream-input keeps only the few rows it still needs. Any other model with
 * one input takes rows as well: it keeps them all and runs when the last has come. A row is copied
 * before the call returns. vmcu_init() starts over.
 *
 * A model built with --hop keeps what the next position of its window needs: after the first window
 * it is done once a hop. A hop that is cancelled has no outputs, but its rows count.
 *
 * @param ctx Context that vmcu_init() has set up.
 * @param row The row's pixels of channels, int8: vmcu_row_size() bytes.
 *
 * @retval 1          Another row is wanted.
 * @retval 0          The outputs are ready; the next row is the first of the next input, or hop.
 * @retval -EINVAL    A pointer is NULL or @a ctx was not set up.
 * @retval -ENOTSUP   The model has several inputs, or was built with --external-input.
 * @retval -ECANCELED vmcu_cancel() stopped it; the next row is the first of the next input, of a
 *                    model built with --hop the next of all.
 * @retval -EFAULT    Only with VMCU_POOL_GUARD, see vmcu_invoke().
 */
int vmcu_push_row(struct vmcu_context *ctx, const int8_t *row);

#if defined(VMCU_STREAMS)
/**
 * @brief Empties the state: the next row is the first of all.
 *
 * Of any model that takes its input in rows.
 *
 * @retval 0       It is empty.
 * @retval -EINVAL @a ctx is NULL or was not set up.
 */
int vmcu_reset(struct vmcu_context *ctx);

/** @brief Bytes that vmcu_state_save() writes, 0 if the model was not built with --hop. */
size_t vmcu_state_size(const struct vmcu_context *ctx);

/**
 * @brief Saves what a model built with --hop keeps, between two rows, so that several streams take
 * turns in one pool.
 *
 * @param ctx   Context that vmcu_init() has set up.
 * @param state Takes vmcu_state_size() bytes, at any address.
 * @param size  Bytes at @a state.
 *
 * @retval 0        Saved.
 * @retval -EINVAL  A pointer is NULL or @a ctx was not set up.
 * @retval -ENOTSUP The model was not built with --hop.
 * @retval -ENOMEM  @a size is too small.
 */
int vmcu_state_save(struct vmcu_context *ctx, void *state, size_t size);

/**
 * @brief Goes on where a stream was when its state was saved.
 *
 * Where it fails, the context's own state is as it was. Outputs are not part of it: there are some
 * when the next answer is there.
 *
 * @retval 0        The next row is the one behind that state's last.
 * @retval -EINVAL  A pointer is NULL, @a ctx was not set up, or @a size is too small.
 * @retval -ENOTSUP The model was not built with --hop.
 * @retval -EBADMSG The state is of another model, of another build of it, or none at all.
 * @retval -EILSEQ  It has been damaged.
 */
int vmcu_state_restore(struct vmcu_context *ctx, const void *state, size_t size);
#endif

#if defined(VMCU_POOL_ROTATE)
/**
 * @brief Continues rotating where it was after @a inferences inferences.
 *
 * For systems that restart often: after vmcu_init(), with a count that outlives a restart, or at
 * least the number of restarts. Without it each start begins with the same places. An input that
 * has come in part starts over.
 *
 * @retval 0       The origin is where it would be.
 * @retval -EINVAL @a ctx is NULL or was not set up.
 */
int vmcu_rotate_to(struct vmcu_context *ctx, uint32_t inferences);
#endif

/** @brief Bytes of a row of input @a index, 0 if there is none. */
size_t vmcu_row_size(const struct vmcu_context *ctx, unsigned int index);

/**
 * @brief Where output @a index is after vmcu_invoke(), until inputs are written again.
 *
 * @return NULL if there is no such output, or if the model was built with --rotate and it may be in
 *         pieces: see vmcu_row_of_output().
 */
const int8_t *vmcu_output(const struct vmcu_context *ctx, unsigned int index);

/**
 * @brief Where row @a y of output @a index is, always in one piece.
 *
 * @return NULL if there is no such row.
 */
const int8_t *vmcu_row_of_output(const struct vmcu_context *ctx, unsigned int index,
				 unsigned int y);

/** @brief Bytes of output @a index, of a hop's where the model was built with --hop; 0 if there is
 * none.
 */
size_t vmcu_output_size(const struct vmcu_context *ctx, unsigned int index);

/** @} */

#ifdef __cplusplus
}
#endif

#endif /* VMCU_VMCU_H_ */
