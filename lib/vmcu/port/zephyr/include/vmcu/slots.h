/*
 * SPDX-License-Identifier: Apache-2.0
 */

/**
 * @file
 * @brief Updates of a model in two flash partitions: CONFIG_VMCU_SLOTS.
 *
 * doc/updates.md explains the design and its behaviour after a loss of power.
 */

#ifndef VMCU_SLOTS_H_
#define VMCU_SLOTS_H_

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include <vmcu/container.h>

#ifdef __cplusplus
extern "C" {
#endif

/**
 * @defgroup vmcu_slots Models in two slots
 * @{
 */

/** Bytes at the end of a slot that vmcu reserves; an update cannot use them. */
#define VMCU_SLOT_RECORD_ROOM 64U
/** Largest supported write block of the flash, in bytes. */
#define VMCU_SLOT_BLOCK_MAX   32U
/** Bytes of one write to flash. */
#define VMCU_SLOT_CHUNK       256U

/** A flash partition. */
struct vmcu_slot {
	uint8_t area; /**< from PARTITION_ID() */
	/** Memory-mapped address, aligned to VMCU_CONTAINER_ALIGN; NULL: vmcu copies it to RAM. */
	const void *mapped;
#if defined(VMCU_EXTERNAL_WEIGHTS)
	/** Reader of the weights of a container that has them in a file; NULL: vmcu refuses it. An
	 * update needs its weights before vmcu_slots_commit().
	 */
	const struct vmcu_reader *reader;
#endif
};

/** Two slots and the model in use. The caller owns it; calls for it must not overlap. */
struct vmcu_slots {
	/** @name Set by the application
	 * @{
	 */
	struct vmcu_slot slot[2];
	void *copy;       /**< RAM for slots that are not mapped, aligned to VMCU_CONTAINER_ALIGN */
	size_t copy_size; /**< bytes at @a copy */
	void *arena;      /**< see vmcu_model_load() */
	size_t arena_size;
	uint32_t product; /**< of this device; vmcu refuses updates of others; 0: any product */
	/** Least version of an update, 0 for any. Set it before vmcu_slots_open(), which raises
	 * it to the greatest version that this device has ever accepted.
	 */
	uint32_t minimum;
	/** @} */

	/** @name Read by the application
	 * @{
	 */
	struct vmcu_model model;     /**< the one in use */
	struct vmcu_context ctx;     /**< its context; ctx.model is NULL without a model */
	struct vmcu_refusal refusal; /**< reason why vmcu refused the last container */
	/** @} */

	/** @cond INTERNAL_HIDDEN */
	uint32_t sequence;
	uint32_t used_size;
	uint32_t written;
	uint32_t left; /* bytes that vmcu_slots_write() may still get */
	uint32_t filled;
	uint32_t reached; /* the greatest version that was ever accepted */
	uint32_t kept[2]; /* the same, as each slot stores it */
	int8_t used;
	bool writing;
	uint8_t chunk[VMCU_SLOT_CHUNK];
	/** @endcond */
};

/**
 * @brief Finds the newest complete update and uses its model.
 *
 * Loads each candidate, see vmcu_model_load(), and runs its test vector, see vmcu_self_test().
 * A slot that cannot be read is like an empty one.
 *
 * @retval 0        vmcu_slots::ctx is ready.
 * @retval -ENOENT  Neither slot contains an update.
 * @retval -ENOTSUP The flash writes in blocks of more than VMCU_SLOT_BLOCK_MAX bytes.
 * @return The error of the last candidate; without one, that of the flash driver.
 */
int vmcu_slots_open(struct vmcu_slots *slots);

/**
 * @brief Erases the slot that is not in use. You can still use the current model.
 *
 * @param slots Slots that vmcu_slots_open() has opened.
 * @param size  Bytes of the update. vmcu_slots_write() accepts no more.
 *
 * @retval 0       Call vmcu_slots_write().
 * @retval -EFBIG  The update does not fit into the slot.
 * @retval -ENOSPC Only that slot stores the least version, and the other slot has no free block for
 *                 a copy: its update fills it, and the power failed in several copies.
 * @return The error of the flash driver.
 */
int vmcu_slots_begin(struct vmcu_slots *slots, size_t size);

/**
 * @brief Writes the next @a size bytes of an update; any size.
 *
 * @retval 0       Written, or buffered until the next write.
 * @retval -EINVAL vmcu_slots_begin() was not called.
 * @retval -EFBIG  The update is longer than the size given to vmcu_slots_begin(). Nothing of these
 *                 bytes was written. Start again with vmcu_slots_begin().
 * @return The error of the flash driver. Start again with vmcu_slots_begin().
 */
int vmcu_slots_write(struct vmcu_slots *slots, const void *data, size_t size);

/**
 * @brief Checks an update, runs its test vector, and uses its model.
 *
 * Overwrites the arena: read the outputs of the current model first. If the call fails, vmcu loads
 * the previous model again.
 *
 * @retval 0        The new model is in use, also after a reset.
 * @retval -EINVAL  vmcu_slots_begin() was not called.
 * @retval -EBADMSG See vmcu_model_load() and vmcu_self_test().
 * @retval -ENOTSUP, -EPERM, -ENOMEM See vmcu_model_load().
 * @retval -ENODEV  The update is for another product.
 * @retval -EACCES  The version of the update is below the least version.
 * @retval -EILSEQ  See vmcu_self_test().
 * @return The error of the flash driver.
 */
int vmcu_slots_commit(struct vmcu_slots *slots);

/** @brief Calls vmcu_slots_begin(), _write() and _commit() for an update in memory. */
int vmcu_slots_update(struct vmcu_slots *slots, const void *data, size_t size);

#if defined(CONFIG_FILE_SYSTEM)
/** @brief vmcu_slots_update() for a file. Also returns errors of fs_open() and fs_read(). */
int vmcu_slots_update_file(struct vmcu_slots *slots, const char *path);

/**
 * @brief Reads a container or an update into memory, for vmcu_model_load().
 *
 * @param path   File to read.
 * @param buffer Memory aligned to VMCU_CONTAINER_ALIGN.
 * @param size   Bytes at @a buffer.
 *
 * @return Bytes of the file, -EFBIG if it is larger than @a size, or the error of fs_open() or
 *         fs_read().
 */
int vmcu_container_read_file(const char *path, void *buffer, size_t size);
#endif

/** @} */

#ifdef __cplusplus
}
#endif

#endif /* VMCU_SLOTS_H_ */
