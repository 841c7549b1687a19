/*
 * SPDX-License-Identifier: Apache-2.0
 */

#include <errno.h>
#include <string.h>

#include <zephyr/storage/flash_map.h>
#include <zephyr/sys/crc.h>
#include <zephyr/sys/util.h>

#include <vmcu/self_test.h>
#include <vmcu/slots.h>

#include "minimum.h"

/** "VMRC", little-endian. */
#define MAGIC 0x43524d56U
#define NONE  (-1)

/**
 * At the start of a slot's last VMCU_SLOT_RECORD_ROOM bytes: the update in front of it is complete
 * and has passed. It is written last, so that there is none before.
 */
struct record {
	uint32_t magic;
	uint32_t sequence; /**< of two, the update with the later one is the newer */
	uint32_t size;     /**< of the update */
	uint32_t crc;      /**< CRC-32 of the members above: a write may have been cut */
	/** The greatest version ever accepted, twice, with CRCs of its own: damage to one part of
	 * a record leaves the others readable.
	 */
	uint8_t reached[VMCU_MINIMUM_COPIES][VMCU_MINIMUM_BYTES];
};

BUILD_ASSERT(VMCU_MINIMUM_AT == offsetof(struct record, reached));
BUILD_ASSERT(sizeof(struct record) <= VMCU_SLOT_BLOCK_MAX);

/** The record of a slot without its version; -ENOENT if there is none with both CRCs. */
static int read_record(const struct vmcu_slots *slots, int i, struct record *record)
{
	const struct flash_area *area;
	uint32_t version;
	int err = flash_area_open(slots->slot[i].area, &area);

	if (err != 0) {
		return err;
	}
	err = flash_area_read(area, (off_t)(area->fa_size - VMCU_SLOT_RECORD_ROOM), record,
			      offsetof(struct record, reached));
	if (err == 0 &&
	    (record->magic != MAGIC || record->size > area->fa_size - VMCU_SLOT_RECORD_ROOM ||
	     record->crc != crc32_ieee((const uint8_t *)record, offsetof(struct record, crc)) ||
	     !vmcu_minimum_recorded(area, &version))) {
		err = -ENOENT;
	}
	flash_area_close(area);
	return err;
}

/** The bytes of a slot where the core can read them. */
static int get_bytes(struct vmcu_slots *slots, int i, size_t size, const void **data)
{
	const struct flash_area *area;
	int err;

	*data = slots->slot[i].mapped;
	if (*data != NULL) {
		return 0;
	}
	*data = slots->copy;
	if (slots->copy == NULL || slots->copy_size < size) {
		return -ENOMEM;
	}
	err = flash_area_open(slots->slot[i].area, &area);
	if (err == 0) {
		err = flash_area_read(area, 0, slots->copy, size);
		flash_area_close(area);
	}
	return err;
}

/** Binds the context to the model of a slot. */
static int bind_slot(struct vmcu_slots *slots, int i)
{
	const size_t head = vmcu_arena_head(&slots->model, slots->arena_size);
	int err = vmcu_init(&slots->ctx, &slots->model, slots->arena, head);

#if defined(VMCU_EXTERNAL_WEIGHTS)
	if (err == 0 && slots->model.chunk_count != 0U) {
		err = vmcu_set_reader(&slots->ctx, slots->slot[i].reader);
	}
#else
	ARG_UNUSED(i);
#endif
	return err;
}

/** Makes the model of a slot the one in the arena, if it passes; @a version becomes its own. */
static int load_slot(struct vmcu_slots *slots, int i, size_t size, uint32_t minimum,
		     uint32_t *version)
{
	const struct vmcu_load_options options = {
#if defined(VMCU_EXTERNAL_WEIGHTS)
		.reader = slots->slot[i].reader,
#endif
		.product = slots->product,
		.minimum = minimum,
	};
	uint32_t product;
	const void *data;
	int err = get_bytes(slots, i, size, &data);

	slots->ctx.model = NULL;
	slots->refusal = (struct vmcu_refusal){0};
	if (err == 0) {
		err = vmcu_model_load_as(&slots->model, data, size, slots->arena, slots->arena_size,
					 &options, &slots->refusal);
	}
	if (err == 0) {
		err = vmcu_container_release(data, size, &product, version);
	}
	if (err != 0) {
		return err;
	}
	err = bind_slot(slots, i);
	if (err == 0) {
		err = vmcu_self_test(&slots->ctx, data, size);
	}
	if (err == 0) {
		/* As if nothing had run. */
		err = bind_slot(slots, i);
	}
	if (err != 0) {
		slots->ctx.model = NULL;
	}
	return err;
}

static int check_blocks(const struct vmcu_slots *slots)
{
	for (int i = 0; i < 2; i++) {
		const struct flash_area *area;
		bool fits;

		if (flash_area_open(slots->slot[i].area, &area) != 0) {
			continue;
		}
		fits = flash_area_align(area) <= VMCU_SLOT_BLOCK_MAX &&
		       area->fa_size > VMCU_SLOT_RECORD_ROOM;
		flash_area_close(area);
		if (!fits) {
			return -ENOTSUP;
		}
	}
	return 0;
}

/** Raises the minimum to a version that an accepted slot requires of the next. */
static void raise_minimum(struct vmcu_slots *slots, uint32_t version)
{
	slots->reached = MAX(slots->reached, version);
	slots->minimum = MAX(slots->minimum, slots->reached);
}

int vmcu_slots_open(struct vmcu_slots *slots)
{
	struct record records[2];
	uint32_t version;
	bool whole[2];
	int newer;
	int err = check_blocks(slots);

	slots->used = NONE;
	slots->sequence = 0U;
	slots->reached = 0U;
	slots->writing = false;
	slots->ctx.model = NULL;
	if (err != 0) {
		return err;
	}
	err = -ENOENT;
	for (int i = 0; i < 2; i++) {
		const int got = read_record(slots, i, &records[i]);

		/* A slot that cannot be read is like an empty one. */
		whole[i] = (got == 0);
		err = (got != 0 && got != -ENOENT) ? got : err;
		slots->kept[i] =
			vmcu_minimum_read(slots->slot[i].area, whole[i] ? records[i].size : 0U);
		raise_minimum(slots, slots->kept[i]);
	}
	/* The number of updates may wrap around. */
	newer = (whole[1] &&
		 (!whole[0] || (int32_t)(records[1].sequence - records[0].sequence) > 0))
			? 1
			: 0;
	for (int n = 0; n < 2; n++) {
		const int i = (n == 0) ? newer : 1 - newer;

		if (!whole[i]) {
			continue;
		}
		if (n == 0) {
			slots->sequence = records[i].sequence;
		}
		/* It was new enough when it was taken. */
		err = load_slot(slots, i, records[i].size, 0U, &version);
		if (err == 0) {
			raise_minimum(slots, version);
			slots->used = (int8_t)i;
			slots->used_size = records[i].size;
			return 0;
		}
	}
	return err;
}

/** The slot that is not in use; of two, the one that is not alone with the greatest version. */
static int other_slot(const struct vmcu_slots *slots)
{
	return (slots->used == 0 || (slots->used == NONE && slots->kept[0] > slots->kept[1])) ? 1
											      : 0;
}

/** The greatest version is not in the slot that is about to be erased alone. */
static int keep_minimum(struct vmcu_slots *slots)
{
	const int stays = 1 - other_slot(slots);
	int err = 0;

	/* The slot to be erased may not have been readable at the start. */
	raise_minimum(slots, vmcu_minimum_read(slots->slot[other_slot(slots)].area, 0U));
	if (slots->kept[stays] < slots->reached) {
		err = vmcu_minimum_add(slots->slot[stays].area,
				       (stays == slots->used) ? slots->used_size : 0U,
				       slots->reached);
	}
	if (err == 0) {
		slots->kept[stays] = slots->reached;
	}
	return err;
}

int vmcu_slots_begin(struct vmcu_slots *slots, size_t size)
{
	const struct flash_area *area;
	int err = flash_area_open(slots->slot[other_slot(slots)].area, &area);

	slots->writing = false;
	if (err != 0) {
		return err;
	}
	if (size > area->fa_size - VMCU_SLOT_RECORD_ROOM) {
		err = -EFBIG;
	} else {
		err = keep_minimum(slots);
	}
	if (err == 0) {
		slots->kept[other_slot(slots)] = 0U;
		err = flash_area_erase(area, 0, area->fa_size);
	}
	flash_area_close(area);
	slots->writing = (err == 0);
	slots->left = (uint32_t)size;
	slots->written = 0U;
	slots->filled = 0U;
	return err;
}

/** Writes the gathered bytes, up to the end of a block. */
static int flush_block(struct vmcu_slots *slots)
{
	const struct flash_area *area;
	size_t whole;
	int err = flash_area_open(slots->slot[other_slot(slots)].area, &area);

	if (err != 0) {
		return err;
	}
	whole = ROUND_UP(slots->filled, flash_area_align(area));
	memset(&slots->chunk[slots->filled], flash_area_erased_val(area), whole - slots->filled);
	if (whole > 0U) {
		err = flash_area_write(area, (off_t)slots->written, slots->chunk, whole);
	}
	flash_area_close(area);
	slots->writing = (err == 0);
	slots->written += slots->filled;
	slots->filled = 0U;
	return err;
}

int vmcu_slots_write(struct vmcu_slots *slots, const void *data, size_t size)
{
	const uint8_t *from = data;

	if (!slots->writing) {
		return -EINVAL;
	}
	if (size > slots->left) {
		slots->writing = false;
		return -EFBIG;
	}
	slots->left -= (uint32_t)size;
	while (size > 0U) {
		const size_t part = MIN(size, sizeof(slots->chunk) - slots->filled);
		int err;

		memcpy(&slots->chunk[slots->filled], from, part);
		slots->filled += (uint32_t)part;
		from += part;
		size -= part;
		err = (slots->filled == sizeof(slots->chunk)) ? flush_block(slots) : 0;
		if (err != 0) {
			return err;
		}
	}
	return 0;
}

/** Writes the record of an update that has passed. */
static int write_record(const struct vmcu_slots *slots, uint32_t version)
{
	struct record record = {
		.magic = MAGIC,
		.sequence = slots->sequence + 1U,
		.size = slots->written,
	};
	uint8_t block[VMCU_SLOT_BLOCK_MAX];
	const struct flash_area *area;
	int err = flash_area_open(slots->slot[other_slot(slots)].area, &area);

	if (err != 0) {
		return err;
	}
	record.crc = crc32_ieee((const uint8_t *)&record, offsetof(struct record, crc));
	for (int n = 0; n < VMCU_MINIMUM_COPIES; n++) {
		vmcu_minimum_put(record.reached[n], version);
	}
	memset(block, flash_area_erased_val(area), sizeof(block));
	memcpy(block, &record, sizeof(record));
	err = flash_area_write(area, (off_t)(area->fa_size - VMCU_SLOT_RECORD_ROOM), block,
			       sizeof(block));
	flash_area_close(area);
	return err;
}

int vmcu_slots_commit(struct vmcu_slots *slots)
{
	const int i = other_slot(slots);
	struct vmcu_refusal refusal;
	uint32_t version;
	int err;

	if (!slots->writing) {
		return -EINVAL;
	}
	err = flush_block(slots);
	slots->writing = false;
	if (err != 0) {
		return err;
	}
	err = load_slot(slots, i, slots->written, slots->minimum, &version);
	if (err == 0) {
		err = write_record(slots, MAX(version, slots->reached));
	}
	if (err == 0) {
		raise_minimum(slots, version);
		slots->kept[i] = slots->reached;
		slots->used = (int8_t)i;
		slots->used_size = slots->written;
		slots->sequence++;
		return 0;
	}
	refusal = slots->refusal;
	slots->ctx.model = NULL;
	if (slots->used != NONE) {
		(void)load_slot(slots, slots->used, slots->used_size, 0U, &version);
	}
	slots->refusal = refusal;
	return err;
}

int vmcu_slots_update(struct vmcu_slots *slots, const void *data, size_t size)
{
	int err = vmcu_slots_begin(slots, size);

	if (err == 0) {
		err = vmcu_slots_write(slots, data, size);
	}
	return (err == 0) ? vmcu_slots_commit(slots) : err;
}
