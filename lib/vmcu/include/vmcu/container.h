/*
 * SPDX-License-Identifier: Apache-2.0
 */

/**
 * @file
 * @brief Models that arrive after the firmware: files of `vmcu build --format container`.
 *
 * Needs a build with VMCU_CONTAINERS, which CONFIG_VMCU_CONTAINERS makes. doc/container.md has the
 * file to the byte.
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
/* A call fails to link, and the linker prints what to define for the library and its callers. */
#define vmcu_model_load    vmcu_model_load_needs_VMCU_CONTAINERS
#define vmcu_model_load_as vmcu_model_load_as_needs_VMCU_CONTAINERS
#endif

/**
 * @defgroup vmcu_container Containers
 * @{
 */

/** A container must start at a multiple of this many bytes. */
#define VMCU_CONTAINER_ALIGN 16

/** Bytes of a digest, SHA-256, and of a signature, Ed25519 or ECDSA P-256. */
#define VMCU_DIGEST_BYTES    32
#define VMCU_SIGNATURE_BYTES 64

struct vmcu_check;

/** What a call reads of each input, for a replay. */
enum vmcu_reads {
	VMCU_READS_ALL,      /**< any of it */
	VMCU_READS_PIXEL,    /**< the pixels that it writes; of one row or column, that one */
	VMCU_READS_WINDOW,   /**< those under its window, with which its parameters begin */
	VMCU_READS_PADDED,   /**< those that lie in the output, as vmcu_pad() has them */
	VMCU_READS_JOINED,   /**< those that lie in the output, as vmcu_concat() has them */
	VMCU_READS_BACK,     /**< those of its hop's window, as vmcu_look_back() has them */
	VMCU_READS_RECALLED, /**< those that it writes, from the second hop on, as vmcu_recall() */
	VMCU_READS_NONE,     /**< nothing, as vmcu_hop_count() */
};

/** A kernel as a container names it. */
struct vmcu_kernel {
	const char *name;
	vmcu_kernel_t run;
	/** True if a layer's parameters, constants and tensors are such that it stays within them.
	 */
	bool (*check)(const struct vmcu_check *check);
	uint16_t bytes;   /**< of its parameters in a container, 0: it has none */
	uint8_t pointers; /**< with which they begin */
	uint8_t behind;   /**< the first byte behind these in a container, and */
	uint8_t native;   /**< in this core's memory */
	uint16_t size;    /**< of the parameters in this core's memory */
	uint8_t reads;    /**< enum vmcu_reads */
};

/**
 * The kernels that containers may use, up to a NULL. The application defines it: by hand, by
 * `vmcu container kernels`, or by linking vmcu/container/all.c. What it does not name is not
 * linked.
 */
extern const struct vmcu_kernel *const vmcu_kernels[];

/** Why a container was refused: for a line in a log. */
struct vmcu_refusal {
	const char *what; /**< such as "layer" */
	uint32_t index;   /**< of these, which; or a number that belongs to `what` */
	char name[24];    /**< of a kernel that is not linked, else empty */
};

/** Whose plan a model runs by. */
enum vmcu_planner {
	VMCU_PLAN_BUILT,    /**< that of `vmcu build`, which has proven it */
	VMCU_PLAN_GREEDY,   /**< TensorFlow Lite Micro's greedy one, made by vmcu_model_load_as() */
	VMCU_PLAN_SEGMENTS, /**< one whose layers overlap, made by it where it finds one */
};

/** How a container is loaded; zero is as vmcu_model_load() does. */
struct vmcu_load_options {
	/**
	 * Others than VMCU_PLAN_BUILT need a build with VMCU_ONLINE_PLANNER
	 * (CONFIG_VMCU_ONLINE_PLANNER) and a container of `vmcu build --online`. They write into
	 * the arena's head, 16 bytes for each tensor, and take 20 for each tensor and 28 for each
	 * layer of its end.
	 */
	enum vmcu_planner planner;
	/**
	 * All calls of kernels are gone through before the first inference, without data: each has
	 * to find the rows that it reads where they were written. Needs a build with
	 * VMCU_CONTAINER_REPLAY (CONFIG_VMCU_CONTAINER_REPLAY); writes into the arena's head, as an
	 * inference does.
	 */
	bool replay;
	/** The product that this device is, if not 0: containers that state another are refused. */
	uint32_t product;
	/** The least version of the model, as `vmcu container sign --model-version` states it; a
	 * container that states none has 0.
	 */
	uint32_t minimum;
};

/** What of an arena is for what, in bytes from its start on. */
struct vmcu_arena_report {
	size_t head;   /**< what inferences share: the pool */
	size_t free;   /**< between both */
	size_t tail;   /**< what stays for as long as the model does: its tables */
	size_t needed; /**< the least arena for this model alone */
};

/**
 * @brief Checks a container and makes a model of it, which stays in place.
 *
 * Everything is checked before it is used: digest, version, every offset and length, kernels, the
 * parameters of each, and that no layer touches a byte outside the pool and the container. Only
 * that nothing is overwritten before its time is taken from the build, which has proven it.
 *
 * The container must stay where it is, unchanged, for as long as the model is in use: in
 * memory-mapped flash, or in RAM. The model itself takes sizeof(struct vmcu_model) and, at the
 * arena's end, what vmcu_arena_report() calls its tail. The arena's head is the pool for
 * vmcu_init(): `vmcu_init(&ctx, &model, arena, vmcu_arena_head(&model, arena_size))`. A second
 * model that takes turns with this one has the same arena with this size.
 *
 * @param model      Becomes the model. Zero where it fails.
 * @param data       The container, aligned to VMCU_CONTAINER_ALIGN.
 * @param size       Bytes that may be read there; the container may be shorter.
 * @param arena      RAM, aligned to VMCU_POOL_ALIGN.
 * @param arena_size Its bytes.
 *
 * @retval 0        The model may be used.
 * @retval -EINVAL  A pointer is NULL or not aligned.
 * @retval -EBADMSG It is no container, is cut short, or something in it is wrong.
 * @retval -ENOTSUP It is of another version, or needs a kernel or a requantiser that is not linked.
 * @retval -EPERM   It is not signed as this build demands, see VMCU_CONTAINER_SIGNED.
 * @retval -ENOMEM  The arena is too small; the refusal says how many bytes are needed.
 */
int vmcu_model_load(struct vmcu_model *model, const void *data, size_t size, void *arena,
		    size_t arena_size);

/** vmcu_model_load() that says why it refuses: @a refusal is written where it does. */
int vmcu_model_load_saying(struct vmcu_model *model, const void *data, size_t size, void *arena,
			   size_t arena_size, struct vmcu_refusal *refusal);

/**
 * @brief vmcu_model_load_saying() with options, of which NULL stands for none.
 *
 * @retval 1        VMCU_PLAN_SEGMENTS has found no plan in the bytes that the worst layer needs:
 *                  branches stand in its way, and the model runs by VMCU_PLAN_GREEDY's.
 * @retval -EBADMSG As vmcu_model_load(), or the replay finds a row overwritten; the refusal names
 *                  the layer that wants it.
 * @retval -ENOTSUP As vmcu_model_load(), or no plan can be made, or none be replayed: of this build
 *                  or this container.
 * @retval -ENODEV  The container states another product, or none, and the options name one.
 * @retval -EACCES  The model's version is below the options' minimum.
 */
int vmcu_model_load_as(struct vmcu_model *model, const void *data, size_t size, void *arena,
		       size_t arena_size, const struct vmcu_load_options *options,
		       struct vmcu_refusal *refusal);

/**
 * @brief What a container states of itself. It must have passed vmcu_model_load(): only then is it
 * part of what was signed.
 *
 * @param data    The container.
 * @param size    Bytes of it.
 * @param product The product that it is for, 0 for any or none stated.
 * @param version The version of its model, 0 if none is stated.
 *
 * @retval 0        Both are written.
 * @retval -EINVAL  A pointer is NULL or not aligned.
 * @retval -EBADMSG It is no container.
 */
int vmcu_container_release(const void *data, size_t size, uint32_t *product, uint32_t *version);

/**
 * @brief Takes bytes of an arena's end for what stays there: a context, a container that is not in
 * mapped memory, what an application keeps between inferences.
 *
 * Models are loaded into what is left.
 *
 * @param arena      The arena.
 * @param arena_size Its bytes; becomes those in front of what is taken.
 * @param bytes      How many.
 *
 * @return Them, aligned to VMCU_CONTAINER_ALIGN; NULL if there are not as many, or for no arena.
 */
void *vmcu_arena_take(void *arena, size_t *arena_size, size_t bytes);

/** @brief Bytes of an arena in front of what a loaded model keeps at its end. */
size_t vmcu_arena_head(const struct vmcu_model *model, size_t arena_size);

/**
 * @brief What a loaded model takes of an arena.
 *
 * @retval 0       @a report is written.
 * @retval -EINVAL A pointer is NULL, or the model is not from a container.
 */
int vmcu_arena_report(const struct vmcu_model *model, size_t arena_size,
		      struct vmcu_arena_report *report);

/** @brief SHA-256 of two stretches of bytes, one behind the other. */
void vmcu_sha256(const uint8_t *first, size_t first_size, const uint8_t *second, size_t second_size,
		 uint8_t digest[VMCU_DIGEST_BYTES]);

#if defined(VMCU_CONTAINER_SIGNED)
/**
 * @brief Whether a signature is the owner's. The port or the application defines it.
 *
 * A build with VMCU_CONTAINER_SIGNED refuses containers that are not signed.
 *
 * @param digest    SHA-256 of the container, which has been compared with its bytes.
 * @param signature Ed25519's of these 32 bytes, or r and s of ECDSA P-256, big-endian, with them as
 *                  the hash: whichever this device has a key for.
 *
 * @return True if it is by a key that this device trusts.
 */
bool vmcu_container_authentic(const uint8_t digest[VMCU_DIGEST_BYTES],
			      const uint8_t signature[VMCU_SIGNATURE_BYTES]);
#endif

/** @} */

#ifdef __cplusplus
}
#endif

#endif /* VMCU_CONTAINER_H_ */
