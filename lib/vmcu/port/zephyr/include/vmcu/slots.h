/*
 * SPDX-License-Identifier: Apache-2.0
 */

/**
 * @file
 * @brief A model in one of two flash partitions, replaced from the other: CONFIG_VMCU_SLOTS.
 *
 * doc/updates.md has the design, and what holds when power fails.
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

/** Bytes at the end of a slot that an update cannot have. */
#define VMCU_SLOT_RECORD_ROOM 64U
/** The largest write block of flash that slots may be in. */
#define VMCU_SLOT_BLOCK_MAX   32U
/** Bytes that are written at once. */
#define VMCU_SLOT_CHUNK       256U

/** A flash partition. */
struct vmcu_slot {
	uint8_t area; /**< by FIXED_PARTITION_ID() */
	/** Where the core reads it, aligned to VMCU_CONTAINER_ALIGN; NULL: it is read into RAM. */
	const void *mapped;
};

/** Two slots and the model that is in use. */
struct vmcu_slots {
	/** @name What the application sets
	 * @{
	 */
	struct vmcu_slot slot[2];
	void *copy;       /**< RAM for updates from slots that are not mapped, aligned likewise */
	size_t copy_size; /**< its bytes */
	void *arena;      /**< see vmcu_model_load() */
	size_t arena_size;
	uint32_t product; /**< of this device: updates of another are refused; 0: any is taken */
	/** The least version of an update. Set it, 0 for any, before vmcu_slots_open(), which
	 * raises it to the greatest version that this device has ever taken.
	 */
	uint32_t minimum;
	/** @} */

	/** @name What the application reads
	 * @{
	 */
	struct vmcu_model model;     /**< the one in use */
	struct vmcu_context ctx;     /**< bound to it; its model is NULL where there is none */
	struct vmcu_refusal refusal; /**< why the last container was refused */
	/** @} */

	/** @cond INTERNAL_HIDDEN */
	uint32_t sequence;
	uint32_t used_size;
	uint32_t written;
	uint32_t filled;
	uint32_t reached; /* the greatest version that was ever taken */
	uint32_t kept[2]; /* what each slot has of it */
	int8_t used;
	bool writing;
	uint8_t chunk[VMCU_SLOT_CHUNK];
	/** @endcond */
};

/**
 * @brief Finds the newest update that is whole, and makes its model the one in use.
 *
 * Each candidate is loaded, see vmcu_model_load(), and run on its own vector, see vmcu_self_test().
 *
 * @retval 0        vmcu_slots::ctx may be used.
 * @retval -ENOENT  Neither slot holds an update.
 * @retval -ENOTSUP The flash writes in blocks of more than VMCU_SLOT_BLOCK_MAX bytes.
 * @return What kept the last candidate from use, or what the flash driver returned.
 */
int vmcu_slots_open(struct vmcu_slots *slots);

/**
 * @brief Empties the slot that is not in use. The model in use stays usable.
 *
 * @param slots Opened.
 * @param size  Bytes of the update.
 *
 * @retval 0      vmcu_slots_write() may follow.
 * @retval -EFBIG It does not fit.
 * @retval -ENOSPC The least version is kept in that slot alone, and there is no room for it beside
 *                the model in use: power has failed too often where it was to be copied.
 * @return What the flash driver returned.
 */
int vmcu_slots_begin(struct vmcu_slots *slots, size_t size);

/**
 * @brief Writes the next bytes of an update, of whatever length.
 *
 * @retval 0       Written, or kept for the next write.
 * @retval -EINVAL There was no vmcu_slots_begin().
 * @retval -EFBIG  It has become longer than it was to be.
 * @return What the flash driver returned; the update has to begin again.
 */
int vmcu_slots_write(struct vmcu_slots *slots, const void *data, size_t size);

/**
 * @brief Checks an update, runs its vector, and makes its model the one in use.
 *
 * The arena is overwritten: outputs of the model in use have been read. Where it fails, the model
 * that was in use is loaded again and still is.
 *
 * @retval 0        The new model is in use, also after a reset.
 * @retval -EINVAL  There was no vmcu_slots_begin().
 * @retval -EBADMSG As vmcu_model_load() or vmcu_self_test().
 * @retval -ENOTSUP, -EPERM, -ENOMEM As vmcu_model_load().
 * @retval -ENODEV  The update is for another product.
 * @retval -EACCES  Its version is below the least one.
 * @retval -EILSEQ As vmcu_self_test().
 * @return What the flash driver returned.
 */
int vmcu_slots_commit(struct vmcu_slots *slots);

/** @brief The three steps with an update in memory. */
int vmcu_slots_update(struct vmcu_slots *slots, const void *data, size_t size);

#if defined(CONFIG_FILE_SYSTEM)
/** @brief The three steps with an update in a file; errors of fs_open() and fs_read() besides. */
int vmcu_slots_update_file(struct vmcu_slots *slots, const char *path);

/**
 * @brief Reads a container, or an update, into memory, for vmcu_model_load().
 *
 * @param buffer Aligned to VMCU_CONTAINER_ALIGN.
 *
 * @return Its bytes, -EFBIG if it is larger than @a size, or what fs_open() or fs_read() returned.
 */
int vmcu_container_read_file(const char *path, void *buffer, size_t size);
#endif

/** @} */

#ifdef __cplusplus
}
#endif

#endif /* VMCU_SLOTS_H_ */
