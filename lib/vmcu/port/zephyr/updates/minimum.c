/*
 * SPDX-License-Identifier: Apache-2.0
 */

#include <errno.h>
#include <stdbool.h>

#include <zephyr/sys/byteorder.h>
#include <zephyr/sys/crc.h>
#include <zephyr/sys/util.h>

#include <vmcu/slots.h>

#include "minimum.h"

/** Behind the record, in bytes from its start. */
#define ADDED_AT VMCU_SLOT_BLOCK_MAX

void vmcu_minimum_put(uint8_t bytes[VMCU_MINIMUM_BYTES], uint32_t version)
{
	sys_put_le32(version, bytes);
	/* Inverted: of bytes that are all ones the CRC is all ones, too. */
	sys_put_le32(~crc32_ieee(bytes, sizeof(version)), &bytes[sizeof(version)]);
}

static uint32_t get(const uint8_t bytes[VMCU_MINIMUM_BYTES])
{
	const uint32_t version = sys_get_le32(bytes);
	const uint32_t crc = ~crc32_ieee(bytes, sizeof(version));

	return (crc == sys_get_le32(&bytes[sizeof(version)])) ? version : 0U;
}

/** The bytes from a slot's record on. */
static int read_room(const struct flash_area *area, uint8_t room[VMCU_SLOT_RECORD_ROOM])
{
	return flash_area_read(area, (off_t)(area->fa_size - VMCU_SLOT_RECORD_ROOM), room,
			       VMCU_SLOT_RECORD_ROOM);
}

int vmcu_minimum_read(uint8_t slot, uint32_t *version)
{
	uint8_t room[VMCU_SLOT_RECORD_ROOM];
	const struct flash_area *area;
	int err = flash_area_open(slot, &area);

	*version = 0U;
	if (err != 0) {
		return err;
	}
	err = read_room(area, room);
	if (err == 0) {
		*version = get(&room[VMCU_MINIMUM_AT]);
		for (size_t at = ADDED_AT; at < sizeof(room); at += VMCU_MINIMUM_BYTES) {
			*version = MAX(*version, get(&room[at]));
		}
	}
	flash_area_close(area);
	return err;
}

static bool is_erased(const uint8_t *bytes, size_t size, uint8_t erased)
{
	for (size_t i = 0; i < size; i++) {
		if (bytes[i] != erased) {
			return false;
		}
	}
	return true;
}

/** Where in a slot's room there is a block that can be written; 0 if there is none. */
static size_t find_room(const struct flash_area *area, const uint8_t *room, size_t block)
{
	for (size_t at = ADDED_AT; at + block <= VMCU_SLOT_RECORD_ROOM; at += block) {
		if (is_erased(&room[at], block, flash_area_erased_val(area))) {
			return at;
		}
	}
	return 0U;
}

int vmcu_minimum_add(uint8_t slot, uint32_t version)
{
	uint8_t room[VMCU_SLOT_RECORD_ROOM];
	const struct flash_area *area;
	size_t block;
	size_t at;
	int err = flash_area_open(slot, &area);

	if (err != 0) {
		return err;
	}
	block = ROUND_UP(VMCU_MINIMUM_BYTES, flash_area_align(area));
	err = read_room(area, room);
	at = (err == 0) ? find_room(area, room, block) : 0U;
	if (err == 0 && at == 0U) {
		err = -ENOSPC;
	}
	if (err == 0) {
		/* What is behind it in its block stays erased. */
		vmcu_minimum_put(&room[at], version);
		err = flash_area_write(area, (off_t)(area->fa_size - VMCU_SLOT_RECORD_ROOM + at),
				       &room[at], block);
	}
	flash_area_close(area);
	return err;
}
