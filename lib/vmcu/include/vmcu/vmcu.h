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
 * Pool bytes of the model called @a name, an integer constant: VMCU_MODEL_POOL_BYTES(kws). Requires
 * the model's header. With VMCU_POOL_GUARD (CONFIG_VMCU_POOL_GUARD), it includes the canaries,
 * which vmcu_init() requires.
 */
#if defined(VMCU_POOL_GUARD)
#define VMCU_POOL_GUARD_BYTES       32
#define VMCU_MODEL_POOL_BYTES(name) (vmcu_pool_bytes_of_##name + VMCU_POOL_GUARD_BYTES)
#else
#define VMCU_POOL_GUARD_BYTES       0
#define VMCU_MODEL_POOL_BYTES(name) vmcu_pool_bytes_of_##name
#endif

/**
 * Expands to use(name, number, memory, bytes) for each pool of the model called @a name, which was
 * built with several memories. The bytes of one pool are VMCU_MODEL_POOL_BYTES(kws_dtcm).
 */
#define VMCU_MODEL_EACH_POOL(name, use) vmcu_each_pool_of_##name(use)

/** Bytes of a row of the first input of the model called @a name, an integer constant. */
#define VMCU_MODEL_ROW_BYTES(name) vmcu_row_bytes_of_##name

/**
 * Bytes of the input of the model called @a name for vmcu_set_input(), an integer constant; 0 if
 * the model was not built with --external-input.
 */
#define VMCU_MODEL_ELSEWHERE_BYTES(name) vmcu_elsewhere_bytes_of_##name

/** Layers of the model called @a name, an integer constant, for vmcu/probe.h. */
#define VMCU_MODEL_LAYERS(name) vmcu_layers_of_##name

#ifndef VMCU_MODEL_REGISTER
/** Adds a model to the port's list of models, if there is one. */
#define VMCU_MODEL_REGISTER(name) extern const struct vmcu_model name##_model
#endif

struct vmcu_probe;
struct vmcu_profile;

/**
 * Positions in a context: a rotating pool, for memory that wears out, uses several in turn.
 */
#if defined(VMCU_POOL_ROTATE)
#define VMCU_POSITIONS 8
#else
#define VMCU_POSITIONS 1
#endif

/** Progress of an input that is pushed row by row; other inputs do not use it. */
struct vmcu_position {
	uint16_t rows; /**< pushed so far */
	/* Position in the schedule at which the first stage waits for the next row. */
	uint16_t part;
	uint16_t time;
	uint16_t entry;
};

/**
 * A model and its pool. The caller owns it. Two contexts share const tables only, so two threads
 * can use them at the same time.
 */
struct vmcu_context {
	const struct vmcu_model *model;
	struct vmcu_pool pool;
#if defined(VMCU_POOL_ROTATE)
	uint32_t outputs_origin; /**< origin of the pool when the outputs were computed */
#endif
	struct vmcu_position positions[VMCU_POSITIONS];
	volatile bool cancelled; /**< set by vmcu_cancel(), cleared by the call that it stops */
	const int8_t *input;     /**< external input, see vmcu_set_input() */
#if defined(VMCU_POOL_GUARD)
	uint32_t guard_ends[VMCU_MOST_POOLS]; /**< last canary by pool, from the pool's start */
#endif
#if defined(VMCU_PROFILE)
	struct vmcu_profile *profile; /**< see vmcu/profile.h */
#endif
#if defined(VMCU_PROBE)
	struct vmcu_probe *probe; /**< see vmcu/probe.h */
#endif
#if defined(VMCU_COUNTERS)
	uint32_t begun; /**< cycles when the inference began, see vmcu/counters.h */
#endif
#if defined(VMCU_EXTERNAL_WEIGHTS)
	const struct vmcu_reader *reader; /**< see vmcu_set_reader() */
	uint16_t reads_started;           /**< reads of the inference, in the order of chunks */
	uint16_t reads_ended;
#endif
};

/**
 * @brief Binds a model to a pool.
 *
 * @param ctx   Context to set up.
 * @param model Tables from `vmcu build`.
 * @param pool  At least model->pool_bytes bytes, aligned to VMCU_POOL_ALIGN, of any content.
 * @param size  Bytes at @a pool. vmcu does not use bytes beyond those that the model needs.
 *
 * @retval 0       Ready.
 * @retval -EINVAL A pointer is NULL or the pool is misaligned.
 * @retval -ENOMEM The pool is too small.
 *
 * If it fails, the context is not usable until another vmcu_init() succeeds.
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
 * @param pools One for each memory, in the order of --memory, each aligned to VMCU_POOL_ALIGN and
 *              at least as large as the model's header states. If the model needs no byte of a
 *              memory, the pool can start at NULL.
 * @param count Number of pools.
 *
 * @retval 0       Ready.
 * @retval -EINVAL A pointer is NULL, a pool is misaligned, or the number of pools differs from the
 *                 model's.
 * @retval -ENOMEM A pool is too small.
 *
 * If it fails, the context is not usable until another vmcu_init() succeeds.
 */
int vmcu_init_pools(struct vmcu_context *ctx, const struct vmcu_model *model,
		    const struct vmcu_memory *pools, size_t count);
#endif

/**
 * @brief Returns the address of input @a index. Write the input there before vmcu_invoke().
 *
 * int8, rows of pixels of channels (NHWC), vmcu_input_size() bytes. vmcu_invoke() overwrites them.
 * In a rotating pool the address changes with each inference.
 *
 * @return NULL if there is no such input, if the model was built with --stream-input or
 *         --external-input, or if it was built with --rotate and the input can be split: see
 *         vmcu_row_of_input().
 */
int8_t *vmcu_input(const struct vmcu_context *ctx, unsigned int index);

/**
 * @brief Returns the address of row @a y of input @a index: vmcu_row_size() contiguous bytes.
 *
 * @return NULL if there is no such row, or if the model was built with --stream-input or
 *         --external-input.
 */
int8_t *vmcu_row_of_input(const struct vmcu_context *ctx, unsigned int index, unsigned int y);

/** @brief Bytes of input @a index, or of one of its rows if the model was built with --hop; 0 if
 * there is no such input.
 */
size_t vmcu_input_size(const struct vmcu_context *ctx, unsigned int index);

/**
 * @brief Sets the address of the only input of a model that was built with --external-input.
 *
 * vmcu_invoke() reads the input there and never writes it: it can be const, in flash, in external
 * RAM or in a camera's buffer, at any address. Do not change it while vmcu_invoke() runs. It is the
 * input of every inference until you set another one or call vmcu_init().
 *
 * @param ctx   Context that vmcu_init() has set up.
 * @param input int8, rows of pixels of channels (NHWC), vmcu_input_size() bytes.
 *
 * @retval 0        Done.
 * @retval -EINVAL  A pointer is NULL or @a ctx was not set up.
 * @retval -ENOTSUP The model was not built with --external-input: see vmcu_input().
 */
int vmcu_set_input(struct vmcu_context *ctx, const int8_t *input);

#if defined(VMCU_EXTERNAL_WEIGHTS)
/** Most reads that have started and not ended. */
#define VMCU_MOST_READS 4

/**
 * Reads the weights file of a model built with --external-weights. The calling thread is that of
 * vmcu_invoke(). Reads can be queued: they end in the order in which they started.
 */
struct vmcu_reader {
	/**
	 * @brief Starts to read @a bytes bytes at @a offset of the weights file into @a to, and
	 * returns at once.
	 *
	 * @return 0, or a negative errno. Then no wait() follows for this read. A positive value is
	 *         an error as well, -EIO.
	 */
	int (*start)(void *user, uint32_t offset, void *to, size_t bytes);
	/**
	 * @brief Waits until the oldest read that has started ends.
	 *
	 * @return Bytes read, or a negative errno.
	 */
	int (*wait)(void *user);
	void *user; /**< passed to both functions */
};

/**
 * @brief Sets the reader of the weights of a model that was built with --external-weights.
 *
 * While a stage runs, the weights of later stages are read. An error of the reader ends the
 * inference: vmcu_invoke() or vmcu_push_row() returns its code, -EIO after a short read, or
 * -EBADMSG if the bytes are damaged or of another build. The outputs are then not valid, and the
 * next row is the first one; a model that keeps state begins again as after vmcu_reset(). No call
 * returns while a read runs. The weights buffer belongs to the model: do not run the model in two
 * threads at the same time.
 *
 * @param ctx    Context that vmcu_init() has set up.
 * @param reader Must exist as long as the context is used.
 *
 * @retval 0        Done.
 * @retval -EINVAL  A pointer is NULL or @a ctx was not set up.
 * @retval -ENOTSUP The model was not built with --external-weights.
 */
int vmcu_set_reader(struct vmcu_context *ctx, const struct vmcu_reader *reader);
#endif

/**
 * @brief Runs the model once.
 *
 * In an interrupt, it runs on the interrupt stack, which then needs the bytes of a thread that runs
 * inferences: in Zephyr CONFIG_ISR_STACK_SIZE of at least CONFIG_VMCU_THREAD_STACK_SIZE. The same
 * applies to vmcu_push_row().
 *
 * @retval 0          The outputs are ready.
 * @retval -EINVAL    @a ctx is NULL or was not set up, or vmcu_set_input() was not called for an
 *                    external input, or vmcu_set_reader() for external weights.
 * @retval -EIO       Only with VMCU_EXTERNAL_WEIGHTS: a read of weights was short. Other errors of
 *                    the reader are returned as they are.
 * @retval -EBADMSG   Only with VMCU_EXTERNAL_WEIGHTS: the weights are damaged, or of another
 *                    build.
 * @retval -ENOTSUP   The model was built with --stream-input: use vmcu_push_row().
 * @retval -ECANCELED vmcu_cancel() stopped it; write the inputs again before the next call.
 * @retval -EFAULT    Only with VMCU_POOL_GUARD: other code wrote next to the pool.
 */
int vmcu_invoke(struct vmcu_context *ctx);

/**
 * @brief Stops an inference at its next row.
 *
 * You can call it from any thread or interrupt. It stops the inference that runs, or the next one
 * if none runs; only vmcu_init() discards the request. The stopped call returns -ECANCELED once.
 * Then you can use the context as after vmcu_init().
 *
 * @retval 0       The request is stored.
 * @retval -EINVAL @a ctx is NULL or was not set up.
 */
int vmcu_cancel(struct vmcu_context *ctx);

/**
 * @brief Pushes the next row of the only input, and computes as many layers as possible.
 *
 * A model built with --stream-input stores only the rows that it still needs. Any other model with
 * one input accepts rows too: it stores them all and runs after the last one. vmcu copies the row
 * before the call returns. vmcu_init() starts again with the first row.
 *
 * A model built with --hop keeps the rows that the next position of its window needs: after the
 * first window, outputs are ready after each hop. A cancelled hop has no outputs, but its rows
 * count.
 *
 * @param ctx Context that vmcu_init() has set up.
 * @param row The row's pixels of channels, int8: vmcu_row_size() bytes.
 *
 * @retval 1          Push another row.
 * @retval 0          The outputs are ready; the next row is the first of the next input, or hop.
 * @retval -EINVAL    A pointer is NULL or @a ctx was not set up.
 * @retval -ENOTSUP   The model has several inputs, or was built with --external-input.
 * @retval -ECANCELED vmcu_cancel() stopped it; the next row is the first of the next input, of a
 *                    model built with --hop the next of all.
 * @retval -EFAULT    Only with VMCU_POOL_GUARD, see vmcu_invoke().
 * @retval -EIO, -EBADMSG Only with VMCU_EXTERNAL_WEIGHTS, see vmcu_set_reader().
 */
int vmcu_push_row(struct vmcu_context *ctx, const int8_t *row);

#if defined(VMCU_STREAMS)
/**
 * @brief Clears the state: the next row is the first one. For any model that reads rows.
 *
 * @retval 0       The state is clear.
 * @retval -EINVAL @a ctx is NULL or was not set up.
 */
int vmcu_reset(struct vmcu_context *ctx);

/** @brief Bytes that vmcu_state_save() writes, 0 if the model was not built with --hop. */
size_t vmcu_state_size(const struct vmcu_context *ctx);

/**
 * @brief Saves the state of a model built with --hop between two rows, so that several streams can
 * use one pool in turn.
 *
 * @param ctx   Context that vmcu_init() has set up.
 * @param state Buffer of vmcu_state_size() bytes, at any address.
 * @param size  Bytes at @a state.
 *
 * @retval 0        Saved.
 * @retval -EINVAL  A pointer is NULL or @a ctx was not set up.
 * @retval -ENOTSUP The model was not built with --hop.
 * @retval -ENOMEM  @a size is too small.
 */
int vmcu_state_save(struct vmcu_context *ctx, void *state, size_t size);

/**
 * @brief Restores a saved state, so that its stream continues.
 *
 * If it fails, the context's state is unchanged. A state contains no outputs: they are ready after
 * the next hop.
 *
 * @retval 0        Push the row after the state's last one.
 * @retval -EINVAL  A pointer is NULL, @a ctx was not set up, or @a size is too small.
 * @retval -ENOTSUP The model was not built with --hop.
 * @retval -EBADMSG The bytes are no state, or the state of another model or build.
 * @retval -EILSEQ  The state is damaged.
 */
int vmcu_state_restore(struct vmcu_context *ctx, const void *state, size_t size);
#endif

#if defined(VMCU_POOL_ROTATE)
/**
 * @brief Sets the pool's origin to its position after @a inferences inferences.
 *
 * For systems that restart often: call it after vmcu_init() with a count that survives restarts, or
 * with the number of restarts. Otherwise each start begins at the same addresses. An input of which
 * only some rows were pushed starts again.
 *
 * @retval 0       The origin is set.
 * @retval -EINVAL @a ctx is NULL or was not set up.
 */
int vmcu_rotate_to(struct vmcu_context *ctx, uint32_t inferences);
#endif

/** @brief Bytes of a row of input @a index, 0 if there is none. */
size_t vmcu_row_size(const struct vmcu_context *ctx, unsigned int index);

/**
 * @brief Returns the address of output @a index after vmcu_invoke(), valid until you write inputs.
 *
 * @return NULL if there is no such output, or if the model was built with --rotate and the output
 *         can be split: see vmcu_row_of_output().
 */
const int8_t *vmcu_output(const struct vmcu_context *ctx, unsigned int index);

/**
 * @brief Returns the address of row @a y of output @a index: contiguous bytes.
 *
 * @return NULL if there is no such row.
 */
const int8_t *vmcu_row_of_output(const struct vmcu_context *ctx, unsigned int index,
				 unsigned int y);

/** @brief Bytes of output @a index, or of a hop's output if the model was built with --hop; 0 if
 * there is no such output.
 */
size_t vmcu_output_size(const struct vmcu_context *ctx, unsigned int index);

/** @} */

#ifdef __cplusplus
}
#endif

#endif /* VMCU_VMCU_H_ */
