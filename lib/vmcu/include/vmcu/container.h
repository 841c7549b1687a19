/*
 * SPDX-License-Identifier: Apache-2.0
 */

/**
 * @file
 * @brief Models that you load at run time: files of `vmcu build --format container`.
 *
 * Requires a build with VMCU_CONTAINERS (on Zephyr, CONFIG_VMCU_CONTAINERS). doc/container.md
 * describes the file format.
 */

#ifndef VMCU_CONTAINER_H_
#define VMCU_CONTAINER_H_

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include <vmcu/vmcu.h>

#ifdef __cplusplus
extern "C" {
#endif

#if !defined(VMCU_CONTAINERS)
/*
 * A call fails to link, and the linker prints the definition that the library and its callers need.
 */
#define vmcu_model_load    vmcu_model_load_needs_VMCU_CONTAINERS
#define vmcu_model_load_as vmcu_model_load_as_needs_VMCU_CONTAINERS
#else
#define vmcu_model_load        VMCU_CONFIGURED(vmcu_model_load)
#define vmcu_model_load_saying VMCU_CONFIGURED(vmcu_model_load_saying)
#define vmcu_model_load_as     VMCU_CONFIGURED(vmcu_model_load_as)
#endif

/**
 * @defgroup vmcu_container Containers
 * @{
 */

/** A container must start at a multiple of this many bytes. */
#define VMCU_CONTAINER_ALIGN 16

/** Bytes of a digest (SHA-256) and of a signature (Ed25519 or ECDSA P-256). */
#define VMCU_DIGEST_BYTES    32
#define VMCU_SIGNATURE_BYTES 64

struct vmcu_check;

/** Pixels of each input that a call reads. The replay uses it. */
enum vmcu_reads {
	VMCU_READS_ALL,      /**< possibly all pixels */
	VMCU_READS_PIXEL,    /**< the pixels that it writes; a single row or column is repeated */
	VMCU_READS_WINDOW,   /**< the pixels of its window, the first member of its parameters */
	VMCU_READS_ATTENDED, /**< of input 0 the pixels that it writes, else as VMCU_READS_WINDOW */
	VMCU_READS_PADDED,   /**< the pixels inside the output, see vmcu_pad() */
	VMCU_READS_JOINED,   /**< the pixels inside the output, see vmcu_concat() */
	VMCU_READS_BACK,     /**< the pixels of the hop's window, see vmcu_look_back() */
	VMCU_READS_RECALLED, /**< from the second hop on, those that it writes: vmcu_recall() */
	VMCU_READS_CARRIED,  /**< its row; of its own output the row before: vmcu_lstm() */
	VMCU_READS_NONE,     /**< no pixels, see vmcu_hop_count() */
	VMCU_READS_ROW,      /**< the row that it writes */
};

/** A kernel that containers can use. */
struct vmcu_kernel {
	const char *name;
	vmcu_kernel_t run;
	/** Returns true if the kernel accesses only bytes of a layer's constants and tensors. */
	bool (*check)(const struct vmcu_check *check);
	uint16_t bytes;   /**< of its parameters in a container; 0: no parameters */
	uint8_t pointers; /**< number of pointers at their start */
	uint8_t behind;   /**< offset of the first byte after the pointers in a container */
	uint8_t native;   /**< the same offset in this core's memory */
	uint16_t size;    /**< bytes of the parameters in this core's memory; 0: no pointers */
	uint8_t reads;    /**< enum vmcu_reads */
};

/**
 * The kernels that containers can use; NULL ends the list. The application defines the list: by
 * hand, with `vmcu container kernels`, or by linking vmcu/container/all.c. The linker omits all
 * other kernels.
 */
extern const struct vmcu_kernel *const vmcu_kernels[];

/** The reason why vmcu refused a container, for a log message. */
struct vmcu_refusal {
	const char *what; /**< such as "layer" */
	uint32_t index;   /**< index of the object in @a what, or another number for it */
	char name[40];    /**< name of the kernel that is not linked, or an empty string */
};

/** The planner of a model's plan. */
enum vmcu_planner {
	VMCU_PLAN_BUILT,    /**< the proven plan of `vmcu build` */
	VMCU_PLAN_GREEDY,   /**< vmcu_model_load_as() plans as TensorFlow Lite Micro (greedy) */
	VMCU_PLAN_SEGMENTS, /**< vmcu_model_load_as() plans, with overlapping layers */
};

/** Options of vmcu_model_load_as(). All zero: as vmcu_model_load(). */
struct vmcu_load_options {
	/**
	 * Planners other than VMCU_PLAN_BUILT require a build with VMCU_ONLINE_PLANNER
	 * (CONFIG_VMCU_ONLINE_PLANNER) and a container of `vmcu build --online`. While they plan,
	 * they use 16 bytes for each tensor at the arena's start. They allocate 20 bytes for each
	 * tensor and 28 bytes for each layer at its end.
	 */
	enum vmcu_planner planner;
	/**
	 * Replay all kernel calls before the first inference, without data: check that no call
	 * reads rows that another tensor has overwritten. Requires a build with
	 * VMCU_CONTAINER_REPLAY (CONFIG_VMCU_CONTAINER_REPLAY). Overwrites the pool, as an
	 * inference does.
	 */
	bool replay;
	/** Product of this device. If it is not 0, vmcu refuses containers of other products. */
	uint32_t product;
	/** Least version of the model, see `vmcu container sign --model-version`. A container
	 * without a version has version 0.
	 */
	uint32_t minimum;
#if defined(VMCU_EXTERNAL_WEIGHTS)
	/**
	 * Reader of the weights of a container that was built with --external-weights, which is
	 * refused without. All weights are read once to check them. Then set the reader of each
	 * context, too: vmcu_set_reader().
	 */
	const struct vmcu_reader *reader;
#endif
};

/** The parts of an arena in bytes, from its start on. */
struct vmcu_arena_report {
	size_t head;   /**< the pool, which several models can share */
	size_t free;   /**< unused bytes between head and tail */
	size_t tail;   /**< the model's tables; they stay as long as you use the model */
	size_t needed; /**< smallest arena for this model alone */
};

/**
 * @brief Checks a container and sets up its model, which reads the container in place.
 *
 * vmcu checks everything before it uses it: the digest, the version, every offset and length, the
 * kernels and their parameters, and that no layer accesses a byte outside the pool and the
 * container. One check is not repeated: `vmcu build` has proven that the plan overwrites no live
 * byte.
 *
 * Keep the container at its address, unchanged, as long as you use the model: in memory-mapped
 * flash or in RAM. The model requires sizeof(struct vmcu_model) bytes and the tail of the arena,
 * see vmcu_arena_report(). The head of the arena is the pool:
 * `vmcu_init(&ctx, &model, arena, vmcu_arena_head(&model, arena_size))`. To load a second model
 * that shares the pool, pass the same arena with the size that vmcu_arena_head() returns.
 *
 * @param model      Model to set up; all zero if the call fails.
 * @param data       The container, aligned to VMCU_CONTAINER_ALIGN.
 * @param size       Readable bytes at @a data; the container can be shorter.
 * @param arena      RAM, aligned to VMCU_POOL_ALIGN.
 * @param arena_size Bytes at @a arena.
 *
 * @retval 0        The model is ready.
 * @retval -EINVAL  A pointer is NULL or not aligned.
 * @retval -EBADMSG The bytes are no container, or the container is truncated or invalid.
 * @retval -ENOTSUP The container has another version, or uses a kernel or a requantiser that is not
 *                  linked.
 * @retval -EPERM   The signature is missing or not valid, see VMCU_CONTAINER_SIGNED.
 * @retval -ENOMEM  The arena is too small; the refusal states the required bytes.
 */
int vmcu_model_load(struct vmcu_model *model, const void *data, size_t size, void *arena,
		    size_t arena_size);

/** @brief vmcu_model_load() that writes the reason of an error to @a refusal. */
int vmcu_model_load_saying(struct vmcu_model *model, const void *data, size_t size, void *arena,
			   size_t arena_size, struct vmcu_refusal *refusal);

/**
 * @brief vmcu_model_load_saying() with options; NULL: no options.
 *
 * @retval 0        The model is ready.
 * @retval 1        The model is ready, but uses VMCU_PLAN_GREEDY: because of the model's branches,
 *                  VMCU_PLAN_SEGMENTS found no plan in the bytes of the largest layer.
 * @retval -EBADMSG See vmcu_model_load(); or a layer reads a row that the plan has overwritten. The
 *                  refusal names the layer.
 * @retval -ENOTSUP See vmcu_model_load(); or this build or this container does not support the
 *                  planner or the replay.
 * @retval -ENODEV  The options name a product, and the container states another one or none.
 * @retval -EACCES  The model's version is below the options' minimum.
 *
 * Other errors: see vmcu_model_load().
 */
int vmcu_model_load_as(struct vmcu_model *model, const void *data, size_t size, void *arena,
		       size_t arena_size, const struct vmcu_load_options *options,
		       struct vmcu_refusal *refusal);

/**
 * @brief Reads product and version of a container. Call vmcu_model_load() first: it checks the
 * signature of both.
 *
 * @param data    The container.
 * @param size    Bytes at @a data.
 * @param product Product of the container; 0: any product.
 * @param version Version of its model; 0: no version.
 *
 * @retval 0        Product and version are written.
 * @retval -EINVAL  A pointer is NULL or not aligned.
 * @retval -EBADMSG The bytes are no container.
 */
int vmcu_container_release(const void *data, size_t size, uint32_t *product, uint32_t *version);

/**
 * @brief Allocates bytes at an arena's end, for example for a context or a container.
 *
 * You cannot free them. Load models into the rest of the arena.
 *
 * @param arena      The arena.
 * @param arena_size Bytes of the arena. The call reduces them to the remaining bytes.
 * @param bytes      Bytes to allocate.
 *
 * @return Their address, aligned to VMCU_CONTAINER_ALIGN; NULL if the arena is NULL or too small.
 */
void *vmcu_arena_take(void *arena, size_t *arena_size, size_t bytes);

/** @brief Returns the bytes of an arena before a loaded model's tail. */
size_t vmcu_arena_head(const struct vmcu_model *model, size_t arena_size);

/**
 * @brief Reports how a loaded model uses its arena.
 *
 * @retval 0       @a report is written.
 * @retval -EINVAL A pointer is NULL, or the model is not from a container.
 */
int vmcu_arena_report(const struct vmcu_model *model, size_t arena_size,
		      struct vmcu_arena_report *report);

/** @brief Computes the SHA-256 digest of @a first followed by @a second. */
void vmcu_sha256(const uint8_t *first, size_t first_size, const uint8_t *second, size_t second_size,
		 uint8_t digest[VMCU_DIGEST_BYTES]);

#if defined(VMCU_CONTAINER_SIGNED)
/**
 * @brief Verifies the signature of a container. The port or the application defines this function.
 *
 * A build with VMCU_CONTAINER_SIGNED refuses containers without a valid signature.
 *
 * @param digest    SHA-256 of the container. vmcu has compared it with the container's bytes.
 * @param signature Ed25519 signature of the 32 bytes of @a digest, or r and s (big-endian) of ECDSA
 *                  P-256 with @a digest as the hash. Your function decides which one it accepts.
 *
 * @return True if a key that this device trusts has signed the digest.
 */
bool vmcu_container_authentic(const uint8_t digest[VMCU_DIGEST_BYTES],
			      const uint8_t signature[VMCU_SIGNATURE_BYTES]);
#endif

/** @} */

#ifdef __cplusplus
}
#endif

#endif /* VMCU_CONTAINER_H_ */
